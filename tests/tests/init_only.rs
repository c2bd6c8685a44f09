//! `--init-only` makes the settings of the machine and ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sliceproxy::lab::Netns;
use sliceproxy_tests::agent::{command, printed};
use sliceproxy_tests::require_root;

const ESTABLISHED: &str = "netfilter/nf_conntrack_tcp_timeout_established";
const UDP_STREAM: &str = "netfilter/nf_conntrack_udp_timeout_stream";

#[test]
fn settings_are_made_and_nothing_else() {
    require_root();
    let netns = Netns::new().unwrap();
    let udp_before = netns.sysctl(UDP_STREAM).unwrap();
    let flags = ["run", "--init-only", "--manifests", "/nonexistent", "--node-name", "n"];
    let timeout = ["--conntrack-tcp-timeout-established=77m"];
    let output = command(&netns, &[&flags[..], &timeout[..]].concat()).unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(netns.sysctl(ESTABLISHED).unwrap(), (77 * 60).to_string());
    assert_eq!(netns.sysctl(UDP_STREAM).unwrap(), udp_before, "0 leaves it alone");
    let mut kernel = netns
        .run(|| {
            sliceproxy_dataplane::netlink::NetlinkKernel::open(
                &sliceproxy_dataplane::program::ProgramConfig::default(),
            )
        })
        .unwrap()
        .unwrap();
    let state = sliceproxy_dataplane::kernel::Kernel::read(&mut kernel).unwrap();
    assert_eq!(state, sliceproxy_dataplane::kernel::KernelState::default(), "no table");
}
