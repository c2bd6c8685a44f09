//! The `sliceproxy` binary: parses the command line and hands over to the library.

use std::process::ExitCode;

use sliceproxy::cli;

fn main() -> ExitCode {
    cli::main()
}
