#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::frontend::{Frontend, Protocol};
use crate::program::{PodTraffic, ProgramConfig};
use crate::rows::{AffinityRow, Chain, Row, RowKey, Verdict};
use crate::{frontend::Family, kernel::KernelState, kernel::TableState, picture::Picture};

const POD: &str = "10.244.1.5";
const OUTSIDE: &str = "192.0.2.9";
const NODE: &str = "192.168.1.1";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn frontend(text: &str) -> Frontend {
    let socket: std::net::SocketAddr = text.parse().unwrap();
    Frontend { address: socket.ip(), protocol: Protocol::Tcp, port: socket.port() }
}

fn endpoint(text: &str) -> Endpoint {
    let socket: std::net::SocketAddr = text.parse().unwrap();
    Endpoint { address: socket.ip(), port: socket.port() }
}

fn program(family: Family) -> Program {
    let config = ProgramConfig {
        pods_v4: PodTraffic::From("10.244.0.0/16".parse().unwrap()),
        pods_v6: PodTraffic::InterfacePrefix("veth".to_owned()),
        ..ProgramConfig::default()
    };
    Program::new(family, &config)
}

fn rows(rows: impl IntoIterator<Item = Row>) -> BTreeMap<RowKey, RowValue> {
    rows.into_iter().map(|row| (row.key, row.value)).collect()
}

/// A Service with three endpoints, the first of them on this node.
fn web() -> Vec<Row> {
    let web = frontend("10.96.0.1:80");
    vec![
        Row::service(web, Verdict::Goto(Chain::Pick(3))),
        Row::backend(web, 0, endpoint("10.244.1.5:8080")),
        Row::backend(web, 1, endpoint("10.244.2.5:8080")),
        Row::backend(web, 2, endpoint("10.244.3.5:8080")),
        Row::member(RowKey::ClusterIp(web.address)),
        Row::member(RowKey::ServiceCidr("10.96.0.0/12".parse().unwrap())),
        Row::member(RowKey::Hairpin(Protocol::Tcp, endpoint("10.244.1.5:8080"))),
    ]
}

fn packet(source: &str, destination: &str) -> Packet {
    let frontend = frontend(destination);
    Packet {
        source: address(source),
        destination: frontend.address,
        protocol: 6,
        port: frontend.port,
        input_interface: Some("eth0".to_owned()),
        origin: if source == NODE { Origin::ThisNode } else { Origin::Elsewhere },
    }
}

fn send(state: &impl Rows, packet: &Packet) -> Walk {
    let node: Node = [address(NODE)].into_iter().collect();
    walk(&program(Family::of(packet.destination)), state, &node, packet)
}

fn endpoints(walk: &Walk) -> Vec<(Option<Slot>, String, u32)> {
    match &walk.outcome {
        Outcome::Translated { choices, .. } => {
            choices.iter().map(|c| (c.slot, c.endpoint.to_string(), c.share)).collect()
        }
        other => panic!("not translated but {other:?}:\n{walk}"),
    }
}

fn masquerade(walk: &Walk) -> Masquerade {
    match walk.outcome {
        Outcome::Translated { masquerade, .. } => masquerade,
        ref other => panic!("not translated but {other:?}"),
    }
}

#[test]
fn all_endpoints_are_told_with_equal_shares() {
    let walk = send(&rows(web()), &packet("10.244.1.9", "10.96.0.1:80"));
    let expected = [
        (Some(0), "10.244.1.5:8080".to_owned(), 1),
        (Some(1), "10.244.2.5:8080".to_owned(), 1),
        (Some(2), "10.244.3.5:8080".to_owned(), 1),
    ];
    assert_eq!(endpoints(&walk), expected);
    assert_eq!(masquerade(&walk), Masquerade::Never);
}

#[test]
fn a_pod_that_may_reach_itself_is_masqueraded_for_that_endpoint_only() {
    let walk = send(&rows(web()), &packet(POD, "10.96.0.1:80"));
    assert_eq!(masquerade(&walk), Masquerade::HairpinOnly);
    let Outcome::Translated { choices, .. } = &walk.outcome else { panic!() };
    let masqueraded: Vec<_> = choices.iter().map(|choice| choice.masqueraded).collect();
    assert_eq!(masqueraded, [Some(MasqueradedFor::Hairpin), None, None]);
    // The other two take the same steps and are told once.
    let groups = walk.steps.iter().filter(|step| matches!(step, Step::Choices { .. })).count();
    assert_eq!(groups, 2);
}

