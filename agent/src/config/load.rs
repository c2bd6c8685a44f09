//! The thin shell of the configuration: reads the file and the host's name.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Config;
use super::check::Problem;
use super::document::{self, Document, FileError};
use super::flags::Flags;
use super::legacy::unused_fields;
use super::resolve::resolve;
use crate::clip::clip;

const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file makes no sense.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// Settings that cannot be used.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

fn lines(problems: &[impl fmt::Display]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A configuration, and what its author should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// To be logged once.
    pub warnings: Vec<String>,
}

impl Config {
    /// From the command line and the file that it names.
    ///
    /// # Errors
    /// See [`ConfigError`]. Nothing is partly applied.
    pub fn load(flags: &Flags) -> Result<Loaded, ConfigError> {
        let document = match flags.config_file() {
            Some(path) => read(path)?,
            None => Document::default(),
        };
        let hostname = match flags.source.node_name.as_deref() {
            Some(name) if !name.is_empty() => String::new(),
            _ => std::fs::read_to_string(HOSTNAME)
                .map_err(|source| ConfigError::Read { path: HOSTNAME.into(), source })?,
        };
        Self::from_parts(flags, document, &hostname).map_err(ConfigError::Invalid)
    }

    /// The pure part of [`Config::load`].
    pub(super) fn from_parts(
        flags: &Flags,
        document: Document,
        hostname: &str,
    ) -> Result<Loaded, Vec<Problem>> {
        let Document { mut file, unknown } = document;
        let mut unused = unused_fields(&file.kube_proxy);
        unused.extend(flags.without_effect());
        flags.overlay(&mut file);
        let (config, further) = resolve(&file, flags.api.master.as_deref(), hostname)?;
        let mut warnings = Vec::new();
        if !unknown.is_empty() {
            warnings.push(format!("unknown fields, ignored: {}", unknown.join(", ")));
        }
        if !unused.is_empty() {
            warnings
                .push(format!("settings without a meaning here, ignored: {}", unused.join(", ")));
        }
        warnings.extend(further);
        let warnings = warnings.iter().map(|warning| clip(warning)).collect();
        Ok(Loaded { config, warnings })
    }
}

fn read(path: &Path) -> Result<Document, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    document::parse(&text).map_err(|source| ConfigError::File { path: path.to_owned(), source })
}
