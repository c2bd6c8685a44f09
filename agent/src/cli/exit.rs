//! Exit codes, the same for all subcommands.

use std::process::ExitCode;

/// Everything went well; `diff`: there is no difference.
pub const OK: ExitCode = ExitCode::SUCCESS;

/// Something failed; the message says what.
pub const FAILED: u8 = 1;

/// The command line or the configuration file is wrong; nothing was done. Also clap's.
pub const USAGE: u8 = 2;

/// `diff`, as diff(1): the kernel differs from what it should be.
pub const DIFFERENT: u8 = 1;

/// `diff`, as diff(1): there is nothing to compare; the message says why.
pub const NO_COMPARISON: u8 = 2;