#[test]
fn what_is_not_a_pod_is_masqueraded_on_the_way_to_a_cluster_ip() {
    for source in [OUTSIDE, NODE] {
        let walk = send(&rows(web()), &packet(source, "10.96.0.1:80"));
        assert_eq!(masquerade(&walk), Masquerade::Always, "{walk}");
    }
}

#[test]
fn a_missing_slot_falls_to_slot_0() {
    let mut state = rows(web());
    state.remove(&RowKey::Backend(frontend("10.96.0.1:80"), 1));
    let walk = send(&state, &packet("10.244.1.9", "10.96.0.1:80"));
    let expected =
        [(Some(0), "10.244.1.5:8080".to_owned(), 2), (Some(2), "10.244.3.5:8080".to_owned(), 1)];
    assert_eq!(endpoints(&walk), expected);
}

#[test]
fn shares_without_an_endpoint_are_lost_not_hidden() {
    let mut state = rows(web());
    state.remove(&RowKey::Backend(frontend("10.96.0.1:80"), 0));
    let walk = send(&state, &packet("10.244.1.9", "10.96.0.1:80"));
    let Outcome::Translated { lost, choices, .. } = &walk.outcome else { panic!("{walk}") };
    assert_eq!((*lost, choices.len()), (1, 2));
    for slot in 1..3 {
        state.remove(&RowKey::Backend(frontend("10.96.0.1:80"), slot));
    }
    let walk = send(&state, &packet("10.244.1.9", "10.96.0.1:80"));
    let chain = "reject-now".to_owned();
    assert_eq!(walk.outcome, Outcome::Refused { by: RefusedBy::TcpReset, chain });
}

#[test]
fn refusals_are_by_reset_for_tcp_and_by_icmp_for_the_rest() {
    let state = rows(web());
    let undefined_port = packet("10.244.1.9", "10.96.0.1:81");
    let icmp = Packet { protocol: 1, ..undefined_port.clone() };
    let udp = Packet { protocol: 17, ..undefined_port.clone() };
    for (packet, by) in
        [(undefined_port, RefusedBy::TcpReset), (udp, RefusedBy::Icmp), (icmp, RefusedBy::Icmp)]
    {
        let chain = "reject-now".to_owned();
        assert_eq!(send(&state, &packet).outcome, Outcome::Refused { by, chain });
    }
}

#[test]
fn an_unallocated_service_address_is_dropped_for_everyone() {
    for source in [POD, OUTSIDE, NODE] {
        let walk = send(&rows(web()), &packet(source, "10.96.7.7:80"));
        assert_eq!(walk.outcome, Outcome::Dropped { chain: "refuse".to_owned() }, "{walk}");
    }
}

#[test]
fn what_is_none_of_our_business_passes() {
    for source in [POD, OUTSIDE, NODE] {
        for destination in ["198.51.100.1:443", "192.168.1.1:22"] {
            let walk = send(&rows(web()), &packet(source, destination));
            assert_eq!(walk.outcome, Outcome::Passed, "{walk}");
        }
    }
}

#[test]
fn a_node_port_without_endpoints_is_refused_in_input() {
    let port = frontend("192.168.1.1:30080");
    let state = rows([Row::no_backends(port)]);
    for source in [OUTSIDE, POD, NODE] {
        let walk = send(&state, &packet(source, "192.168.1.1:30080"));
        assert!(matches!(walk.outcome, Outcome::Refused { .. }), "{source}: {walk}");
    }
}

/// A load-balancer address with `externalTrafficPolicy: Local`, no endpoint on this node.
fn local_policy() -> Vec<Row> {
    let lb = frontend("203.0.113.7:443");
    vec![
        Row::service(lb, Verdict::Goto(Chain::Pick(1))),
        Row::backend(lb, 0, endpoint("10.244.2.5:8443")),
        Row::local_service(lb, Verdict::Drop),
        Row::member(RowKey::LocalFrontend(lb)),
    ]
}

