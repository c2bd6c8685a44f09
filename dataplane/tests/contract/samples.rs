//! Rows for tests of everything that writes or reads them.

use std::net::IpAddr;

use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend, Protocol};
use sliceproxy_dataplane::program::{ChainDef, Program};
use sliceproxy_dataplane::rows::{Chain, LearnGroup, Row, RowKey, Verdict};

/// A row of every kind, and the chains they need.
pub(crate) fn every_row(program: &Program) -> (Vec<(Family, ChainDef)>, Vec<Row>) {
    let family = program.family();
    let (text, pod) = match family {
        Family::V4 => ("10.96.0.1", "10.244.1.5"),
        Family::V6 => ("fd00:10:96::1", "fd00:10:244::5"),
    };
    let address: IpAddr = text.parse().unwrap();
    let pod = Endpoint { address: pod.parse().unwrap(), port: 8080 };
    let [tcp, udp, sctp] =
        Protocol::ALL.map(|protocol| Frontend { address, protocol, port: 65_535 });
    let (wide, narrow) = match family {
        Family::V4 => ("0.0.0.0/1", "203.0.113.7/32"),
        Family::V6 => ("fd00::/8", "2001:db8::7/128"),
    };
    let frontends = vec![tcp, Frontend { port: 30_080, ..tcp }];
    let group = LearnGroup { timeout: 10_800, frontends };
    let chains = [
        Chain::Pick(1),
        Chain::Sticky(1),
        Chain::LocalPick(1),
        Chain::LocalSticky(1),
        Chain::Learn(10_800),
    ];
    let mut chains: Vec<_> =
        chains.into_iter().map(|chain| (family, program.row_chain(chain, None))).collect();
    chains.push((family, program.row_chain(group.chain(), Some(&group))));
    let rows = vec![
        Row::service(tcp, Verdict::Goto(Chain::Pick(1))),
        Row::service(udp, Verdict::Goto(Chain::Sticky(1))),
        Row::service(sctp, Verdict::Drop),
        Row::backend(tcp, 0, pod),
        Row::backend(udp, 70_000, pod),
        Row::local_service(tcp, Verdict::Goto(Chain::LocalPick(1))),
        Row::local_service(udp, Verdict::Goto(Chain::LocalSticky(1))),
        Row::local_backend(tcp, 0, pod),
        Row::no_backends(sctp),
        Row::sticky_frontend(udp, Chain::Learn(10_800)),
        Row::sticky_frontend(tcp, group.chain()),
        Row::member(RowKey::MasqueradeFrontend(tcp)),
        Row::member(RowKey::LocalFrontend(udp)),
        Row::member(RowKey::ClusterIp(address)),
        Row::member(RowKey::ServiceCidr(wide.parse().unwrap())),
        Row::member(RowKey::ServiceCidr(narrow.parse().unwrap())),
        Row::member(RowKey::RestrictedFrontend(tcp)),
        Row::member(RowKey::AllowedSource(tcp, wide.parse().unwrap())),
        Row::member(RowKey::AllowedSource(tcp, narrow.parse().unwrap())),
        Row::member(RowKey::AllowedSource(udp, narrow.parse().unwrap())),
        Row::member(RowKey::Hairpin(Protocol::Tcp, pod)),
    ];
    (chains, rows)
}
