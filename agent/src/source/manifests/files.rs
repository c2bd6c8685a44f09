//! Which files a path means, and their bytes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::ManifestError;

/// Most bytes of one file.
pub const MAX_FILE_SIZE: u64 = 512 << 20;

/// Most files of a folder.
pub const MAX_FILES: usize = 10_000;

/// How commands call standard input.
const STANDARD_INPUT: &str = "-";

/// The file itself, or the manifests of the folder, sorted. Not recursive; names that begin with
/// a dot are editors' and kubelet's own business.
pub(super) fn list(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let failed = |source| ManifestError::Read { path: path.to_owned(), source };
    let kind = fs::metadata(path).map_err(failed)?;
    if kind.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let unusable = |reason: String| ManifestError::Unusable { path: path.to_owned(), reason };
    if !kind.is_dir() {
        return Err(unusable("neither a file nor a folder, which `run` can follow".to_owned()));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        // Follows links: the files of a mounted ConfigMap are links.
        if is_manifest(&file) && fs::metadata(&file).is_ok_and(|kind| kind.is_file()) {
            files.push(file);
        }
    }
    if files.len() > MAX_FILES {
        let reason = format!("{} manifests; at most {MAX_FILES} are read; join some", files.len());
        return Err(unusable(reason));
    }
    files.sort();
    Ok(files)
}

/// Whether the path can be read only once: standard input, or a pipe.
pub(super) fn is_stream(path: &Path) -> bool {
    let other = |kind: fs::Metadata| !kind.is_file() && !kind.is_dir();
    path == Path::new(STANDARD_INPUT) || fs::metadata(path).is_ok_and(other)
}

fn is_manifest(file: &Path) -> bool {
    let hidden = file.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let known = file.extension().is_some_and(|extension| {
        ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    });
    known && !hidden
}

/// The bytes of `file`.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, ManifestError> {
    let mut bytes = Vec::new();
    let open: io::Result<Box<dyn Read>> = match file.to_str() {
        Some(STANDARD_INPUT) => Ok(Box::new(io::stdin().lock())),
        _ => File::open(file).map(|file| Box::new(file) as _),
    };
    open.and_then(|open| open.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes))
        .map_err(|source| ManifestError::Read { path: file.to_owned(), source })?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        return Err(ManifestError::Unusable {
            path: file.to_owned(),
            reason: format!("larger than {} MiB; split it", MAX_FILE_SIZE >> 20),
        });
    }
    Ok(bytes)
}
