//! Connection tracking of kernels that are not like this one.

use std::net::SocketAddr;

use super::in_namespace;
use crate::conntrack::{Conntrack as _, Flow, Scope};
use crate::frontend::{Endpoint, Family, Frontend, Protocol};
use crate::netlink::NetlinkConntrack;

fn flow(protocol: Protocol, last_byte: u8, port: u16) -> Flow {
    Flow {
        client: SocketAddr::from(([10, 1, 0, last_byte], port)),
        frontend: Frontend { address: [10, 96, 0, last_byte].into(), protocol, port },
        answers_from: Endpoint { address: [10, 244, 0, 1].into(), port: 53 },
        zone: 0,
    }
}

#[test]
fn a_kernel_that_filters_nothing_deletes_the_same_flows() {
    in_namespace(|| {
        let wanted = flow(Protocol::Udp, 1, 53);
        let others = [
            flow(Protocol::Udp, 2, 53),
            flow(Protocol::Udp, 1, 54),
            flow(Protocol::Tcp, 1, 53),
            flow(Protocol::Sctp, 1, 53),
        ];
        let scope = Scope::around([wanted.frontend]).unwrap();
        for filters in [true, false] {
            let mut table = NetlinkConntrack::open().unwrap();
            if !filters {
                table = table.without_filters();
            }
            table.plant(others.iter().chain([&wanted])).unwrap();
            let swept = table.sweep(&scope, &mut |_| true).unwrap();
            assert_eq!((swept.dumps, swept.seen, swept.deleted), (1, 1, 1), "{filters}");
            assert_eq!(table.plant(others).unwrap(), 0, "all others are still there");
        }
    });
}

#[test]
fn a_callback_that_takes_its_time_sees_every_flow() {
    in_namespace(|| {
        let flows: Vec<Flow> = (1..=2_000).map(|port| flow(Protocol::Udp, 1, port)).collect();
        let mut table = NetlinkConntrack::open().unwrap();
        let mut other = NetlinkConntrack::open().unwrap();
        assert_eq!(table.plant(&flows).unwrap(), 2_000);
        let scope = Scope { family: Family::V4, address: None, port: None };
        let mut disturbed = false;
        let swept = table
            .sweep(&scope, &mut |flow| {
                // Somebody else empties the table in the middle of the dump.
                if !std::mem::replace(&mut disturbed, true) {
                    other.sweep(&scope, &mut |other| other.client.port() % 2 == 0).unwrap();
                }
                flow.client.port() % 2 == 1
            })
            .unwrap();
        assert_eq!(swept.deleted, 1_000);
        let left = table.sweep(&scope, &mut |_| false).unwrap();
        assert_eq!(left.seen, 0);
    });
}
