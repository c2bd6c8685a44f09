//! The four kinds that are followed: how each is decoded, and which events it makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnetwork::IpNetwork;
use rustc_hash::FxHashMap;

use super::decode::{Decoded, Format, Raw};
use super::freshness::Watched;
use super::texts::Texts;
use crate::convert::Converted;
use crate::model::{Event, Node, ObjectName, Service, Slice};

/// All objects of a list, by name.
pub(super) type Listed<T> = FxHashMap<ObjectName, T>;

/// A kind of objects that is followed.
pub(super) trait Kind: Send + Sync + 'static {
    /// An object as it is served.
    type Object: Send;

    /// As it is called in reports.
    const WATCHED: Watched;

    /// What an object means, and its version.
    fn decode(&mut self, format: Format, object: Raw<'_>) -> Decoded<Self::Object>;

    /// These are all there are.
    fn listed(&mut self, objects: Listed<Self::Object>) -> Event;

    /// An object was added or changed.
    fn put(&mut self, name: ObjectName, object: Self::Object) -> Event;

    /// An object went away, or is not served any more.
    fn removed(&mut self, name: ObjectName) -> Event;
}

/// Services.
#[derive(Debug, Default)]
pub(super) struct Services;

impl Kind for Services {
    type Object = Arc<Service>;

    const WATCHED: Watched = Watched::Services;

    fn decode(&mut self, format: Format, object: Raw<'_>) -> Decoded<Arc<Service>> {
        let (service, version) = format.served::<Service>(object)?;
        Ok((service.map(Arc::new), version))
    }

    fn listed(&mut self, objects: Listed<Arc<Service>>) -> Event {
        Event::AllServices(objects.into_values().collect())
    }

    fn put(&mut self, _: ObjectName, object: Arc<Service>) -> Event {
        Event::Service(object)
    }

    fn removed(&mut self, name: ObjectName) -> Event {
        Event::ServiceRemoved(name)
    }
}

/// EndpointSlices.
#[derive(Debug, Default)]
pub(super) struct Slices {
    texts: Texts,
}

impl Kind for Slices {
    type Object = Arc<Slice>;

    const WATCHED: Watched = Watched::EndpointSlices;

    fn decode(&mut self, format: Format, object: Raw<'_>) -> Decoded<Arc<Slice>> {
        let (slice, version) = format.served::<Slice>(object)?;
        let shared = slice.map(|mut slice| {
            self.texts.share_in(&mut slice);
            Arc::new(slice)
        });
        Ok((shared, version))
    }

    fn listed(&mut self, objects: Listed<Arc<Slice>>) -> Event {
        Event::AllSlices(objects.into_values().collect())
    }

    fn put(&mut self, _: ObjectName, object: Arc<Slice>) -> Event {
        Event::Slice(object)
    }

    fn removed(&mut self, name: ObjectName) -> Event {
        Event::SliceRemoved(name)
    }
}

/// This node's own Node; the watch has no other.
#[derive(Debug, Default)]
pub(super) struct OwnNode;

impl Kind for OwnNode {
    type Object = Arc<Node>;

    const WATCHED: Watched = Watched::Node;

    fn decode(&mut self, format: Format, object: Raw<'_>) -> Decoded<Arc<Node>> {
        let (node, version) = format.served::<Node>(object)?;
        Ok((node.map(Arc::new), version))
    }

    fn listed(&mut self, objects: Listed<Arc<Node>>) -> Event {
        Event::Node(objects.into_values().next())
    }

    fn put(&mut self, _: ObjectName, object: Arc<Node>) -> Event {
        Event::Node(Some(object))
    }

    fn removed(&mut self, _: ObjectName) -> Event {
        Event::Node(None)
    }
}

/// ServiceCIDRs. Several may list the same network: it goes with the last of them.
#[derive(Debug, Default)]
pub(super) struct ServiceCidrs {
    networks: BTreeMap<ObjectName, Vec<IpNetwork>>,
}

impl ServiceCidrs {
    fn all(&self) -> Event {
        let mut all: Vec<IpNetwork> = self.networks.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        Event::ServiceCidrs(all)
    }
}

impl Kind for ServiceCidrs {
    type Object = Vec<IpNetwork>;

    const WATCHED: Watched = Watched::ServiceCidrs;

    fn decode(&mut self, format: Format, object: Raw<'_>) -> Decoded<Vec<IpNetwork>> {
        format.served(object)
    }

    fn listed(&mut self, objects: Listed<Vec<IpNetwork>>) -> Event {
        self.networks = objects.into_iter().collect();
        self.all()
    }

    fn put(&mut self, name: ObjectName, object: Vec<IpNetwork>) -> Event {
        self.networks.insert(name, object);
        self.all()
    }

    fn removed(&mut self, name: ObjectName) -> Event {
        self.networks.remove(&name);
        self.all()
    }
}

impl<T> Converted<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Converted<U> {
        Converted { name: self.name, object: self.object.map(change), rejections: self.rejections }
    }
}
