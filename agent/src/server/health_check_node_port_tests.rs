#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::TcpListener;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::server::tests::get;

fn checks() -> (HealthCheckNodePorts, Arc<Health>, UnboundedReceiver<HealthCheckFailure>) {
    let health = Arc::new(Health::new(Duration::from_secs(60)));
    let (sender, failures) = unbounded_channel();
    let mut checks = HealthCheckNodePorts::new(Arc::clone(&health), sender);
    checks.listen_on(vec![Ipv4Addr::LOCALHOST.into()]);
    (checks, health, failures)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wanted(port: u16, local_endpoints: usize) -> BTreeMap<(Family, u16), HealthCheck> {
    let service = ServiceName::new("shop", "web");
    BTreeMap::from([((Family::V4, port), HealthCheck { service, local_endpoints })])
}

/// Asks until the server is there.
async fn ask(port: u16) -> String {
    get(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), "/any/path").await
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_byte_for_byte_kube_proxys() {
    let (mut checks, health, _failures) = checks();
    let port = free_port();
    checks.update(wanted(port, 2));
    let answer = ask(port).await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    for header in [
        "content-type: application/json\r\n",
        "x-content-type-options: nosniff\r\n",
        "x-load-balancing-endpoint-weight: 2\r\n",
    ] {
        assert!(answer.contains(header), "{answer}");
    }
    let body = "{\n\t\"service\": {\n\t\t\"namespace\": \"shop\",\n\t\t\"name\": \"web\"\n\t},\n\t\
                \"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}";
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, body);

    checks.update(wanted(port, 0));
    assert!(ask(port).await.starts_with("HTTP/1.0 503"), "no endpoint on this node");

    let long_ago = Moment::now();
    health.queued(Family::V4, long_ago);
    health.node(false);
    checks.update(wanted(port, 2));
    assert!(ask(port).await.starts_with("HTTP/1.0 200"), "eligibility does not matter here");
}

#[test]
fn an_unhealthy_proxy_is_said_in_the_body() {
    let check = HealthCheck { service: ServiceName::new("a", "b"), local_endpoints: 1 };
    assert!(body(&check, false).ends_with("\"serviceProxyHealthy\": false\n}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_reported_once_and_had_later() {
    let (mut checks, _health, mut failures) = checks();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    checks.update(wanted(port, 1));
    let failure = failures.recv().await.unwrap();
    assert_eq!(failure.service, ServiceName::new("shop", "web"));
    assert!(
        failure
            .failure
            .to_string()
            .starts_with(&format!("cannot listen on 127.0.0.1:{port} for health check: "))
    );
    drop(taken);
    checks.update(wanted(port, 1));
    assert!(ask(port).await.starts_with("HTTP/1.0 200"));
    assert!(failures.try_recv().is_err(), "reported once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_wanted_any_more_is_closed() {
    let (mut checks, _health, mut failures) = checks();
    let (first, second) = (free_port(), free_port());
    checks.update(wanted(first, 1));
    ask(first).await;
    checks.update(wanted(second, 1));
    ask(second).await;
    // Binding the first port tells when it is free; the runtime closes it in its own time.
    while TcpListener::bind(("127.0.0.1", first)).is_err() {
        tokio::task::yield_now().await;
    }
    drop(checks);
    while TcpListener::bind(("127.0.0.1", second)).is_err() {
        tokio::task::yield_now().await;
    }
    assert!(failures.recv().await.is_none(), "no failure, and all servers are gone");
}
