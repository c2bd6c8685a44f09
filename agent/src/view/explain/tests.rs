#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use sliceproxy_dataplane::fake::{FakeKernel, Tampering};
use sliceproxy_dataplane::frontend::Endpoint;
use sliceproxy_dataplane::rows::{AffinityRow, SetName};

use super::*;
use crate::model::{Event, Service};
use crate::view::{Needed, OutcomeKind, shop};

fn synced(node: &str, gates: &str) -> Engine<FakeKernel> {
    let mut engine = shop::snapshot(node, gates).engine(FakeKernel::new()).unwrap();
    engine.sync().unwrap();
    engine
}

fn told(engine: &mut Engine<FakeKernel>, target: &str, from: Option<&str>) -> ExplainView {
    let from = from.map(|from| from.parse().unwrap());
    let picture = Needed { client: from }.read(engine.kernel_mut()).unwrap();
    explain(engine, &Sight { picture: &picture, host: None }, &target.parse().unwrap(), from)
        .unwrap()
}

fn refused(engine: &mut Engine<FakeKernel>, target: &str, from: Option<&str>) -> String {
    let from = from.map(|from| from.parse().unwrap());
    let picture = engine.picture().unwrap();
    explain(engine, &Sight { picture: &picture, host: None }, &target.parse().unwrap(), from)
        .unwrap_err()
        .to_string()
}

/// Who is told what.
fn routes(view: &ExplainView) -> Vec<String> {
    let routes = view.frontends.iter().flat_map(|frontend| &frontend.routes);
    routes.map(|route| format!("{}: {}", route.from, route.summary)).collect()
}

fn reasons(view: &ExplainView) -> Vec<String> {
    let endpoints = view.service_ports.iter().flat_map(|port| &port.endpoints);
    endpoints.map(|e| format!("{} {}", e.endpoint, e.reason)).collect()
}

#[test]
fn a_client_of_a_family_that_the_service_does_not_have_is_told_so() {
    let mut engine = synced("node-a1", "");
    assert_eq!(
        refused(&mut engine, "shop/cart", Some("fd00::1")),
        "shop/cart has no IPv6 frontend that fd00::1 could reach, only IPv4 ones"
    );
    let message = refused(&mut engine, "shop/cart:9", Some("fd00::1"));
    assert!(message.contains("its ports are 7070/TCP"), "{message}");
}

#[test]
fn a_cluster_ip_with_topology() {
    let mut engine = synced("node-a1", "TopologyRouting");
    let view = told(&mut engine, "10.103.185.137:7070", None);
    assert_eq!(view.warnings, Vec::<String>::new());
    assert_eq!(view.frontends[0].service_port.as_deref(), Some("shop/cart:grpc/TCP"));
    assert_eq!(view.frontends[0].session_affinity_seconds, Some(600));
    assert_eq!(
        routes(&view),
        [
            "a pod on this node (10.244.1.254): DNAT to 10.244.2.11:7070; the endpoint sees the \
             client's address",
            "this node (172.18.0.11): DNAT to 10.244.2.11:7070; masqueraded: the endpoint sees \
             this node's address",
            "outside (192.0.2.1): DNAT to 10.244.2.11:7070; masqueraded: the endpoint sees this \
             node's address",
        ]
    );
    assert_eq!(
        reasons(&view),
        [
            "10.244.2.11:7070 ready, zone eu-1a, used: in this node's zone eu-1a",
            "10.244.4.11:7070 ready, zone eu-1c, not used: one endpoint is in this node's zone \
             eu-1a",
            "10.244.6.11:7070 ready, zone us-1a, not used: one endpoint is in this node's zone \
             eu-1a",
        ]
    );
    let port = &view.service_ports[0];
    assert_eq!(port.passed_over, ["not same node: no ready endpoint is there"]);
    assert_eq!(port.endpoints[0].percent, Some(100.0));
    assert_eq!(port.endpoints[1].percent, None);
    assert_eq!(port.endpoints[0].slices, ["shop/cart-pkt88"]);
}

#[test]
fn a_load_balancer_ip_with_source_ranges_and_policy_local() {
    let mut engine = synced("node-c1", "");
    let view = told(&mut engine, "192.0.2.20:443/tcp", None);
    let stranger = "dropped: the client is not in loadBalancerSourceRanges";
    assert_eq!(
        routes(&view),
        [
            format!("a pod on this node (10.244.4.254): {stranger}"),
            format!("this node (172.18.0.14): {stranger}"),
            format!("outside (192.0.2.1): {stranger}"),
            "a client in 203.0.113.0/24 (203.0.113.254): dropped: policy Local, and no usable \
             endpoint is on this node"
                .to_owned(),
        ]
    );
    let port = &view.service_ports[0];
    assert_eq!(port.topology.from_outside.as_ref().unwrap().used, 0);
    assert!(port.endpoints.iter().all(|endpoint| endpoint.from_outside.is_some()));
}

#[test]
fn source_ranges_that_restrict_nobody_are_told() {
    let mut engine = synced("node-c1", "");
    let name = "shop/api".parse::<Target>().unwrap();
    let Target::Service(name, _) = name else { panic!() };
    let mut service = Service::clone(engine.cache().service(&name).unwrap());
    service.source_ranges = vec!["fd00::/8".parse().unwrap()];
    engine.apply(Event::Service(Arc::new(service)));
    engine.sync().unwrap();
    assert_eq!(
        told(&mut engine, "192.0.2.20:443/tcp", None).warnings,
        ["loadBalancerSourceRanges of shop/api has no IPv4 range: 192.0.2.20:443/TCP is open to \
             everybody"]
    );
    let cluster_ip = engine.cache().service(&name).unwrap().cluster_ips[0];
    assert_eq!(told(&mut engine, &format!("{cluster_ip}:443"), None).warnings, [""; 0]);
}

