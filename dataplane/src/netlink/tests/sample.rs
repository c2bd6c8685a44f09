//! A row of every kind, in both families.

use std::net::IpAddr;

use crate::frontend::{Endpoint, Family, Frontend, Protocol};
use crate::program::{ChainDef, Program, ProgramConfig};
use crate::rows::{AffinityRow, Chain, LearnGroup, Row, RowKey, Verdict};
use crate::transaction::Transaction;

/// An address: the last bytes of `10.0.0.0` or `fd00::`.
pub(super) fn address(family: Family, last: u32) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4((0x0a00_0000 + last).into()),
        Family::V6 => IpAddr::V6(((0xfd00 << 112) + u128::from(last)).into()),
    }
}

pub(super) fn frontend(family: Family, last: u32, port: u16) -> Frontend {
    Frontend { address: address(family, last), protocol: Protocol::Tcp, port }
}

pub(super) fn endpoint(family: Family, last: u32) -> Endpoint {
    Endpoint { address: address(family, last), port: 8080 }
}

pub(super) fn group(family: Family) -> LearnGroup {
    let frontends = vec![frontend(family, 3, 80), frontend(family, 4, 30_080)];
    LearnGroup { timeout: 10_800, frontends }
}

/// One row of every kind, with all kinds of verdicts.
pub(super) fn rows(family: Family) -> Vec<Row> {
    let web = frontend(family, 1, 80);
    let dns = Frontend { protocol: Protocol::Udp, ..frontend(family, 2, 53) };
    let sticky = frontend(family, 3, 80);
    let network = |text: &str| text.parse().unwrap();
    let [cidr, top, range, single] = match family {
        Family::V4 => ["10.96.0.0/12", "240.0.0.0/4", "192.0.2.0/24", "198.51.100.7/32"],
        Family::V6 => ["fd00:10::/108", "ff00::/8", "2001:db8::/32", "2001:db9::7/128"],
    };
    let member = Row::member;
    vec![
        Row::service(web, Verdict::Goto(Chain::Pick(2))),
        Row::service(dns, Verdict::Drop),
        Row::service(sticky, Verdict::Goto(Chain::Sticky(1))),
        Row::backend(web, 0, endpoint(family, 100)),
        Row::backend(web, 1, endpoint(family, 101)),
        Row::backend(web, 70_000, endpoint(family, 102)),
        Row::backend(sticky, 0, endpoint(family, 100)),
        Row::local_service(web, Verdict::Goto(Chain::LocalPick(1))),
        Row::local_service(sticky, Verdict::Goto(Chain::LocalSticky(1))),
        Row::local_backend(web, 0, endpoint(family, 101)),
        Row::no_backends(frontend(family, 9, 443)),
        member(RowKey::MasqueradeFrontend(web)),
        member(RowKey::LocalFrontend(web)),
        member(RowKey::ClusterIp(address(family, 1))),
        member(RowKey::ServiceCidr(network(cidr))),
        member(RowKey::ServiceCidr(network(top))),
        member(RowKey::RestrictedFrontend(dns)),
        member(RowKey::AllowedSource(dns, network(range))),
        member(RowKey::AllowedSource(dns, network(single))),
        member(RowKey::Hairpin(Protocol::Tcp, endpoint(family, 101))),
        Row::sticky_frontend(sticky, group(family).chain()),
        Row::sticky_frontend(dns, Chain::Learn(60)),
    ]
}

pub(super) fn affinity(family: Family) -> AffinityRow {
    AffinityRow {
        frontend: frontend(family, 3, 80),
        client: address(family, 200),
        endpoint: endpoint(family, 100),
        timeout_ms: 10_800_000,
        expires_ms: 5_400_000,
    }
}

/// The chains that [`rows`] point at.
pub(super) fn chains(family: Family, config: &ProgramConfig) -> Vec<(Family, ChainDef)> {
    let group = group(family);
    let program = Program::new(family, config);
    let names = [
        Chain::Pick(2),
        Chain::Pick(1),
        Chain::Sticky(1),
        Chain::LocalPick(1),
        Chain::LocalSticky(1),
        Chain::Learn(60),
        group.chain(),
    ];
    names.into_iter().map(|name| (family, program.row_chain(name, Some(&group)))).collect()
}

/// Everything: programs, chains, rows and a remembered client.
pub(super) fn everything(config: &ProgramConfig, families: &[Family]) -> Transaction {
    let mut all = Transaction::default();
    for &family in families {
        all.installed.push(Program::new(family, config));
        all.new_chains.extend(chains(family, config));
        all.added.extend(rows(family));
        all.remembered.push(affinity(family));
    }
    all
}
