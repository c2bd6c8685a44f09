//! The fake kernel keeps the contract of a kernel.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contract;

use sliceproxy_dataplane::fake::FakeKernel;

#[test]
fn fake_kernel() {
    for (name, case) in contract::CASES {
        println!("{name}");
        case(&mut FakeKernel::new());
    }
}