#[test]
fn shares_are_those_of_the_choice() {
    let mut engine = synced("node-a1", "");
    let view = told(&mut engine, "shop/cart", Some("10.244.1.7"));
    let route = &view.frontends[0].routes[0];
    assert!(route.summary.starts_with("DNAT to one of 3 endpoints, 33.3 % each"), "{route:?}");
    let percents: Vec<f64> = route.choices.iter().map(|choice| choice.percent).collect();
    assert_eq!(percents, [33.333; 3]);
}

#[test]
fn a_remembered_client() {
    let mut engine = synced("node-a1", "");
    let Target::Frontend(frontend) = "10.103.185.137:7070".parse().unwrap() else { panic!() };
    let endpoint: Endpoint = Endpoint { address: "10.244.6.11".parse().unwrap(), port: 7070 };
    let client = "10.244.1.7".parse().unwrap();
    let (timeout_ms, expires_ms) = (600_000, 500_000);
    engine.kernel_mut().learn(AffinityRow { frontend, client, endpoint, timeout_ms, expires_ms });
    let view = told(&mut engine, "10.103.185.137:7070", Some("10.244.1.7"));
    assert_eq!(
        routes(&view),
        ["a pod on this node (10.244.1.7): DNAT to 10.244.6.11:7070, remembered for this \
             client; the endpoint sees the client's address"]
    );
}

#[test]
fn the_kernel_is_asked_not_the_wish() {
    let mut engine = synced("node-a1", "");
    let backend = engine
        .kernel_mut()
        .rows()
        .map(|row| row.key)
        .find(|key| {
            key.set() == SetName::Backends
                && key.frontend().is_some_and(|f| f.to_string() == "10.103.185.137:7070/TCP")
        })
        .unwrap();
    engine.kernel_mut().tamper(Tampering::Delete(backend));
    let view = told(&mut engine, "shop/cart:7070", Some("10.244.1.7"));
    assert_eq!(
        view.warnings,
        ["1 rows are not in the kernel as they should be; `sliceproxy diff` shows them"]
    );
    engine.kernel_mut().tamper(Tampering::DropTable(Family::V4));
    let view = told(&mut engine, "shop/cart:7070", Some("10.244.1.7"));
    assert_eq!(view.warnings[0], "the kernel has no table ip sliceproxy");
    assert_eq!(view.frontends[0].routes[0].outcome, OutcomeKind::Passed);
    assert!(view.frontends[0].routes[0].summary.contains("has no table"));
}

#[test]
fn who_loses_a_conflict_is_said_on_both_sides() {
    let mut engine = synced("node-a1", "");
    let partner = engine.cache().service(&"shop/partner".parse_name()).unwrap();
    let rival = Service {
        name: "shop/rival".parse_name(),
        created: partner.created + 1,
        cluster_ips: vec!["10.96.7.7".parse().unwrap()],
        ..(**partner).clone()
    };
    engine.apply(Event::Service(Arc::new(rival)));
    engine.sync().unwrap();
    let view = told(&mut engine, "192.0.2.10:443", None);
    assert_eq!(view.frontends[0].service_port.as_deref(), Some("shop/partner:https/TCP"));
    assert_eq!(view.frontends[0].denied, ["shop/rival:https/TCP"]);
    assert_eq!(view.service_ports.len(), 1, "only the winner's endpoints");
}

trait ParseName {
    fn parse_name(&self) -> crate::model::ServiceName;
}

impl ParseName for &str {
    fn parse_name(&self) -> crate::model::ServiceName {
        let (namespace, name) = self.split_once('/').unwrap();
        crate::model::ServiceName::new(namespace, name)
    }
}

#[test]
fn frontends_that_nobody_has() {
    let mut engine = synced("node-a1", "");
    for (target, expected) in [
        ("10.97.65.144:81", "10.97.65.144 is the cluster IP of shop/web, whose ports are 80/TCP"),
        ("172.18.0.11:31999", "no Service has node port 31999/TCP"),
        ("10.244.2.11:7070", "an endpoint of shop/cart:grpc/TCP, not a frontend"),
        ("198.51.100.9:80/udp", "no Service has this frontend"),
    ] {
        let view = told(&mut engine, target, None);
        let remark = view.frontends[0].remark.clone().unwrap();
        assert!(remark.contains(expected), "{target}: {remark}");
        assert!(view.service_ports.is_empty());
    }
    let view = told(&mut engine, "10.97.65.144:81", None);
    assert!(routes(&view).iter().all(|route| route.ends_with("refused by TCP reset")));
}

#[test]
fn questions_without_an_answer() {
    let mut engine = synced("node-a1", "");
    for (target, from, expected) in [
        ("shop/wbe", None, "in that namespace are shop/api, shop/cache"),
        ("shop/db", None, "there is no Service shop/db with a cluster IP (headless and"),
        ("none/x", None, "nor any other in namespace none"),
        ("shop/web:ftp", None, "its ports are 80/TCP (http), 9090/TCP (metrics)"),
        ("10.97.65.144:80", Some("fd00::1"), "no packet goes from one to the other"),
    ] {
        let error = refused(&mut engine, target, from);
        assert!(error.contains(expected), "{target}: {error}");
    }
}