#[test]
fn the_local_policy_binds_outsiders_only() {
    let state = rows(local_policy());
    let walk = send(&state, &packet(OUTSIDE, "203.0.113.7:443"));
    assert_eq!(walk.outcome, Outcome::Dropped { chain: "select".to_owned() });
    let walk = send(&state, &packet(POD, "203.0.113.7:443"));
    assert_eq!(masquerade(&walk), Masquerade::Never);
    let walk = send(&state, &packet(NODE, "203.0.113.7:443"));
    assert_eq!(masquerade(&walk), Masquerade::Always);
}

#[test]
fn source_ranges_are_checked_before_anything_else() {
    let lb = frontend("203.0.113.7:443");
    let mut all = local_policy();
    all.push(Row::member(RowKey::RestrictedFrontend(lb)));
    all.push(Row::member(RowKey::AllowedSource(lb, "10.244.0.0/17".parse().unwrap())));
    let state = rows(all);
    let inside = send(&state, &packet(POD, "203.0.113.7:443"));
    assert_eq!(endpoints(&inside).len(), 1);
    for source in ["10.244.200.1", OUTSIDE, NODE] {
        let walk = send(&state, &packet(source, "203.0.113.7:443"));
        assert_eq!(walk.outcome, Outcome::Dropped { chain: "source-ranges".to_owned() });
    }
}

/// The Service of [`web`] with session affinity, as it is read back from a kernel.
fn sticky(clients: Vec<AffinityRow>) -> Picture {
    let web_frontend = frontend("10.96.0.1:80");
    let mut all: Vec<Row> =
        web().into_iter().filter(|row| row.key != RowKey::Service(web_frontend)).collect();
    all.push(Row::service(web_frontend, Verdict::Goto(Chain::Sticky(3))));
    all.push(Row::sticky_frontend(web_frontend, Chain::Learn(600)));
    let table = TableState { rows: all, ..TableState::default() };
    Picture::from(KernelState { v4: Some(table), v6: None }).with_clients(clients)
}

#[test]
fn an_unknown_client_is_learned_and_a_known_one_sent_back() {
    let learned = sticky(Vec::new());
    let walk = send(&learned, &packet("10.244.1.9", "10.96.0.1:80"));
    assert_eq!(endpoints(&walk).len(), 3);
    let text = walk.to_string();
    assert!(text.contains("for 600 s"), "{text}");

    let client = AffinityRow {
        frontend: frontend("10.96.0.1:80"),
        client: address("10.244.1.9"),
        endpoint: endpoint("10.244.3.5:8080"),
        timeout_ms: 600_000,
        expires_ms: 1,
    };
    let walk = send(&sticky(vec![client]), &packet("10.244.1.9", "10.96.0.1:80"));
    assert_eq!(endpoints(&walk), [(None, "10.244.3.5:8080".to_owned(), 1)]);
    let other = send(&sticky(vec![client]), &packet("10.244.1.8", "10.96.0.1:80"));
    assert_eq!(endpoints(&other).len(), 3);
}

#[test]
fn pods_are_known_by_interface_in_the_other_family() {
    let web = frontend("[fd00::1]:80");
    let state = rows([
        Row::service(web, Verdict::Goto(Chain::Pick(1))),
        Row::backend(web, 0, endpoint("[fd01::5]:8080")),
        Row::member(RowKey::ClusterIp(web.address)),
    ]);
    let mut from_pod = packet("fd01::9", "[fd00::1]:80");
    from_pod.input_interface = Some("veth1234".to_owned());
    assert_eq!(masquerade(&send(&state, &from_pod)), Masquerade::Never);
    let from_outside = packet("2001:db8::1", "[fd00::1]:80");
    assert_eq!(masquerade(&send(&state, &from_outside)), Masquerade::Always);
}

