//! Ctrl-C during the demo.

use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Exit code of a program that a signal has ended, as shells expect it.
fn exit_code(signal: Signal) -> i32 {
    128 + signal as i32
}

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
        if let Ok(signal) = signals.wait() {
            eprintln!("\nInterrupted. The namespaces and everything in them are gone.");
            std::process::exit(exit_code(signal));
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_see_which_signal_ended_the_demo() {
        assert_eq!(exit_code(Signal::SIGINT), 130);
        assert_eq!(exit_code(Signal::SIGTERM), 143);
    }
}
