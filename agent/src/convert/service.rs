//! Services.

use k8s_openapi::jiff::Timestamp;

use super::foreign;
use super::frontends;
use super::rejections::Rejections;
use super::{
    BAD_PORT_NAME, Converted, UNKNOWN_PROTOCOL, check_name, filled, is_port_name, number_text,
    object_name, port, port_fault, protocol, timestamp, topology,
};
use crate::model::{ObjectName, Service, ServicePort, TrafficPolicy};
use crate::wire::{self, Number, ServiceSpec, Text};

/// Most ports of one Service.
pub const MAX_PORTS: usize = 1_000;
/// Longest session affinity, in seconds: a day.
pub const MAX_AFFINITY_TIMEOUT: u32 = 86_400;

const DEFAULT_AFFINITY_TIMEOUT: u32 = 10_800;

/// The Service, if it is one with frontends and ours to serve.
pub fn service(wire: &wire::Service<'_>) -> Converted<Service> {
    service_after(wire, Rejections::new("Service"))
}

/// The same, with what was rejected before.
pub(super) fn service_after(
    wire: &wire::Service<'_>,
    mut rejections: Rejections,
) -> Converted<Service> {
    let name = object_name(&wire.metadata);
    let object = if is_for_us(wire) { convert(wire, &name, &mut rejections) } else { None };
    let rejections = rejections.finish(&name);
    Converted { name, object, rejections }
}

/// Not ExternalName (even with a cluster IP left in it), not headless, not another proxy's.
fn is_for_us(wire: &wire::Service<'_>) -> bool {
    let spec = &wire.spec;
    let headless = [spec.cluster_ip.as_ref(), spec.cluster_ips.first().and_then(Option::as_ref)]
        .into_iter()
        .any(|ip| ip.is_some_and(|ip| &**ip == "None"));
    spec.type_.as_deref() != Some("ExternalName")
        && !headless
        && wire.metadata.labels.service_proxy_name.is_none()
}

fn convert(
    wire: &wire::Service<'_>,
    name: &ObjectName,
    rejections: &mut Rejections,
) -> Option<Service> {
    if !check_name(name, rejections) {
        return None;
    }
    let spec = &wire.spec;
    let cluster_ips = frontends::cluster_ips(spec, rejections);
    let ports = ports(spec, rejections);
    if cluster_ips.is_empty() || ports.is_empty() {
        return None;
    }
    let external_policy = external_policy(spec, rejections);
    let external_ips = frontends::external_ips(spec, &cluster_ips, rejections);
    let mut load_balancer_ips =
        frontends::load_balancer_ips(&wire.status, &cluster_ips, rejections);
    let source_ranges = frontends::source_ranges(spec, &mut load_balancer_ips, rejections);
    foreign::annotations(&wire.metadata.annotations, rejections);
    Some(Service {
        name: name.clone(),
        uid: wire.metadata.uid.as_deref().unwrap_or_default().into(),
        created: timestamp(wire.metadata.creation_timestamp.as_ref())
            .map_or(0, Timestamp::as_second),
        cluster_ips,
        external_ips,
        load_balancer_ips,
        source_ranges,
        ports,
        internal_policy: policy(
            "spec.internalTrafficPolicy",
            spec.internal_traffic_policy.as_ref(),
            rejections,
        ),
        external_policy,
        affinity_timeout: affinity_timeout(spec, rejections),
        health_check_node_port: health_check_node_port(spec, external_policy, rejections),
        topology: topology::annotations(&wire.metadata.annotations, rejections),
    })
}

fn ports(spec: &ServiceSpec<'_>, rejections: &mut Rejections) -> Vec<ServicePort> {
    if spec.ports.is_empty() {
        rejections.add(
            format_args!("spec.ports"),
            "",
            "no ports; the Service is not served; name at least one",
        );
    }
    let all = rejections.limit(format_args!("spec.ports"), &spec.ports, MAX_PORTS);
    rejections.nulls(format_args!("spec.ports"), all);
    let mut ports: Vec<ServicePort> = Vec::with_capacity(all.len());
    for (i, wire) in all.iter().enumerate() {
        let Some(new) = wire.as_ref().and_then(|wire| service_port(i, wire, rejections)) else {
            continue;
        };
        let clash = |other: &ServicePort| {
            other.protocol == new.protocol && (other.port == new.port || other.name == new.name)
        };
        if ports.iter().any(clash) {
            rejections.add(
                format_args!("spec.ports[{i}]"),
                format_args!("{:?} {}/{}", new.name, new.port, new.protocol),
                "an earlier port has the same name or number, and the same protocol; this one is \
                 not served; rename or renumber it",
            );
            continue;
        }
        ports.push(new);
    }
    ports
}