#[test]
fn the_way_reads_like_a_story() {
    let walk = send(&rows(web()), &packet(OUTSIDE, "10.96.0.1:80"));
    let expected = "\
prerouting filter-prerouting[1]: goto source-ranges
prerouting source-ranges[1]: restricted-frontends { 10.96.0.1 . tcp . 80 }: not there
prerouting nat-prerouting[1]: goto select
prerouting select[1]: masquerade-frontends { 10.96.0.1 . tcp . 80 }: not there
prerouting select[2]: ip saddr != 10.244.0.0/16: yes
prerouting select[2]: cluster-ips { 10.96.0.1 }: there
prerouting select[2]: marked for masquerading
prerouting select[3]: fib saddr type local: no
prerouting select[4]: ip saddr != 10.244.0.0/16: yes
prerouting select[4]: fib saddr type != local: yes
prerouting select[4]: local-services { 10.96.0.1 . tcp . 80 }: not there
prerouting select[5]: services { 10.96.0.1 . tcp . 80 }: goto pick-3
prerouting pick-3[1]: meta l4proto { tcp, udp, sctp }: yes
prerouting pick-3[1]: backends { 10.96.0.1 . tcp . 80 . 0..2 }: one at random, 3 there
to 10.244.1.5:8080 and 2 more:
routing: 10.244.1.5 is elsewhere
";
    assert!(walk.to_string().starts_with(expected), "{walk}");
    let end = "\
translated; the endpoint sees the node's address
  slot 0: 10.244.1.5:8080, 1 in 3
  slot 1: 10.244.2.5:8080, 1 in 3
  slot 2: 10.244.3.5:8080, 1 in 3";
    assert!(walk.to_string().ends_with(end), "{walk}");
}

#[test]
fn a_chain_that_draws_from_millions_ends() {
    let web = frontend("10.96.0.1:80");
    let state = rows([
        Row::service(web, Verdict::Goto(Chain::Pick(u32::MAX))),
        Row::backend(web, 3, endpoint("10.244.1.5:8080")),
    ]);
    let walk = send(&state, &packet(POD, "10.96.0.1:80"));
    let Outcome::Translated { lost, .. } = walk.outcome else { panic!("{walk}") };
    assert_eq!(lost, u32::MAX - 1);
}

fn some_frontend() -> impl Strategy<Value = Frontend> {
    (0..4u8, 0..3usize, 80..82u16).prop_map(|(host, protocol, port)| Frontend {
        address: IpAddr::from([10, 96, 0, host]),
        protocol: Protocol::ALL[protocol],
        port,
    })
}

fn some_row() -> impl Strategy<Value = Row> {
    let endpoint = (1..4u8, 1..200u8).prop_map(|(node, host)| Endpoint {
        address: IpAddr::from([10, 244, node, host]),
        port: 8080,
    });
    (some_frontend(), endpoint, 0..4u32, 1..5u32, 0..9u8).prop_map(
        |(frontend, endpoint, slot, n, kind)| match kind {
            0 | 1 => Row::service(frontend, Verdict::Goto(Chain::Pick(n))),
            2 => Row::local_service(frontend, Verdict::Goto(Chain::LocalPick(n))),
            3 => Row::local_backend(frontend, slot, endpoint),
            4 => Row::no_backends(frontend),
            5 => Row::member(RowKey::ClusterIp(frontend.address)),
            6 => Row::local_service(frontend, Verdict::Drop),
            _ => Row::backend(frontend, slot, endpoint),
        },
    )
}

proptest! {
    /// However rows are mixed up, a packet never reaches an endpoint that is not among the
    /// frontend's own, and shares add up.
    #[test]
    fn no_endpoint_but_the_frontends_own(
        all in prop::collection::vec(some_row(), 0..60),
        frontend in some_frontend(),
        source in 0..3usize,
    ) {
        let state = rows(all);
        let mut packet = packet([POD, OUTSIDE, NODE][source], "10.96.0.1:80");
        packet.destination = frontend.address;
        packet.port = frontend.port;
        packet.protocol = frontend.protocol.number();
        let walk = send(&state, &packet);
        if let Outcome::Translated { choices, lost, .. } = &walk.outcome {
            prop_assert!(!choices.is_empty());
            for choice in choices {
                let slot = choice.slot.unwrap();
                let value = Some(RowValue::Endpoint(choice.endpoint));
                prop_assert!(
                    state.row(&RowKey::Backend(frontend, slot)) == value
                        || state.row(&RowKey::LocalBackend(frontend, slot)) == value
                );
            }
            let total = choices.iter().map(|choice| choice.share).sum::<u32>() + lost;
            prop_assert!((1..5).contains(&total), "{total}");
        }
    }
}
