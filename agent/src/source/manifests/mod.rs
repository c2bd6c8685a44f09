//! Services, EndpointSlices, Nodes and ServiceCIDRs from files: a folder or a file of YAML or JSON
//! as `kubectl get … -o yaml` writes it, read once ([`load`]) or followed ([`follow()`]).
//!
//! While a file, or one of its documents, cannot be parsed, what the file said before stays. If it
//! never said anything, its other documents count.

mod contents;
mod document;
mod files;
mod follow;
mod foreign;
mod locate;
mod object;
mod split;
mod telling;
mod tracker;
mod world;
mod writers;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use self::contents::Contents;
pub use self::files::{MAX_FILE_SIZE, MAX_FILES};
pub use self::follow::follow;
use self::split::Part;
pub use self::telling::Telling;

pub use self::world::World;
use crate::model::Rejection;

/// Why a file, or all of them, could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file system said no.
    #[error("{}: cannot be read: {source}", .path.display())]
    Read {
        /// File or folder.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// Neither a file nor a folder, or beyond a limit.
    #[error("{}: {reason}", .path.display())]
    Unusable {
        /// File or folder.
        path: PathBuf,
        /// What is the matter, and what to do.
        reason: String,
    },
    /// Not YAML, or not JSON.
    #[error("{}:{line}:{column}: not valid {format}: {message}; {unused} until it is corrected", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
        /// `YAML` or `JSON`.
        format: &'static str,
        /// What the parser says.
        message: String,
        /// What becomes of the objects.
        unused: Unused,
    },
    /// Had objects of use, and has none any more: as when it is being written.
    #[error("{}: holds no Service, EndpointSlice or Node any more; what it said before stays; delete the file to remove its objects", .0.display())]
    Emptied(PathBuf),
    /// Its last object has no kind, or half of one: as when it is being written.
    #[error("{}: the last object has no kind, as if the file were not written to its end; what it said before stays in use; complete or remove the object", .0.display())]
    Unfinished(PathBuf),
}

/// What is not used of a file that does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// All of it.
    File,
    /// One document.
    Document,
    /// What is new: what was read before is still in use.
    News,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "nothing of this file is used",
            Self::Document => "this document of the file is not used",
            Self::News => "what this file said before stays in use",
        })
    }
}

impl ManifestError {
    /// The same for one document of the file.
    fn of_document(mut self, part: Part<'_>) -> Self {
        if let Self::Syntax { line, column, unused, .. } = &mut self {
            (*line, *column) = part.in_file((*line, *column));
            *unused = Unused::Document;
        }
        self
    }

    /// The same where earlier objects stay.
    fn keeping_objects(mut self) -> Self {
        if let Self::Syntax { unused, .. } = &mut self {
            *unused = Unused::News;
        }
        self
    }
}

/// A part of a manifest that is not used, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where the value stands, or the object that it belongs to.
    pub place: Place,
    /// What is not used, and why.
    #[serde(flatten)]
    pub rejection: Rejection,
}

impl AsRef<Rejection> for Finding {
    fn as_ref(&self) -> &Rejection {
        &self.rejection
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file.
    pub file: Arc<Path>,
    /// Not always known.
    pub position: Option<Position>,
}

/// Line and column, both from 1.
pub type Position = (u64, u64);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.position {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.rejection)
    }
}

/// Reads all of `path`, a file, a pipe, `-` for standard input, or a folder's `*.yaml`, `*.yml` and `*.json`. What is wrong with
/// some files or documents is in [`World::unread`], with objects in [`World::rejections`].
///
/// # Errors
/// If there are files and none can be read and parsed: what is wrong with the first.
pub fn load(path: &Path) -> Result<World, ManifestError> {
    let mut contents = Vec::new();
    let mut problems = Vec::new();
    let stream = files::is_stream(path).then(|| vec![path.to_owned()]);
    for file in stream.map_or_else(|| files::list(path), Ok)? {
        match files::read(&file).and_then(|bytes| parse(&file, &bytes)) {
            Ok((good, broken)) => {
                contents.push(good);
                problems.extend(broken);
            }
            Err(error) => problems.push(error),
        }
    }
    let unread = problems.iter().map(ToString::to_string).collect();
    match problems.into_iter().next() {
        Some(first) if contents.is_empty() => Err(first),
        _ => Ok(World { unread, ..World::merge(path, contents.iter()) }),
    }
}

/// What the file says, and which of its documents cannot be parsed.
fn parse(file: &Path, bytes: &[u8]) -> Result<(Contents, Vec<ManifestError>), ManifestError> {
    let parsed = document::parse(file, bytes)?;
    let cut = !bytes.ends_with(b"\n");
    let unfinished = parsed.pieces.last().is_some_and(|piece| piece.is_unfinished(cut));
    let contents = Contents::new(&Arc::from(file), parsed.pieces);
    Ok((Contents { unfinished, ..contents }, parsed.broken))
}

#[cfg(test)]
mod tests;
