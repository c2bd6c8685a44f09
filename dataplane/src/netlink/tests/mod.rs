//! Tests against the kernel. They need root (for network namespaces) and `nft`, and fail without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod flows;
mod leftovers;
mod nft;
mod others;
mod program;
mod refusals;
mod rows;
mod sample;
mod watch;
mod wire;

use nix::sched::{CloneFlags, unshare};

use super::NetlinkKernel;
use crate::frontend::Family;
use crate::kernel::Kernel;
use crate::program::{Program, ProgramConfig};
use crate::transaction::Transaction;

/// Runs `test` in a network namespace of its own, which is gone when it returns.
fn in_namespace<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET)
            .expect("these tests need root: they make network namespaces");
        test()
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A kernel with the program of both families.
fn installed(config: &ProgramConfig) -> NetlinkKernel {
    let mut kernel = NetlinkKernel::open(config).unwrap();
    let installed = Family::ALL.map(|family| Program::new(family, config)).to_vec();
    kernel.commit(&Transaction { installed, ..Transaction::default() }).unwrap();
    kernel
}
