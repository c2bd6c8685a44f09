#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};
use sliceproxy_dataplane::program::ProgramConfig;
use sliceproxy_dataplane::rows::RowKey;

use super::*;
use crate::config::{Config, Flags};
use crate::driver::Observer;
use crate::engine::Settings;
use crate::model::{Event, Node, ServicePort};
use crate::source::kube::Writer;

fn service(name: &str, last_byte: u8, external_ips: &[&str]) -> Service {
    Service {
        uid: format!("uid-{name}").into(),
        created: i64::from(last_byte),
        external_ips: external_ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        ..Service::new(
            ServiceName::new("shop", name),
            vec![Ipv4Addr::new(10, 96, 0, last_byte).into()],
            vec![ServicePort {
                name: "".into(),
                protocol: Protocol::Tcp,
                port: 80,
                node_port: None,
            }],
        )
    }
}

/// An engine whose observer records.
struct Agent {
    engine: Engine<SharedKernel>,
    kernel: SharedKernel,
    observer: EventObserver,
    notices: mpsc::Receiver<Notice>,
}

impl Agent {
    fn with(services: Vec<Service>) -> Self {
        let kernel = SharedKernel::new(FakeKernel::new());
        let settings = Settings {
            node: NodeName("n1".into()),
            families: Family::ALL.to_vec(),
            program: ProgramConfig::default(),
            topology_routing: true,
            zone_regions: BTreeMap::new(),
        };
        let mut engine = Engine::new(settings, kernel.clone()).unwrap();
        engine.apply(Event::AllServices(services.into_iter().map(Arc::new).collect()));
        engine.apply(Event::AllSlices(vec![]));
        let (recorder, notices) = Recorder::new();
        Self { engine, kernel, observer: EventObserver::new(recorder), notices }
    }

    /// What is said after a sync: the Service's name and UID, and the note.
    fn sync(&mut self) -> Vec<(Reason, String, String)> {
        let synced = self.engine.sync().unwrap();
        self.observer.synced(&self.engine, &synced, std::time::Duration::ZERO);
        let mut said = Vec::new();
        while let Ok(notice) = self.notices.try_recv() {
            assert_eq!(notice.severity, Severity::Warning);
            assert_eq!(*notice.regarding.uid, format!("uid-{}", notice.regarding.name));
            said.push((notice.reason, notice.regarding.name.to_string(), notice.note));
        }
        said
    }
}

#[test]
fn the_loser_of_a_frontend_is_told_once_and_again_when_the_winner_changes() {
    let shared = &["192.0.2.1"];
    let mut agent = Agent::with(vec![service("old", 1, shared), service("new", 2, shared)]);
    let said = agent.sync();
    assert_eq!(said.len(), 1, "{said:?}");
    let (reason, name, note) = &said[0];
    assert_eq!((*reason, name.as_str()), (Reason::FrontendConflict, "new"));
    assert!(note.contains("192.0.2.1:80/TCP is served for shop/old/TCP"), "{note}");

    let mut slower = service("new", 2, shared);
    slower.affinity_timeout = Some(7);
    agent.engine.apply(Event::Service(Arc::new(slower)));
    assert_eq!(agent.sync(), [], "nothing new");

    agent.engine.apply(Event::Service(Arc::new(service("older", 0, shared))));
    let mut names: Vec<_> = agent.sync().into_iter().map(|(_, name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["new", "old"]);
    agent.engine.apply(Event::ServiceRemoved(ServiceName::new("shop", "older")));
    agent.engine.apply(Event::ServiceRemoved(ServiceName::new("shop", "old")));
    assert_eq!(agent.sync(), []);
    assert_eq!(agent.engine.claims().conflicts().count(), 0);
}

#[test]
fn an_external_ip_that_is_a_cluster_ip_is_told_to_its_author() {
    let mut agent = Agent::with(vec![service("thief", 9, &["10.96.0.1"])]);
    assert_eq!(agent.sync(), [], "nobody has that cluster IP yet");
    agent.engine.apply(Event::Service(Arc::new(service("victim", 1, &[]))));
    let said = agent.sync();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].1, "thief");
}

