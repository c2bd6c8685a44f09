//! What health checks answer after each commit, as load balancers would see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::tests::{Agent, service, slice};
use super::*;
use crate::model::Service;

/// Endpoints by last byte, node, and whether they are ready or only terminate.
type Endpoints = &'static [(u8, &'static str, bool)];

/// An agent that serves health checks, on no socket, and has listed `service` with an endpoint here
/// and one elsewhere.
fn listed(service: Service) -> Agent {
    let health = Arc::new(Health::new(Duration::from_secs(60)));
    let (failures, _) = tokio::sync::mpsc::unbounded_channel();
    let mut checks = HealthCheckNodePorts::new(health, failures);
    checks.listen_on(vec![]);
    let mut agent = Agent::with(Some(checks));
    agent.take(Event::AllServices(vec![Arc::new(service)]));
    agent.take(Event::AllSlices(vec![slice(&[(1, "n1", true), (2, "n2", true)])]));
    agent.sync();
    agent
}

/// Ports that are open, and how many endpoints each tells of.
fn answers(agent: &Agent) -> Vec<(u16, usize)> {
    let checks = agent.observer.checks.as_ref().unwrap().wanted();
    checks.iter().map(|((_, port), check)| (*port, check.local_endpoints)).collect()
}

fn checked_on(port: u16) -> Service {
    Service { health_check_node_port: Some(port), ..service() }
}

fn put(service: Service) -> Event {
    Event::Service(Arc::new(service))
}

#[tokio::test]
async fn a_health_check_counts_different_ready_addresses_on_this_node() {
    let mut agent = listed(service());
    let cases: [(Endpoints, usize); 5] = [
        (&[(1, "n1", true), (2, "n2", true)], 1),
        (&[(1, "n1", true), (3, "n1", true), (2, "n2", true)], 2),
        (&[(1, "n1", false), (3, "n1", true)], 1),
        (&[(1, "n1", false), (2, "n2", true)], 0),
        (&[], 0),
    ];
    for (endpoints, expected) in cases {
        agent.take(Event::Slice(slice(endpoints)));
        agent.sync();
        assert_eq!(answers(&agent), [(30_000, expected)], "{endpoints:?}");
    }
}

/// The kernel is to hold the same rows before and after, so that nothing is written.
#[tokio::test]
async fn a_health_check_fails_as_soon_as_the_last_local_endpoint_terminates() {
    let (ready, terminating): (Endpoints, Endpoints) = (&[(1, "n1", true)], &[(1, "n1", false)]);
    let mut agent = listed(service());
    agent.take(Event::Slice(slice(ready)));
    agent.sync();
    let commits = agent.kernel.lock().commits();
    for (endpoints, expected) in [(terminating, 0), (ready, 1), (terminating, 0)] {
        agent.take(Event::Slice(slice(endpoints)));
        agent.sync();
        assert_eq!(answers(&agent), [(30_000, expected)], "{endpoints:?}");
    }
    assert_eq!(agent.kernel.lock().commits(), commits, "the pinned case is one without rows");
}

#[tokio::test]
async fn a_health_check_follows_its_port() {
    let mut agent = listed(service());
    agent.take(put(checked_on(30_001)));
    agent.sync();
    assert_eq!(answers(&agent), [(30_001, 1)], "changed");
    agent.take(put(Service { health_check_node_port: None, ..service() }));
    agent.sync();
    assert_eq!(answers(&agent), [], "removed");
    agent.take(put(checked_on(30_002)));
    agent.sync();
    assert_eq!(answers(&agent), [(30_002, 1)], "added");
    agent.take(Event::ServiceRemoved(service().name));
    agent.take(put(checked_on(30_003)));
    agent.sync();
    assert_eq!(answers(&agent), [(30_003, 1)], "another Service of that name within one commit");
    agent.take(Event::AllServices(vec![]));
    agent.sync();
    assert_eq!(answers(&agent), [], "gone from a list");
}

/// A load balancer that is known by name, or that is another proxy, and no node ports.
#[tokio::test]
async fn a_service_without_local_rows_has_its_health_check() {
    let mut agent = listed(Service { load_balancer_ips: vec![], ..service() });
    assert_eq!(answers(&agent), [(30_000, 1)]);
    agent.take(Event::Slice(slice(&[(1, "n1", true), (3, "n1", true)])));
    agent.sync();
    assert_eq!(answers(&agent), [(30_000, 2)]);
    agent.take(Event::ServiceRemoved(service().name));
    agent.sync();
    assert_eq!(answers(&agent), []);
}

/// Otherwise a load balancer would send what the kernel refuses or drops.
#[tokio::test]
async fn a_health_check_waits_for_the_commit() {
    let mut agent = listed(service());
    agent.take(Event::Slice(slice(&[(1, "n1", true), (3, "n1", true)])));
    agent.kernel.lock().fail_sockets(100);
    agent.sync();
    assert_eq!(answers(&agent), [(30_000, 1)], "the kernel does not know of the new endpoint");
    agent.kernel.lock().fail_sockets(0);
    agent.sync();
    assert_eq!(answers(&agent), [(30_000, 2)]);
}

/// Going over all Services is for changes that matter.
#[tokio::test]
async fn what_concerns_no_health_check_costs_none_of_them_a_look() {
    let unchecked = Service { health_check_node_port: None, ..service() };
    let far: Endpoints = &[(1, "n1", true), (3, "n2", true)];
    let near: Endpoints = &[(1, "n1", true), (4, "n1", true)];
    for (service, endpoints, expected) in
        [(service(), far, false), (service(), near, true), (unchecked, near, false)]
    {
        let mut agent = listed(service);
        agent.take(Event::Slice(slice(endpoints)));
        assert_eq!(agent.engine.sync().unwrap().checks_due, expected, "{endpoints:?}");
    }
}
