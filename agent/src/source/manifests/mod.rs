//! Services, EndpointSlices, Nodes and ServiceCIDRs from files: a folder or a file of YAML or JSON
//! as `kubectl get … -o yaml` writes it, read once ([`load`]) or followed ([`follow()`]).
//!
//! A file counts as a whole: while it cannot be parsed, what it said before stays.

mod contents;
mod document;
mod files;
mod follow;
mod locate;
mod object;
mod tracker;
mod world;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use self::contents::Contents;
pub use self::files::{MAX_FILE_SIZE, MAX_FILES};
pub use self::follow::follow;

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
    #[error("{}:{line}:{column}: not valid {format}: {message}; nothing of this file is used until it is corrected", .path.display())]
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
    },
    /// Had objects of use, and has none any more: as when it is being written.
    #[error("{}: holds no Service, EndpointSlice or Node any more; what it said before stays; delete the file to remove its objects", .0.display())]
    Emptied(PathBuf),
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

/// Reads all of `path`, a file or a folder's `*.yaml`, `*.yml` and `*.json`.
///
/// # Errors
/// The first file that cannot be read or parsed; wrong objects only become
/// [`World::rejections`].
pub fn load(path: &Path) -> Result<World, ManifestError> {
    let mut contents = Vec::new();
    for file in files::list(path)? {
        let bytes = files::read(&file)?;
        contents.push(parse(&file, &bytes)?);
    }
    Ok(World::merge(contents.iter()))
}

fn parse(file: &Path, bytes: &[u8]) -> Result<Contents, ManifestError> {
    Ok(Contents::new(&Arc::from(file), document::parse(file, bytes)?))
}

#[cfg(test)]
mod tests;
