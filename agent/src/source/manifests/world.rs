//! Everything that all files say together, and what changed from one time to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ipnetwork::IpNetwork;

use super::contents::{Contents, Entry};
use super::object::Object;
use super::{Finding, Place};
use crate::model::{
    Event, Node, NodeName, ObjectName, Service, ServiceName, Slice, SliceName, ZoneRegions,
};

/// What the manifests say, checked.
#[derive(Debug, Default, Clone)]
pub struct World {
    /// Services with frontends.
    pub services: BTreeMap<ServiceName, Arc<Service>>,
    /// Slices of such Services.
    pub slices: BTreeMap<SliceName, Arc<Slice>>,
    /// All Nodes.
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    /// Networks of all ServiceCIDRs.
    pub service_cidrs: Vec<IpNetwork>,
    /// Files and documents that could not be read or parsed, and why; only of [`super::load`].
    pub unread: Vec<String>,
    /// Parts that are not used, and why.
    pub rejections: Vec<Finding>,
    /// What else deserves a line: ignored kinds, objects that are there twice.
    pub notes: Vec<String>,
}

impl World {
    /// All `files` of `path`, which are in the order of their paths: of an object that is there twice, the
    /// last one counts.
    pub(super) fn merge<'c>(path: &Path, files: impl Iterator<Item = &'c Contents>) -> Self {
        let mut world = Self::default();
        let mut latest: BTreeMap<(&str, &ObjectName), &Entry> = BTreeMap::new();
        let mut ignored: BTreeMap<&str, usize> = BTreeMap::new();
        for contents in files {
            world.rejections.extend_from_slice(&contents.findings);
            if let (Some(last), 1..) = (contents.findings.last(), contents.untold) {
                let file = last.place.file.display();
                world.notes.push(format!("{file}: {} more faults", contents.untold));
            }
            for (kind, count) in &contents.ignored {
                *ignored.entry(kind).or_default() += count;
            }
            for entry in &contents.entries {
                if let Some(before) = latest.insert((entry.object.kind(), &entry.name), entry) {
                    world.notes.push(there_twice(entry, &before.place));
                }
            }
        }
        if latest.is_empty() && ignored.is_empty() && world.rejections.is_empty() {
            world.notes.push(format!(
                "{}: no Service, EndpointSlice or Node in it (of a folder, *.yaml, *.yml and *.json \
                 are read)",
                path.display()
            ));
        }
        for entry in latest.into_values() {
            world.add(entry);
        }
        world.note_ignored(&ignored);
        world.note_zones();
        world
    }

    fn add(&mut self, entry: &Entry) {
        let name = &entry.name;
        match &entry.object {
            Object::Service(Some(service)) => {
                self.services.insert(name.clone(), Arc::clone(service));
            }
            Object::Slice(Some(slice)) => {
                self.slices.insert(name.clone(), Arc::clone(slice));
            }
            Object::Node(Some(node)) => {
                self.nodes.extend(NodeName::new(&name.name).map(|name| (name, Arc::clone(node))));
            }
            Object::ServiceCidr(networks) => self.service_cidrs.extend(networks),
            Object::Service(None) | Object::Slice(None) | Object::Node(None) => {}
        }
    }

    fn note_ignored(&mut self, ignored: &BTreeMap<&str, usize>) {
        if ignored.is_empty() {
            return;
        }
        let total: usize = ignored.values().sum();
        let kinds: Vec<String> = ignored
            .iter()
            .take(10)
            .map(|(kind, count)| format!("{} ({count})", kind.escape_debug()))
            .collect();
        let more = if ignored.len() > kinds.len() { ", …" } else { "" };
        self.notes.push(format!(
            "ignored {total} objects of kinds that are not used: {}{more}",
            kinds.join(", ")
        ));
    }

    fn note_zones(&mut self) {
        let mut regions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for node in self.nodes.values() {
            if let (Some(zone), Some(region)) = (&node.zone, &node.region) {
                regions.entry(zone).or_default().insert(region);
            }
        }
        let torn = regions.iter().filter(|(_, regions)| regions.len() > 1);
        let notes = torn.map(|(zone, _)| {
            format!(
                "zone {:?} is in several regions according to its nodes' labels; the first node by \
                 name counts; correct the labels",
                zone.0
            )
        });
        let notes: Vec<String> = notes.collect();
        self.notes.extend(notes);
    }

    /// The region of every zone that has one, by the labels of the nodes.
    pub fn zone_regions(&self) -> ZoneRegions {
        let mut regions = ZoneRegions::new();
        for node in self.nodes.values() {
            if let (Some(zone), Some(region)) = (&node.zone, &node.region) {
                regions.entry(zone.clone()).or_insert_with(|| region.clone());
            }
        }
        regions
    }

    /// Everything, as `node` sees it.
    pub fn events(&self, node: &NodeName) -> Vec<Event> {
        vec![
            Event::Node(self.nodes.get(node).cloned()),
            Event::ZoneRegions(self.zone_regions()),
            Event::ServiceCidrs(self.service_cidrs.clone()),
            Event::AllSlices(self.slices.values().cloned().collect()),
            Event::AllServices(self.services.values().cloned().collect()),
        ]
    }

    /// What became different since `before`, as `node` sees it.
    pub fn changes(&self, before: &Self, node: &NodeName) -> Vec<Event> {
        let mut events = Vec::new();
        let own = self.nodes.get(node);
        if own != before.nodes.get(node) {
            events.push(Event::Node(own.cloned()));
        }
        let regions = self.zone_regions();
        if regions != before.zone_regions() {
            events.push(Event::ZoneRegions(regions));
        }
        if self.service_cidrs != before.service_cidrs {
            events.push(Event::ServiceCidrs(self.service_cidrs.clone()));
        }
        events.extend(changed(&before.slices, &self.slices).map(Event::Slice));
        events.extend(gone(&before.slices, &self.slices).map(Event::SliceRemoved));
        events.extend(changed(&before.services, &self.services).map(Event::Service));
        events.extend(gone(&before.services, &self.services).map(Event::ServiceRemoved));
        events
    }
}

/// Objects that are new or different in `after`.
fn changed<'w, T: PartialEq>(
    before: &'w BTreeMap<ObjectName, Arc<T>>,
    after: &'w BTreeMap<ObjectName, Arc<T>>,
) -> impl Iterator<Item = Arc<T>> {
    let is_same = |name, object: &Arc<T>| {
        before.get(name).is_some_and(|old| Arc::ptr_eq(old, object) || old == object)
    };
    after.iter().filter(move |(name, object)| !is_same(name, object)).map(|(_, o)| Arc::clone(o))
}

/// Objects that are not in `after` any more.
fn gone<'w, T>(
    before: &'w BTreeMap<ObjectName, Arc<T>>,
    after: &'w BTreeMap<ObjectName, Arc<T>>,
) -> impl Iterator<Item = ObjectName> {
    before.keys().filter(|name| !after.contains_key(*name)).cloned()
}

fn there_twice(entry: &Entry, before: &Place) -> String {
    let name = if entry.name.namespace.is_empty() {
        entry.name.name.to_string()
    } else {
        entry.name.to_string()
    };
    format!(
        "{}: {} {} is also in {before}; this one counts; remove one of them",
        entry.place,
        entry.object.kind(),
        name.escape_debug()
    )
}
