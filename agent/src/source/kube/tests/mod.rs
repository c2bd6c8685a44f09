#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fake;
mod lists;
mod outages;
mod requests;
mod watches;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::fake::Fake;
use super::api::Api;
use super::{Freshness, Settings};
use crate::config::ApiServer;
use crate::model::{Event, NodeName, ZoneRegions};

/// The source, following a fake API server.
struct Scene {
    fake: Fake,
    events: UnboundedReceiver<Event>,
    freshness: Arc<Freshness>,
    task: JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn settings() -> Settings {
    Settings {
        server: ApiServer::default(),
        node: NodeName("node-a1".into()),
        slice_selector: None,
        topology_routing: false,
        zone_regions: ZoneRegions::new(),
        log_lines_per_object: 20,
    }
}

impl Scene {
    fn start(fake: Fake) -> Self {
        Self::with(fake, settings())
    }

    fn with(fake: Fake, settings: Settings) -> Self {
        let (sender, events) = unbounded_channel();
        let freshness = Arc::new(Freshness::default());
        let api = Arc::new(Api::through(fake.client(), "http://fake".parse().unwrap()));
        let sink = move |event| {
            let _ = sender.send(event);
        };
        let for_task = Arc::clone(&freshness);
        let task = tokio::spawn(async move {
            let _ = super::follow(&settings, api, sink, for_task).await;
        });
        Self { fake, events, freshness, task }
    }

    /// The next event, in words.
    async fn next(&mut self) -> String {
        let event = timeout(Duration::from_secs(3600), self.events.recv()).await;
        words(&event.expect("no event for an hour").expect("the source has ended"))
    }

    /// No event for that long.
    async fn quiet(&mut self, time: Duration) {
        if let Ok(event) = timeout(time, self.events.recv()).await {
            panic!("unexpected: {}", words(&event.expect("the source has ended")));
        }
    }
}

/// An event in words, names and addresses only; lists sorted.
fn words(event: &Event) -> String {
    fn list(head: &str, mut names: Vec<String>) -> String {
        names.sort();
        format!("{head} {}", names.join(" ")).trim_end().to_owned()
    }
    let slice = |s: &Arc<crate::model::Slice>| {
        let addresses: Vec<_> = s.endpoints.iter().map(|e| e.address.to_string()).collect();
        format!("{}={}", s.name.name, addresses.join(","))
    };
    let service = |s: &Arc<crate::model::Service>| format!("{}={}", s.name.name, s.cluster_ips[0]);
    match event {
        Event::AllServices(all) => list("services", all.iter().map(service).collect()),
        Event::Service(one) => format!("service {}", service(one)),
        Event::ServiceRemoved(name) => format!("service removed {}", name.name),
        Event::AllSlices(all) => list("slices", all.iter().map(slice).collect()),
        Event::Slice(one) => format!("slice {}", slice(one)),
        Event::SliceRemoved(name) => format!("slice removed {}", name.name),
        Event::Node(None) => "no node".to_owned(),
        Event::Node(Some(node)) => {
            format!("node in {}", node.zone.as_ref().map(ToString::to_string).unwrap_or_default())
        }
        Event::ServiceCidrs(networks) => {
            list("cidrs", networks.iter().map(ToString::to_string).collect())
        }
        Event::ZoneRegions(regions) => list(
            "regions",
            regions.iter().map(|(zone, region)| format!("{zone}={region}")).collect(),
        ),
        Event::NodePortAddresses(_) => "node-port addresses".to_owned(),
    }
}
