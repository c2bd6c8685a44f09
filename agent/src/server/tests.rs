//! The pages over real sockets, on loopback and ports that the system picks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::rows::SetName;

use super::metrics::{CommitCost, LocalPolicy, Probe, SyncKind};
use super::*;
use crate::config::{Config, FeatureGates, Flags};
use crate::source::kube::{Freshness, Watched};

/// The whole answer, headers included; tries again while nothing listens.
pub(super) async fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    let ask = move || loop {
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            return answer;
        }
        std::thread::yield_now();
    };
    tokio::task::spawn_blocking(ask).await.unwrap()
}

/// Serves on a port that the system picks.
pub(super) fn serve_somewhere(router: Router) -> SocketAddr {
    let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let listener = listen::bind(any, listen::Stack::Dual).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(connections::serve(listener, router));
    address
}

fn metrics_of(health: &Arc<Health>) -> Metrics {
    Metrics::new(Arc::clone(health), &FeatureGates::default(), Moment::now())
}

fn config(gates: &str) -> Config {
    let mut flags = Flags::default();
    flags.source.node_name = Some("node-a".to_owned());
    flags.traffic.feature_gates = vec![crate::config::gates::parse_pairs(gates).unwrap()];
    Config::load(&flags).unwrap().config
}

#[tokio::test(flavor = "multi_thread")]
async fn health_pages() {
    let health = Arc::new(Health::new(Duration::from_secs(60)));
    let metrics = metrics_of(&health);
    let address = serve_somewhere(health_router(Arc::clone(&health), metrics.clone()));
    health.synced(Family::V4, Moment::now());
    let answer = get(address, "/livez").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: application/json\r\n"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{answer}");
    assert!(answer.contains(r#""healthy":true,"status":{"IPv4":{"lastUpdated":"#), "{answer}");
    assert!(!answer.contains("nodeEligible"), "{answer}");

    let answer = get(address, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.0 503 Service Unavailable\r\n"), "no Node yet: {answer}");
    assert!(answer.contains(r#""nodeEligible":false,"healthy":true"#), "{answer}");
    health.node(true);
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.0 200"));
    assert!(get(address, "/other").await.ends_with("404 page not found\n"));

    assert!(!get(address, "/healthz").await.contains("watchAge"));
    health.heard(Moment::now());
    assert!(get(address, "/healthz?verbose").await.contains("\"watchAgeSeconds\":"));

    let text = metrics.encode();
    for line in [
        "kubeproxy_proxy_healthz_total{code=\"503\"} 1\n",
        "kubeproxy_proxy_healthz_total{code=\"200\"} 3\n",
        "kubeproxy_proxy_livez_total{code=\"200\"} 1\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_pages() {
    let health = Arc::new(Health::new(Duration::from_secs(60)));
    let pages = |config: &Config| {
        let flags = BTreeMap::from([("v".to_owned(), "4\n".to_owned())]);
        let metrics = metrics_of(&health);
        let asked = metrics.clone();
        let refresh = Box::new(move || {
            asked.repaired();
            futures::future::ready(()).boxed()
        });
        StatusPages::new(metrics, Arc::clone(&health), config, flags, Moment::now(), refresh)
    };
    let all = config("");
    let address = serve_somewhere(metrics_router(pages(&all), &all));
    for (path, content_type, part) in [
        ("/healthz", "text/plain; charset=utf-8", "\r\n\r\nok"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "\nsliceproxy_repairs_total 1\n"),
        (
            "/metrics/slis",
            "text/plain",
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n",
        ),
        ("/proxyMode", "text/plain; charset=utf-8", "\r\n\r\nnftables"),
        (
            "/configz",
            "application/json",
            r#""kubeproxy.config.k8s.io":{"apiVersion":"kubeproxy.config.k8s.io/v1alpha1""#,
        ),
        ("/configz", "application/json", r#""sliceproxy.io":{"adminSocket":"#),
        ("/flagz", "text/plain", "v=4\\n\n"),
        ("/statusz", "text/plain", "Healthy: true\n"),
        ("/version", "application/json", r#""gitVersion":"v"#),
    ] {
        let answer = get(address, path).await;
        assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
        assert!(answer.contains(&format!("content-type: {content_type}")), "{path}: {answer}");
        assert!(answer.contains(part), "{path}: {answer}");
    }
    let few = config("ComponentFlagz=false,ComponentStatusz=false");
    let address = serve_somewhere(metrics_router(pages(&few), &few));
    assert!(get(address, "/flagz").await.starts_with("HTTP/1.0 404"));
    assert!(get(address, "/statusz").await.starts_with("HTTP/1.0 404"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_ends_it_only_if_asked_to() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let failure = listen::serve("metrics", address, Router::new(), true).await;
    assert!(failure.to_string().contains(&format!("cannot listen on {address} for metrics: ")));
    let retrying = listen::serve("metrics", address, Router::new(), false);
    assert!(tokio::time::timeout(Duration::from_millis(50), retrying).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_nobody_out() {
    let router = Router::new().fallback(|| async { "here" });
    let address = serve_somewhere(router);
    let idle = tokio::task::spawn_blocking(move || {
        let connect = |_| TcpStream::connect(address).unwrap();
        (0..2 * connections::MOST).map(connect).collect::<Vec<_>>()
    });
    let mut idle = idle.await.unwrap();
    assert!(get(address, "/").await.ends_with("here"));
    let closed = tokio::task::spawn_blocking(move || {
        // The newest ones are served too, when they have something to ask.
        let newest = idle.last_mut().unwrap();
        newest.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        newest.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("here"), "{answer}");
        // The oldest are closed, without an answer.
        idle[..connections::MOST].iter_mut().all(|stream| {
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            matches!(stream.read(&mut [0]), Ok(0))
        })
    });
    assert!(closed.await.unwrap(), "more connections are open than there is room for");
}

/// Name and type of every metric of kube-proxy's nftables mode.
const KUBE_PROXY: [(&str, &str); 18] = [
    ("kubeproxy_sync_proxy_rules_duration_seconds", "histogram"),
    ("kubeproxy_sync_full_proxy_rules_duration_seconds", "histogram"),
    ("kubeproxy_sync_partial_proxy_rules_duration_seconds", "histogram"),
    ("kubeproxy_sync_proxy_rules_last_timestamp_seconds", "gauge"),
    ("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "gauge"),
    ("kubeproxy_network_programming_duration_seconds", "histogram"),
    ("kubeproxy_sync_proxy_rules_endpoint_changes_pending", "gauge"),
    ("kubeproxy_sync_proxy_rules_endpoint_changes_total", "counter"),
    ("kubeproxy_sync_proxy_rules_service_changes_pending", "gauge"),
    ("kubeproxy_sync_proxy_rules_service_changes_total", "counter"),
    ("kubeproxy_sync_proxy_rules_no_local_endpoints_total", "gauge"),
    ("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "counter"),
    ("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total", "counter"),
    ("kubeproxy_conntrack_reconciler_sync_duration_seconds", "histogram"),
    ("kubeproxy_conntrack_reconciler_deleted_entries_total", "counter"),
    ("kubeproxy_proxy_healthz_total", "counter"),
    ("kubeproxy_proxy_livez_total", "counter"),
    ("kubernetes_feature_enabled", "gauge"),
];

fn with_everything_reported() -> Metrics {
    let health = Arc::new(Health::new(Duration::from_secs(60)));
    let now = Moment::now();
    health.heard(now);
    let metrics = metrics_of(&health);
    metrics.queued(Family::V4, now);
    metrics.synced(Family::V4, SyncKind::Full, Duration::from_millis(3), now);
    metrics.synced(Family::V6, SyncKind::Partial, Duration::from_secs(20), now);
    metrics.sync_failed(Family::V4);
    metrics.cleanup_failed(Family::V4);
    metrics.programmed(Family::V4, Duration::from_millis(700));
    metrics.changes_seen(5, 2);
    metrics.changes_pending(1, 0);
    metrics.no_local_endpoints(LocalPolicy::Internal, Family::V4, 3);
    metrics.no_local_endpoints(LocalPolicy::External, Family::V6, 1);
    metrics.conntrack_reconciled(Family::V4, Duration::from_millis(1), 7);
    metrics.committed(CommitCost {
        transactions: 1,
        took: Duration::from_micros(90),
        rows: 3,
        messages: 5,
        bytes: 800,
    });
    metrics.commit_failed();
    metrics.rows(SetName::Backends, Family::V4, 110_000);
    metrics.repaired();
    metrics.quarantined(Family::V4, 1);
    metrics.topology_levels([("zone", 4), ("anywhere", 2)]);
    metrics.rejected_parts("EndpointSlice", 2);
    metrics.frontend_conflicts(1);
    metrics.limit_hit("rowsPerService");
    metrics.relisted("services");
    metrics.probed(Probe::Healthz, 200);
    metrics.probed(Probe::Livez, 503);
    metrics
}

#[test]
fn names_and_types_are_kube_proxys() {
    let text = with_everything_reported().encode();
    for (name, kind) in KUBE_PROXY {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} {kind}\n{text}");
    }
    for line in [
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.002\"} 0\n",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.004\"} 1\n",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv6\",le=\"16.384\"} 0\n",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv6\",le=\"+Inf\"} 1\n",
        "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1\n",
        "kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv6\"} 1\n",
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"internal\",ip_family=\"IPv4\"} 3\n",
        "kubeproxy_sync_proxy_rules_endpoint_changes_total 5\n",
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 7\n",
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv6\"} 0\n",
        "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"1\"} 1\n",
        "kubernetes_feature_enabled{name=\"TopologyRouting\",stage=\"ALPHA\"} 0\n",
        "sliceproxy_rows{set=\"backends\",ip_family=\"IPv4\"} 110000\n",
        "sliceproxy_topology_service_ports{level=\"zone\"} 4\n",
        "sliceproxy_commits_total 1\n",
        "sliceproxy_rows_written_total 3\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(text.contains("\nsliceproxy_watch_age_seconds "), "{text}");
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
}

#[test]
fn network_programming_has_kube_proxys_buckets() {
    let text = with_everything_reported().encode();
    let bound = |line: &str| {
        let (_, rest) = line
            .strip_prefix("kubeproxy_network_programming_duration_seconds_bucket")?
            .split_once("le=\"")?;
        rest.split_once('"').map(|(bound, _)| bound.to_owned())
    };
    let bounds: Vec<String> = text.lines().filter_map(bound).collect();
    let expected: Vec<String> = ["0.25".to_owned(), "0.5".to_owned()]
        .into_iter()
        .chain((1..60).map(|s| s.to_string()))
        .chain((60..120).step_by(5).map(|s| s.to_string()))
        .chain((120..=300).step_by(30).map(|s| s.to_string()))
        .chain(["+Inf".to_owned()])
        .collect();
    assert_eq!(bounds, expected);
}

#[test]
fn levels_that_nobody_uses_any_more_go() {
    let metrics = with_everything_reported();
    metrics.topology_levels([("region", 6)]);
    let text = metrics.encode();
    assert!(text.contains("sliceproxy_topology_service_ports{level=\"region\"} 6\n"));
    assert!(!text.contains("level=\"zone\""));
}

#[test]
fn every_line_is_the_text_format() {
    let text = with_everything_reported().encode();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect(line);
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{line}");
    }
}

#[test]
fn silence_of_an_api_server_is_that_of_its_quietest_watch() {
    let watches = Arc::new(Freshness::default());
    let health = Health::new(Duration::from_secs(60)).following(Arc::clone(&watches));
    let health = Arc::new(health);
    let metrics = metrics_of(&health);
    // Anything else that happens says nothing of the API server.
    health.heard(Moment::now());
    watches.listed(Watched::Services);
    assert_eq!(health.silence(Moment::now()), None, "slices were never heard of");
    let text = metrics.encode();
    assert!(!text.contains("sliceproxy_watch_age_seconds "), "{text}");
    assert!(text.contains("sliceproxy_watch_connected{watch=\"services\"} 0\n"), "{text}");
    watches.connected(Watched::EndpointSlices);
    watches.listed(Watched::EndpointSlices);
    watches.decode_failed(Watched::EndpointSlices);
    assert!(health.silence(Moment::now()).is_some());
    let text = metrics.encode();
    for line in [
        "\nsliceproxy_watch_age_seconds 0.",
        "\nsliceproxy_watch_connected{watch=\"endpointslices\"} 1\n",
        "\nsliceproxy_undecodable_objects_total{watch=\"endpointslices\"} 1\n",
        "\nsliceproxy_undecodable_objects_total{watch=\"node\"} 0\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}
