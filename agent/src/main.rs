//! The `sliceproxy` binary: parses the command line and hands over to the library.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use sliceproxy::cli;

/// Lists are decoded on one thread and forgotten on another: the C library keeps what that frees,
/// and a list's peak stays resident for good.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