fn service_port(
    index: usize,
    wire: &wire::ServicePort<'_>,
    rejections: &mut Rejections,
) -> Option<ServicePort> {
    let name = wire.name.as_deref().unwrap_or_default();
    if !is_port_name(name) {
        rejections.add(format_args!("spec.ports[{index}].name"), name, BAD_PORT_NAME);
        return None;
    }
    let Some(protocol) = protocol(wire.protocol.as_ref()) else {
        let value = wire.protocol.as_deref().unwrap_or_default();
        rejections.add(format_args!("spec.ports[{index}].protocol"), value, UNKNOWN_PROTOCOL);
        return None;
    };
    let written = wire.port.as_ref();
    let Some(number) = written.and_then(Number::whole).and_then(port) else {
        rejections.add(
            format_args!("spec.ports[{index}].port"),
            number_text(written),
            port_fault(written),
        );
        return None;
    };
    let field = format_args!("spec.ports[{index}].nodePort");
    let node_port = optional_port(field, wire.node_port.as_ref(), rejections);
    Some(ServicePort { name: name.into(), protocol, port: number, node_port })
}

/// A port of which 0 says that there is none.
fn optional_port(
    field: std::fmt::Arguments<'_>,
    number: Option<&Number>,
    rejections: &mut Rejections,
) -> Option<u16> {
    let number = number.filter(|number| **number != Number::Whole(0))?;
    let valid = number.whole().and_then(port);
    if valid.is_none() {
        rejections.add(field, number, port_fault(Some(number)));
    }
    valid
}

fn policy(field: &str, text: Option<&Text<'_>>, rejections: &mut Rejections) -> TrafficPolicy {
    match filled(text) {
        None | Some("Cluster") => TrafficPolicy::Cluster,
        Some("Local") => TrafficPolicy::Local,
        Some(other) => {
            rejections.add(
                format_args!("{field}"),
                other,
                "not a traffic policy; taken as Cluster; use Cluster or Local",
            );
            TrafficPolicy::Cluster
        }
    }
}

/// The external policy counts only where there can be external traffic.
fn external_policy(spec: &ServiceSpec<'_>, rejections: &mut Rejections) -> TrafficPolicy {
    let accessible = match filled(spec.type_.as_ref()) {
        Some("LoadBalancer" | "NodePort") => true,
        None | Some("ClusterIP") => !spec.external_ips.is_empty(),
        Some(other) => {
            rejections.add(
                format_args!("spec.type"),
                other,
                "not a Service type; served like ClusterIP; use ClusterIP, NodePort, LoadBalancer \
                 or ExternalName",
            );
            !spec.external_ips.is_empty()
        }
    };
    let policy =
        policy("spec.externalTrafficPolicy", spec.external_traffic_policy.as_ref(), rejections);
    if accessible { policy } else { TrafficPolicy::Cluster }
}

fn affinity_timeout(spec: &ServiceSpec<'_>, rejections: &mut Rejections) -> Option<u32> {
    match filled(spec.session_affinity.as_ref()) {
        None | Some("None") => return None,
        Some("ClientIP") => {}
        Some(other) => {
            rejections.add(
                format_args!("spec.sessionAffinity"),
                other,
                "not a session affinity; there is none; use None or ClientIP",
            );
            return None;
        }
    }
    let Some(seconds) = &spec.session_affinity_config.client_ip.timeout_seconds else {
        return Some(DEFAULT_AFFINITY_TIMEOUT);
    };
    let valid = seconds.whole().and_then(|seconds| u32::try_from(seconds).ok());
    let valid = valid.filter(|seconds| (1..=MAX_AFFINITY_TIMEOUT).contains(seconds));
    if valid.is_none() {
        rejections.add(
            format_args!("spec.sessionAffinityConfig.clientIP.timeoutSeconds"),
            seconds,
            format_args!(
                "not from 1 to {MAX_AFFINITY_TIMEOUT} seconds; taken as \
                 {DEFAULT_AFFINITY_TIMEOUT}; correct it"
            ),
        );
    }
    valid.or(Some(DEFAULT_AFFINITY_TIMEOUT))
}

/// Only load balancers that must find the nodes with endpoints need the check.
fn health_check_node_port(
    spec: &ServiceSpec<'_>,
    external_policy: TrafficPolicy,
    rejections: &mut Rejections,
) -> Option<u16> {
    let needed =
        spec.type_.as_deref() == Some("LoadBalancer") && external_policy == TrafficPolicy::Local;
    let number = spec.health_check_node_port.as_ref().filter(|_| needed);
    optional_port(format_args!("spec.healthCheckNodePort"), number, rejections)
}
