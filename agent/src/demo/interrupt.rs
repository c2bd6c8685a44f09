//! Ctrl-C during the demo.

use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Exit code of a program that was ended by Ctrl-C, as shells expect it.
const INTERRUPTED: i32 = 130;

/// Ends the process in order on SIGINT and SIGTERM. Nothing has to be undone: namespaces,
/// connections and rules hang on this process and go with it.
///
/// Call it before other threads are started: they inherit that these signals wait.
///
/// # Errors
/// When the signals cannot be taken over.
pub(super) fn end_on_signals() -> std::io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.wait().is_ok() {
            eprintln!("\nInterrupted. The namespaces and everything in them are gone.");
            std::process::exit(INTERRUPTED);
        }
    })?;
    Ok(())
}
