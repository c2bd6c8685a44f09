//! The fake kernel and the real one keep the contract of a kernel. The real one needs root, for
//! network namespaces, and fails without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contract;

use std::panic::resume_unwind;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::ProgramConfig;

#[test]
fn fake_kernel() {
    for (name, case) in contract::CASES {
        println!("{name}");
        case(&mut FakeKernel::new());
    }
    for (name, case) in contract::beside::CASES {
        println!("{name}");
        case(&mut SharedKernel::default());
    }
}

#[test]
fn real_kernel() {
    for (name, case) in contract::CASES {
        println!("{name}");
        in_namespace(move |kernel| case(kernel));
    }
    for (name, case) in contract::beside::CASES {
        println!("{name}");
        in_namespace(move |kernel| case(kernel));
    }
}

fn in_namespace(case: impl FnOnce(&mut NetlinkKernel) + Send + 'static) {
    // The namespace belongs to the thread and goes with it.
    let namespace = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("root, to make a network namespace");
        case(&mut NetlinkKernel::open(&ProgramConfig::default()).unwrap());
    });
    if let Err(panic) = namespace.join() {
        resume_unwind(panic);
    }
}
