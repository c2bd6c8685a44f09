//! The command line: what can be typed, and one file per subcommand.

pub mod args;
pub mod exit;
pub mod target;