#[test]
fn a_refused_row_is_told_to_its_service() {
    let mut agent = Agent::with(vec![service("web", 1, &["192.0.2.1"])]);
    let address = "192.0.2.1".parse().unwrap();
    let frontend = Frontend { address, protocol: Protocol::Tcp, port: 80 };
    agent.kernel.lock().refuse(RowKey::NoBackends(frontend), nix::libc::ENOMEM);
    let said = agent.sync();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((said[0].0, said[0].1.as_str()), (Reason::RowRefused, "web"));
    assert!(said[0].2.contains("no-backends 192.0.2.1:80/TCP"), "{}", said[0].2);
}

#[test]
fn the_start_is_announced_once_and_bad_annotations_with_the_gate_only() {
    for gate in [true, false] {
        let mut flags = Flags::default();
        flags.source.manifests = Some("/nowhere".into());
        flags.source.node_name = Some("n1".to_owned());
        let gates = BTreeMap::from([("TopologyRouting".to_owned(), gate)]);
        flags.traffic.feature_gates = vec![gates];
        let config = Config::load(&flags).unwrap().config;
        let (recorder, mut notices) = Recorder::new();
        let announcements = Announcements::new(&config, recorder);
        announcements.note(&Event::Node(None));
        let node = Arc::new(Node { uid: "uid-n1".into(), ..Node::default() });
        announcements.note(&Event::Node(Some(Arc::clone(&node))));
        announcements.note(&Event::Node(Some(node)));
        let start = notices.try_recv().unwrap();
        assert_eq!((start.reason, start.severity), (Reason::Starting, Severity::Normal));
        assert_eq!((&*start.regarding.name, &*start.regarding.uid), ("n1", "uid-n1"));

        let mut bad = service("web", 1, &[]);
        bad.topology.ignored = Some("no such key".to_owned());
        announcements.note(&Event::AllServices(vec![Arc::new(service("good", 2, &[]))]));
        announcements.note(&Event::AllServices(vec![Arc::new(bad)]));
        let reasons: Vec<_> =
            std::iter::from_fn(|| notices.try_recv().ok()).map(|notice| notice.reason).collect();
        assert_eq!(reasons, if gate { vec![Reason::AnnotationIgnored] } else { vec![] });
    }
}

/// Path and body of what was taken.
type Taken = Arc<Mutex<Vec<(String, Value)>>>;

/// An API server that takes Events after having refused some.
fn server(refusals: Vec<u16>) -> (Client, Taken) {
    let taken = Taken::default();
    let refusals = Arc::new(Mutex::new(refusals));
    let seen = Arc::clone(&taken);
    let client = Client::new(
        tower::service_fn(move |request: Request<Body>| {
            let (seen, refusals) = (Arc::clone(&seen), Arc::clone(&refusals));
            async move {
                assert_eq!(request.method(), "POST");
                assert_eq!(request.headers()["content-type"], "application/json");
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let refusal = refusals.lock().unwrap().pop();
                if refusal.is_none() {
                    seen.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap()));
                }
                let response = Response::builder()
                    .status(refusal.unwrap_or(201))
                    .header("content-type", "application/json")
                    .body(Body::from(b"{}".to_vec()))
                    .unwrap();
                Ok::<_, std::io::Error>(response)
            }
        }),
        "default",
    );
    (client, taken)
}

#[tokio::test(start_paused = true)]
async fn events_are_written_again_while_that_may_help() {
    for (refusals, expected) in
        [(vec![], 1), (vec![503, 429, 500], 1), (vec![403], 0), (vec![404], 0), (vec![503; 5], 0)]
    {
        let (client, taken) = server(refusals.clone());
        let (recorder, mut notices) = Recorder::new();
        let regarding = Regarding::of(&service("web", 1, &[]));
        let notice = Notice::warning(regarding, Reason::RowRefused, "no".to_owned());
        recorder.record(notice.clone());
        recorder.record(notice);
        drop(recorder);
        let writer = Writer::through(client);
        write::write_to(&writer, &NodeName("n1".into()), &mut notices).await;
        let taken = taken.lock().unwrap();
        assert_eq!(taken.len(), expected, "{refusals:?}: {taken:?}");
        for (path, event) in taken.iter() {
            assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/shop/events");
            assert_eq!(event["regarding"]["uid"], "uid-web");
        }
    }
}
