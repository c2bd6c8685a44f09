//! How the C library manages this process's memory. Left alone, it keeps much of what a list takes
//! while it is decoded: threads have heaps of their own, and large blocks that come and go raise the
//! size below which blocks are not given back.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// It reads its settings here, when a process begins and never again.
const VARIABLE: &str = "GLIBC_TUNABLES";
/// One heap, and blocks of 128 KiB on apart from it. The hot path takes small blocks, in one thread.
const SETTINGS: &str = "glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=131072:\
                        glibc.malloc.trim_threshold=131072";

/// Begins this process anew with frugal settings, unless there are others. Comes back if there are, or
/// if it cannot: then it takes more memory, which is no reason not to run.
pub fn be_frugal() {
    if env::var_os(VARIABLE).is_some() {
        return;
    }
    // By its path and not as /proc/self/exe, which the kernel would name it after.
    let Ok(program) = env::current_exe() else { return };
    let mut words = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    // An error: otherwise this process is at its beginning again.
    let _ = command.args(words).env(VARIABLE, SETTINGS).exec();
}
