//! Tests against the kernel. They need root (for network namespaces) and `nft`, and fail without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;
mod rows;
mod sample;

use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use super::NetlinkKernel;
use crate::frontend::Family;
use crate::kernel::Kernel;
use crate::program::{Program, ProgramConfig};
use crate::transaction::Transaction;

/// Runs `test` in a network namespace of its own, which is gone when it returns.
fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET)
            .expect("these tests need root: they make network namespaces");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The `nft` to test with: `NFT`, or the system's.
fn nft(arguments: &[&str]) -> String {
    let program = std::env::var("NFT").unwrap_or_else(|_| "nft".into());
    let output = Command::new(&program).args(arguments).output().expect("nft is installed");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A kernel with the program of both families.
fn installed(config: &ProgramConfig) -> NetlinkKernel {
    let mut kernel = NetlinkKernel::open(config).unwrap();
    let installed = Family::ALL.map(|family| Program::new(family, config)).to_vec();
    kernel.commit(&Transaction { installed, ..Transaction::default() }).unwrap();
    kernel
}
