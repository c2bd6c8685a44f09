//! Kernel settings for connection tracking, written at start where they differ.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{info, warn};

use crate::config::Conntrack;

const MAX: &str = "proc/sys/net/netfilter/nf_conntrack_max";
const HASH_SIZE: &str = "sys/module/nf_conntrack/parameters/hashsize";
/// Entries for each bucket of the hash table at most.
const ENTRIES_PER_BUCKET: u32 = 4;

/// Why a setting could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It could not be written.
    #[error(
        "cannot set {} to {value}: {source}; run privileged on the host's network, or leave the \
         setting alone with {setting}",
        .path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// The flag that leaves it alone.
        setting: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It holds something else than a number.
    #[error("{}: {text:?} is not a number", .path.display())]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// What it holds.
        text: String,
    },
}

/// How many settings were not made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// Because this process may not.
    pub without_rights: usize,
    /// Because no process could from here.
    pub elsewhere: usize,
}

/// What became of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was like this.
    Same,
    /// It was that, and is changed.
    Changed(u64),
    /// The kernel does not have it.
    Missing,
    /// It is this, and cannot be changed from here.
    ReadOnly(u64),
    /// It may not even be looked at.
    Hidden,
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    path: &'static str,
    value: u64,
    /// Whether a larger value is good as well.
    at_least: bool,
    /// The flag with which it is left alone.
    left_alone_by: &'static str,
}

/// Makes the settings of this machine, and says whether it has the right to. What the kernel does not
/// have, or does not let this network namespace change, is a warning.
///
/// # Errors
/// If a setting cannot be read or written although it could be.
pub fn apply(conntrack: &Conntrack) -> Result<Made, SysctlError> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    apply_below(Path::new("/"), conntrack, u32::try_from(cpus).unwrap_or(u32::MAX))
}

fn apply_below(root: &Path, conntrack: &Conntrack, cpus: u32) -> Result<Made, SysctlError> {
    let mut made = Made::default();
    for setting in settings(conntrack, cpus) {
        let path = root.join(setting.path);
        match write(&path, &setting)? {
            Outcome::Same => {}
            Outcome::Changed(from) => {
                info!(path = %path.display(), from, to = setting.value, "kernel setting changed");
            }
            Outcome::Missing => {
                made.elsewhere += 1;
                warn!(
                    path = %path.display(),
                    value = setting.value,
                    "kernel setting not made: there is no such file; load the module nf_conntrack"
                );
            }
            Outcome::ReadOnly(is) => {
                made.elsewhere += 1;
                warn!(
                    path = %path.display(),
                    is,
                    value = setting.value,
                    "kernel setting not made: it can be changed only in the machine's first network \
                     namespace"
                );
            }
            Outcome::Hidden => {
                made.without_rights += 1;
                warn!(
                    path = %path.display(),
                    value = setting.value,
                    "kernel setting not made: it may not be read without rights in the machine's \
                     first user namespace"
                );
            }
        }
    }
    Ok(made)
}

/// What is to be set, in order.
fn settings(conntrack: &Conntrack, cpus: u32) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let Some(max) = conntrack.max_entries(cpus) {
        let left_alone_by = "--conntrack-max-per-core=0";
        let exact = |path, value: u32| Setting {
            path,
            value: value.into(),
            at_least: false,
            left_alone_by,
        };
        settings.push(Setting { at_least: true, ..exact(HASH_SIZE, max / ENTRIES_PER_BUCKET) });
        settings.push(exact(MAX, max));
    }
    let timeouts = [
        (
            "proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established",
            conntrack.tcp_established_timeout,
            "--conntrack-tcp-timeout-established=0",
        ),
        (
            "proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait",
            conntrack.tcp_close_wait_timeout,
            "--conntrack-tcp-timeout-close-wait=0",
        ),
        (
            "proc/sys/net/netfilter/nf_conntrack_udp_timeout",
            conntrack.udp_timeout,
            "--conntrack-udp-timeout=0",
        ),
        (
            "proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream",
            conntrack.udp_stream_timeout,
            "--conntrack-udp-timeout-stream=0",
        ),
    ];
    for (path, timeout, left_alone_by) in timeouts {
        if timeout > Duration::ZERO {
            // The kernel counts seconds; less than one would switch tracking off.
            let value = timeout.as_secs().max(1);
            settings.push(Setting { path, value, at_least: false, left_alone_by });
        }
    }
    if conntrack.tcp_be_liberal {
        settings.push(Setting {
            path: "proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal",
            value: 1,
            at_least: false,
            left_alone_by: "--conntrack-tcp-be-liberal=false",
        });
    }
    settings
}

fn write(path: &Path, setting: &Setting) -> Result<Outcome, SysctlError> {
    let is = match read_number(path) {
        Ok(Some(is)) => is,
        Ok(None) => return Ok(Outcome::Missing),
        Err(SysctlError::Read { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            return Ok(Outcome::Hidden);
        }
        Err(error) => return Err(error),
    };
    if is == setting.value || (setting.at_least && is > setting.value) {
        return Ok(Outcome::Same);
    }
    let value = setting.value.to_string();
    match fs::write(path, &value) {
        Ok(()) => Ok(Outcome::Changed(is)),
        Err(error) if is_read_only(path, &error) => Ok(Outcome::ReadOnly(is)),
        Err(source) => Err(SysctlError::Write {
            path: path.to_owned(),
            value,
            setting: setting.left_alone_by,
            source,
        }),
    }
}

/// The number that a file holds; `None` if there is no such file.
pub(super) fn read_number(path: &Path) -> Result<Option<u64>, SysctlError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SysctlError::Read { path: path.to_owned(), source }),
    };
    let text = text.trim();
    let number = text
        .parse()
        .map_err(|_| SysctlError::NotANumber { path: path.to_owned(), text: text.to_owned() })?;
    Ok(Some(number))
}

/// Whether nobody could write the file from here, whatever the rights: its mode, its file system or
/// the kernel says so.
fn is_read_only(path: &Path, error: &io::Error) -> bool {
    let nobody_writes =
        || fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o222 == 0);
    match error.kind() {
        // The latter for the size of the hash table, in other network namespaces than the first.
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::Unsupported => true,
        io::ErrorKind::PermissionDenied => nobody_writes(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "sysctl_tests.rs"]
mod tests;
