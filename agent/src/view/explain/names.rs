//! From names to frontends, and what to say where there are none.

use std::net::IpAddr;
use std::sync::Arc;

use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend};
use sliceproxy_dataplane::kernel::Kernel;

use super::Inquiry;
use crate::engine::{Engine, Port};
use crate::model::{Service, ServiceName, ServicePort};
use crate::view::NoAnswer;

/// Services of the namespace that are named when the wanted one is not there.
const MAX_NAMES: usize = 10;

/// The frontends of a Service, or of one of its ports.
pub(super) fn frontends<K: Kernel>(
    engine: &Engine<K>,
    name: &ServiceName,
    port: Option<&str>,
    from: Option<IpAddr>,
) -> Result<Vec<Frontend>, NoAnswer> {
    let Some(service) = engine.cache().service(name) else {
        return Err(NoAnswer::BadQuestion(unknown_service(engine, name)));
    };
    let wanted = |candidate: &&Port| port.is_none_or(|port| is_port(candidate, port));
    let reachable = |frontend: &Frontend| from.is_none_or(|f| Family::of(f) == frontend.family());
    let ports = engine.ports_of(name).iter().filter(wanted);
    let all: Vec<Frontend> =
        ports.flat_map(|port| port.claimed.iter().map(|(frontend, _)| *frontend)).collect();
    let frontends: Vec<Frontend> = all.iter().copied().filter(reachable).collect();
    if let (true, Some(from), Some(other)) = (frontends.is_empty(), from, all.first()) {
        return Err(NoAnswer::BadQuestion(format!(
            "{name} has no {} frontend that {from} could reach, only {} ones",
            Family::of(from),
            other.family()
        )));
    }
    if frontends.is_empty() {
        let known: Vec<String> = service.ports.iter().map(port_text).collect();
        return Err(NoAnswer::BadQuestion(format!(
            "{name} has no frontend like that; its ports are {}",
            known.join(", ")
        )));
    }
    Ok(frontends)
}

fn is_port(port: &Port, text: &str) -> bool {
    *port.spec.name == *text || port.spec.port.to_string() == text
}

fn port_text(port: &ServicePort) -> String {
    let name = if port.name.is_empty() { String::new() } else { format!(" ({})", port.name) };
    format!("{}/{}{name}", port.port, port.protocol)
}

fn unknown_service<K: Kernel>(engine: &Engine<K>, name: &ServiceName) -> String {
    let slices = engine.cache().slices_of(name).count();
    let mut others: Vec<String> = engine
        .cache()
        .services()
        .filter(|service| service.name.namespace == name.namespace)
        .map(|service| service.name.to_string())
        .collect();
    others.sort_unstable();
    let mut text = format!(
        "there is no Service {name} with a cluster IP (headless and ExternalName Services have none)"
    );
    if slices > 0 {
        text.push_str("; EndpointSlices of that name are known");
    }
    if others.is_empty() {
        return format!("{text}, nor any other in namespace {}", name.namespace);
    }
    let more = if others.len() > MAX_NAMES { ", …" } else { "" };
    others.truncate(MAX_NAMES);
    format!("{text}; in that namespace are {}{more}", others.join(", "))
}

impl<K: Kernel> Inquiry<'_, K> {
    /// Why nobody has a frontend.
    pub(super) fn remark(&self, frontend: Frontend, denied: &[String]) -> String {
        let cache = self.engine.cache();
        let address = frontend.address;
        let has = |service: &&Arc<Service>| service.cluster_ips.contains(&address);
        if let Some(service) = cache.services().filter(has).min_by_key(|service| &service.name) {
            let ports: Vec<String> = service.ports.iter().map(port_text).collect();
            let name = &service.name;
            return if denied.is_empty() {
                format!(
                    "{address} is the cluster IP of {name}, whose ports are {}",
                    ports.join(", ")
                )
            } else {
                format!("{address} is the cluster IP of {name}: no other Service gets it")
            };
        }
        if self.node.is_local(address) {
            return format!(
                "{address} is this node's, and no Service has node port {}/{} on it",
                frontend.port, frontend.protocol
            );
        }
        let endpoint = Endpoint { address, port: frontend.port };
        let serves = |port: &&Port| port.serves(&endpoint);
        match self.engine.ports().filter(serves).map(|port| &port.name).min() {
            Some(port) => format!("{endpoint} is an endpoint of {port}, not a frontend"),
            None => "no Service has this frontend".to_owned(),
        }
    }
}
