#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod following;
mod hostile;
mod loading;
mod tracking;
mod wrong_types;

use std::path::Path;

use super::*;
use crate::model::{Event, NodeName};

/// A Service, its slice with `endpoints`, as YAML.
fn shop(name: &str, endpoints: &[&str]) -> String {
    let list: Vec<String> = endpoints.iter().map(|e| format!("- addresses: [{e}]\n")).collect();
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec:
  clusterIP: 10.96.0.7
  ports: [{{name: http, port: 80}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-1
  namespace: shop
  labels: {{kubernetes.io/service-name: {name}}}
addressType: IPv4
ports: [{{name: http, port: 8080}}]
endpoints:
{}",
        list.concat()
    )
}

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// Events in few words.
fn words(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::AllServices(all) => format!("all {} services", all.len()),
            Event::Service(service) => format!("service {}", service.name),
            Event::ServiceRemoved(name) => format!("no service {name}"),
            Event::AllSlices(all) => format!("all {} slices", all.len()),
            Event::Slice(slice) => format!("slice {} of {}", slice.name, slice.endpoints.len()),
            Event::SliceRemoved(name) => format!("no slice {name}"),
            Event::Node(Some(node)) => format!("node in {:?}", node.zone.as_ref().map(|z| &*z.0)),
            Event::Node(None) => "no node".to_owned(),
            Event::ServiceCidrs(cidrs) => format!("{} cidrs", cidrs.len()),
            Event::NodePortAddresses(_) => "addresses".to_owned(),
            Event::ZoneRegions(regions) => format!("{} regions", regions.len()),
        })
        .collect()
}
