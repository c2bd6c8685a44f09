//! Exit codes, the same for all subcommands.

use std::process::ExitCode;

use crate::config::ConfigError;

/// Everything went well; `diff`: there is no difference.
pub const OK: ExitCode = ExitCode::SUCCESS;

/// Something failed; the message says what.
pub const FAILED: u8 = 1;

/// The command line or the configuration file is wrong; nothing was done. Also clap's.
pub const USAGE: u8 = 2;

/// A command line that clap takes and that makes no sense all the same.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub &'static str);

/// The code for `error`.
pub fn of(error: &anyhow::Error) -> ExitCode {
    let is_usage = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<UsageError>() || cause.is::<ConfigError>()
    };
    ExitCode::from(if error.chain().any(is_usage) { USAGE } else { FAILED })
}

/// `diff`, as diff(1): the kernel differs from what it should be.
pub const DIFFERENT: u8 = 1;

/// `diff`, as diff(1): there is nothing to compare; the message says why.
pub const NO_COMPARISON: u8 = 2;
