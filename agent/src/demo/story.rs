//! What the demo shows, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use ipnetwork::IpNetwork;
use sliceproxy_dataplane::frontend::{Family, Frontend};
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::{PodTraffic, ProgramConfig};
use sliceproxy_dataplane::rows::{Row, RowKey, RowValue};

use super::cluster::{self, CLIENT, DemoService, NODE, PODS, SERVICES};
use super::figures::{duration, grouped};
use super::measure;
use super::page::{Page, Tone};
use super::{DemoError, picture, words};
use crate::engine::{Engine, Settings, Synced};
use crate::lab::Lab;
use crate::lab::probe::{Outcome, Vantage};
use crate::model::{Event, NodeName, ZoneRegions};

/// Connections sent to each Service: enough that a pod among three is missed once in ten billion.
const CONNECTIONS: usize = 60;
/// How often the measured change is repeated.
const ROUNDS: u32 = 400;
/// The crowd in which it is measured again.
const CROWD: (u32, u32) = (10_000, 10);

/// What to try next.
const OWN_CLUSTER: &str = "
kubectl get services,endpointslices,nodes -A -o yaml > cluster.yaml
sliceproxy dump services --manifests cluster.yaml --node-name NODE
sliceproxy render --manifests cluster.yaml --node-name NODE
";

/// Tells all of it.
pub(super) fn tell<W: Write>(page: &mut Page<W>, is_root: bool) -> Result<(), DemoError> {
    let start = Instant::now();
    introduce(page, is_root)?;
    let lab = build(page)?;
    let settings = settings();
    let kernel = lab.node().run(|| NetlinkKernel::open(&settings.program))??;
    let engine = Engine::new(settings, kernel)?;
    let mut story = Story { page, lab: &lab, engine };
    story.program()?;
    story.connect()?;
    story.spread_shrinks()?;
    story.traffic_moves_away()?;
    story.measure()?;
    page.heading("That was all")?;
    page.text(&format!(
        "It took {}. The namespaces, the pods and the rules end with this process; nothing is \
         left to clean up. To see what sliceproxy would do on a node of yours, without touching \
         it:",
        duration(start.elapsed()),
    ))?;
    page.picture(OWN_CLUSTER)?;
    Ok(())
}

fn introduce<W: Write>(page: &mut Page<W>, is_root: bool) -> Result<(), DemoError> {
    page.gap()?;
    page.note("sliceproxy: Kubernetes Services as rows of a fixed nftables program", Tone::Strong)?;
    page.gap()?;
    page.text(
        "On every node of a cluster, something must send connections for a Service to one of the \
         pods behind it. sliceproxy reads Services and EndpointSlices and tells the kernel. This \
         demo needs no cluster: it makes one of network namespaces and sends real connections \
         through it. The network of this computer is not touched.",
    )?;
    if !is_root {
        page.note("(running without root, in a user namespace)", Tone::Faint)?;
    }
    Ok(())
}

fn build<W: Write>(page: &mut Page<W>) -> Result<Lab, DemoError> {
    page.heading("A small cluster")?;
    let start = Instant::now();
    let lab = cluster::build_lab()?;
    let took = start.elapsed();
    page.picture(&picture::cluster())?;
    page.text(&format!(
        "{} network namespaces and {} pods that answer with their name, made in {}. The pods are \
         called after their Services: web, search and dns.",
        lab.machines().len() + 1,
        PODS.len(),
        duration(took),
    ))?;
    Ok(lab)
}

fn settings() -> Settings {
    let [v4, v6] = cluster::pod_networks()
        .map(|(address, length)| IpNetwork::new(address, length))
        .map(|network| network.map_or(PodTraffic::Unknown, PodTraffic::From));
    Settings {
        node: NodeName(NODE.into()),
        families: Family::ALL.to_vec(),
        program: ProgramConfig { pods_v4: v4, pods_v6: v6, ..ProgramConfig::default() },
        topology_routing: true,
        zone_regions: ZoneRegions::new(),
    }
}

struct Story<'a, W, K> {
    page: &'a mut Page<W>,
    lab: &'a Lab,
    engine: Engine<K>,
}

