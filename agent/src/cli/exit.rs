//! Exit codes, the same for all subcommands.

use std::process::ExitCode;

/// Everything went well; `diff`: there is no difference.
pub const OK: ExitCode = ExitCode::SUCCESS;

/// Something failed; the message says what.
pub const FAILED: u8 = 1;

/// The command line or the configuration file is wrong; nothing was done. Also clap's.
pub const USAGE: u8 = 2;

/// `diff`: the kernel's rows differ from what they should be. Not 1, so that a script can tell a
/// difference from a failure.
pub const DIFFERENT: u8 = 3;
