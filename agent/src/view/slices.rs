//! EndpointSlices as they were last seen.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::{Family, Protocol};
use sliceproxy_dataplane::kernel::Kernel;

use super::Filter;
use crate::engine::Engine;
use crate::model::{Slice, SliceEndpoint};

/// An EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceView {
    /// Namespace and name.
    pub slice: String,
    /// Namespace and name of its Service.
    pub service: String,
    /// Whether a Service of that name with frontends is known.
    pub service_known: bool,
    /// Family of all its addresses.
    pub family: Family,
    /// Ports of every endpoint.
    pub ports: Vec<SlicePortView>,
    /// Endpoints, in the order of the object.
    pub endpoints: Vec<SliceEndpointView>,
}

/// A port of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicePortView {
    /// Name; may be empty.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number.
    pub port: u16,
}

/// An endpoint of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceEndpointView {
    /// Address.
    pub address: IpAddr,
    /// Takes new connections.
    pub ready: bool,
    /// Answers.
    pub serving: bool,
    /// Is going away.
    pub terminating: bool,
    /// Its node.
    pub node: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Whom it is meant for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hints: Option<HintsView>,
}

/// Hints of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HintsView {
    /// Nodes.
    pub for_nodes: Vec<String>,
    /// Zones.
    pub for_zones: Vec<String>,
}

impl SliceEndpointView {
    fn of(endpoint: &SliceEndpoint) -> Self {
        let conditions = endpoint.conditions;
        Self {
            address: endpoint.address,
            ready: conditions.ready,
            serving: conditions.serving,
            terminating: conditions.terminating,
            node: endpoint.node.as_ref().map(ToString::to_string),
            zone: endpoint.zone.as_ref().map(ToString::to_string),
            hints: endpoint.hints.as_ref().map(|hints| HintsView {
                for_nodes: hints.nodes.iter().map(ToString::to_string).collect(),
                for_zones: hints.zones.iter().map(ToString::to_string).collect(),
            }),
        }
    }
}

fn view(slice: &Slice, service_known: bool) -> SliceView {
    let ports = slice.ports.iter().map(|port| SlicePortView {
        name: port.name.to_string(),
        protocol: port.protocol,
        port: port.port,
    });
    SliceView {
        slice: slice.name.to_string(),
        service: slice.service.to_string(),
        service_known,
        family: slice.family,
        ports: ports.collect(),
        endpoints: slice.endpoints.iter().map(SliceEndpointView::of).collect(),
    }
}

/// The slices of the Services that `filter` admits, by name.
pub fn slices<K: Kernel>(engine: &Engine<K>, filter: &Filter) -> Vec<SliceView> {
    let mut slices: Vec<SliceView> = engine
        .cache()
        .slices()
        .filter(|slice| filter.admits(&slice.service))
        .map(|slice| view(slice, engine.cache().service(&slice.service).is_some()))
        .collect();
    slices.sort_unstable_by(|a, b| a.slice.cmp(&b.slice));
    slices
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    #[test]
    fn slices_of_a_service() {
        let engine = shop::engine("node-a1");
        let web = slices(&engine, &"shop/web".parse().unwrap());
        assert_eq!(web.len(), 2, "one per family");
        assert!(web.iter().all(|slice| slice.service_known && slice.endpoints.len() == 7));
        let search = slices(&engine, &"shop/search".parse().unwrap());
        let hints = search[0].endpoints[0].hints.as_ref().unwrap();
        assert_eq!(hints.for_zones.len(), 1);
        let all = slices(&engine, &Filter::default());
        assert!(all.is_sorted_by(|a, b| a.slice < b.slice));
    }
}