impl<W: Write, K: Kernel> Story<'_, W, K> {
    fn program(&mut self) -> Result<(), DemoError> {
        self.page.heading("Program the kernel")?;
        for event in cluster::events() {
            self.engine.apply(event);
        }
        let start = Instant::now();
        let synced = self.engine.sync()?;
        let took = start.elapsed();
        let (services, slices) =
            (self.engine.cache().services().count(), self.engine.cache().slices().count());
        self.page.text(&format!(
            "The rules are the same for every cluster and were written just now, once. All that \
             Kubernetes says is a row in one of their tables: {services} Services and {slices} \
             EndpointSlices became {} rows. Rules and rows went in with {} transaction in {}.",
            synced.added.len(),
            synced.transactions,
            duration(took),
        ))?;
        self.page.gap()?;
        let rows: Vec<_> = SERVICES.iter().map(introduction).collect();
        self.page.table(&["Service", "its addresses", "what it asks for"], &rows)?;
        Ok(())
    }

    fn connect(&mut self) -> Result<(), DemoError> {
        self.page.heading(&format!("{CONNECTIONS} connections to each Service"))?;
        let mut rows = Vec::new();
        for service in &SERVICES {
            for &family in service.families() {
                rows.push(self.call(service, family)?);
            }
        }
        self.page.table(&["Service", "its address", "who answered", "why these"], &rows)?;
        self.page.gap()?;
        self.page.text(
            "All from the pod “client” in zone eu-1a. A Service without pods is refused at once, \
             so that nobody waits for a time-out.",
        )?;
        Ok(())
    }

    fn spread_shrinks(&mut self) -> Result<(), DemoError> {
        self.page.heading("A pod of web stops being ready")?;
        self.page.text(
            "One word changes in one EndpointSlice: web-b is not ready any more. `services` says \
             how many pods there are to pick from, `backends` numbers them without gaps, so the \
             last one takes the place of the one that went. Nothing else is written:",
        )?;
        let [web, ..] = &SERVICES;
        self.change(web, &["web-b"])?;
        self.call_again(web)
    }

    fn traffic_moves_away(&mut self) -> Result<(), DemoError> {
        self.page.heading("The nearest pod of search fails, then the next")?;
        self.page.text(
            "search stays near: same node, then same zone, same region, anywhere. It moves only as \
             far as it must:",
        )?;
        let [_, search, ..] = &SERVICES;
        self.change(search, &["search-a"])?;
        self.call_again(search)?;
        self.change(search, &["search-a", "search-b"])?;
        self.call_again(search)
    }

    fn measure(&mut self) -> Result<(), DemoError> {
        self.page.heading("How long a change takes")?;
        let [web, ..] = &SERVICES;
        self.engine.apply(Event::Slice(Arc::new(web.slice(Family::V4, &[]))));
        self.engine.sync()?;
        let alone = measure::replace_endpoint(&mut self.engine, web, ROUNDS)?;
        let (services, endpoints) = CROWD;
        let (load_time, rows) = measure::add_crowd(&mut self.engine, services, endpoints)?;
        let crowded = measure::replace_endpoint(&mut self.engine, web, ROUNDS)?;
        let line = |what: String, times: measure::Times| {
            vec![
                (what, Tone::Plain),
                (times.rows.to_string(), Tone::Plain),
                (duration(times.median), Tone::Good),
                (duration(times.p99), Tone::Plain),
            ]
        };
        self.page.table(
            &["One endpoint is replaced by another", "rows written", "median", "99 of 100 within"],
            &[
                line("in this small cluster".into(), alone),
                line(
                    format!("beside {} more Services, {endpoints} pods each", grouped(services)),
                    crowded,
                ),
            ],
        )?;
        self.page.gap()?;
        self.page.text(&format!(
            "From the event to the kernel's yes. The {} Services were loaded in between: {} rows \
             in {}.",
            grouped(services),
            grouped(rows),
            duration(load_time),
        ))?;
        if cfg!(debug_assertions) {
            self.page.note(
                "(a debug build; `cargo run --release -- demo` shows what it can do)",
                Tone::Faint,
            )?;
        }
        Ok(())
    }

    /// Says that these pods are not ready, in the Service's IPv4 slice, and shows the rows.
    fn change(&mut self, service: &DemoService, unready: &[&str]) -> Result<(), DemoError> {
        let before = self.rows();
        let slice = Arc::new(service.slice(Family::V4, unready));
        let start = Instant::now();
        self.engine.apply(Event::Slice(slice));
        let synced = self.engine.sync()?;
        let took = start.elapsed();
        let rows = row_changes(&before, &synced);
        let changed = rows.len();
        self.page.gap()?;
        self.page.table(&["table", "row", "was", "is"], &rows)?;
        let plural = if changed == 1 { "row" } else { "rows" };
        self.page.note(
            &format!("{changed} {plural} of {}, committed in {}", before.len(), duration(took)),
            Tone::Good,
        )?;
        Ok(())
    }

    fn rows(&self) -> BTreeMap<RowKey, RowValue> {
        self.engine.ledger().desired_rows().map(|Row { key, value }| (key, value)).collect()
    }

    fn call_again(&mut self, service: &DemoService) -> Result<(), DemoError> {
        let row = self.call(service, Family::V4)?;
        self.page.gap()?;
        Ok(self.page.table(&["Service", "its address", "who answers now", "why these"], &[row])?)
    }

    /// Sends connections, checks that exactly the selected pods answer, and says so in a row.
    fn call(
        &self,
        service: &DemoService,
        family: Family,
    ) -> Result<Vec<(String, Tone)>, DemoError> {
        let frontend = service.frontend(family);
        let vantage: Vantage<'_> = self.lab.machine(CLIENT)?.vantage();
        let start = Instant::now();
        let counts = vantage.spread(frontend, CONNECTIONS)?;
        let took = start.elapsed();
        let (expected, reason) = self.selection(service, frontend);
        let refused = Outcome::Refused.to_string();
        let got: BTreeSet<&str> =
            counts.keys().map(String::as_str).filter(|name| *name != refused).collect();
        let all_refused = counts.get(&refused) == Some(&CONNECTIONS);
        if got != expected || (expected.is_empty() && !all_refused) {
            return Err(DemoError::Astray {
                service: service.name,
                frontend,
                expected: list(expected.iter().copied(), &refused),
                got: list(counts.keys().map(String::as_str), "nothing"),
            });
        }
        let answers = if all_refused {
            let each = took / u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
            (format!("refused, {} each", duration(each)), Tone::Bad)
        } else {
            let counted = counts.iter().map(|(name, count)| format!("{name} {count}×"));
            (counted.collect::<Vec<_>>().join(", "), Tone::Good)
        };
        Ok(vec![
            (service.name.to_owned(), Tone::Strong),
            (frontend.to_string(), Tone::Plain),
            answers,
            (reason, Tone::Plain),
        ])
    }

    /// The pods that the engine has selected for a frontend, and why.
    fn selection(
        &self,
        service: &DemoService,
        frontend: Frontend,
    ) -> (BTreeSet<&'static str>, String) {
        let ports = self.engine.ports_of(&service.object_name()).iter();
        let port = ports
            .filter(|port| port.pool.family() == frontend.family())
            .find(|port| port.name.protocol == frontend.protocol);
        let Some(port) = port else { return (BTreeSet::new(), "unknown".into()) };
        let scope = port.pool.choice().scope;
        let chosen: BTreeSet<_> = port
            .pool
            .members()
            .iter()
            .filter(|member| scope.admits(member.standing))
            .map(|member| member.endpoint.address)
            .collect();
        let pods = PODS.iter().filter(|pod| chosen.contains(&pod.address(frontend.family())));
        (pods.map(|pod| pod.name).collect(), words::reason(port.pool.choice()))
    }
}

fn introduction(service: &DemoService) -> Vec<(String, Tone)> {
    let addresses = service.families().iter().map(|f| service.frontend(*f).to_string());
    vec![
        (service.name.to_owned(), Tone::Strong),
        (addresses.collect::<Vec<_>>().join("  "), Tone::Plain),
        (service.wish.to_owned(), Tone::Plain),
    ]
}

/// A line for each row that was written or deleted.
fn row_changes(before: &BTreeMap<RowKey, RowValue>, synced: &Synced) -> Vec<Vec<(String, Tone)>> {
    let after: BTreeMap<_, _> = synced.added.iter().map(|row| (row.key, row.value)).collect();
    let keys: BTreeSet<_> = after.keys().chain(&synced.deleted).copied().collect();
    let shown = |value: Option<&RowValue>| {
        value.map(|value| match value {
            RowValue::Member => "there".to_owned(),
            value => value.to_string(),
        })
    };
    keys.iter()
        .map(|key| {
            let was = shown(before.get(key)).unwrap_or_else(|| "not there".into());
            let is = shown(after.get(key)).unwrap_or_else(|| "gone".into());
            vec![
                (key.set().to_string(), Tone::Strong),
                (key.to_string(), Tone::Plain),
                (was, Tone::Bad),
                (is, Tone::Good),
            ]
        })
        .collect()
}

fn list<'a>(names: impl Iterator<Item = &'a str>, nothing: &str) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { nothing.to_owned() } else { names.join(", ") }
}
