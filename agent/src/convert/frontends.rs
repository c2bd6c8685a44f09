//! The addresses of a Service, and who may use them.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use sliceproxy_dataplane::frontend::Family;

use super::address::{frontend_kind, parse_address, parse_network, special_kind};
use super::filled;
use super::rejections::Rejections;
use crate::wire::{self, ServiceSpec, Text};

/// Most external IPs of one Service.
pub const MAX_EXTERNAL_IPS: usize = 1_000;
/// Most load-balancer IPs of one Service.
pub const MAX_LOAD_BALANCER_IPS: usize = 1_000;
/// Most source ranges of one Service.
pub const MAX_SOURCE_RANGES: usize = 10_000;

/// One per family, each by its own family; `ipFamilies` must not contradict.
pub(super) fn cluster_ips(spec: &ServiceSpec<'_>, rejections: &mut Rejections) -> Vec<IpAddr> {
    let single = spec.cluster_ips.is_empty();
    let texts = if single { std::slice::from_ref(&spec.cluster_ip) } else { &*spec.cluster_ips };
    if !single {
        rejections.nulls(format_args!("spec.clusterIPs"), texts);
    }
    let field = |i| if single { "spec.clusterIP".into() } else { format!("spec.clusterIPs[{i}]") };
    let mut ips: Vec<IpAddr> = Vec::new();
    // More than two are at least one too many; the first one too many is named.
    for (i, text) in texts.iter().take(3).enumerate() {
        let Some(text) = text else { continue };
        let declared = spec.ip_families.get(i).map(|family| &**family);
        match frontend_address(text) {
            Ok(ip) if declared.is_some_and(|d| d != Family::of(ip).to_string()) => rejections.add(
                format_args!("{}", field(i)),
                text,
                format_args!(
                    "not of the family that spec.ipFamilies[{i}] says; it is not served; make \
                     them agree"
                ),
            ),
            Ok(ip) if ips.iter().any(|other| Family::of(*other) == Family::of(ip)) => rejections
                .add(
                    format_args!("{}", field(i)),
                    text,
                    "a second cluster IP of its family; it is not served; remove it",
                ),
            Ok(ip) => ips.push(ip),
            Err(fault) => rejections.add(
                format_args!("{}", field(i)),
                text,
                format_args!("{fault}; it is not served; correct it"),
            ),
        }
    }
    if single && spec.cluster_ip.is_none() {
        rejections.add(
            format_args!("spec.clusterIP"),
            "",
            "no cluster IP; the Service is not served; use the object as the API server returns \
             it, or write a clusterIP",
        );
    }
    ips
}

/// The text, unless it is absent or blank.
fn written<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    filled(text).filter(|text| !text.trim().is_empty())
}

/// Why an address is no frontend.
#[derive(Debug, thiserror::Error)]
enum AddressFault {
    #[error("not an IP address")]
    NotAnAddress,
    #[error("{0}, which no Service can have")]
    Special(&'static str),
    #[error("the Service has no {0} cluster IP, so that family is not served")]
    NoClusterIp(Family),
}

/// An address that may be a cluster IP or a load-balancer IP.
fn frontend_address(text: &str) -> Result<IpAddr, AddressFault> {
    let address = parse_address(text).ok_or(AddressFault::NotAnAddress)?;
    frontend_kind(address).map_or(Ok(address), |kind| Err(AddressFault::Special(kind)))
}

/// kube-proxy serves no family in which the Service has no cluster IP.
fn of_served_family(address: IpAddr, cluster_ips: &[IpAddr]) -> Result<IpAddr, AddressFault> {
    let family = Family::of(address);
    let served = cluster_ips.iter().any(|ip| Family::of(*ip) == family);
    if served { Ok(address) } else { Err(AddressFault::NoClusterIp(family)) }
}

pub(super) fn external_ips(
    spec: &ServiceSpec<'_>,
    cluster_ips: &[IpAddr],
    rejections: &mut Rejections,
) -> Vec<IpAddr> {
    let all =
        rejections.limit(format_args!("spec.externalIPs"), &spec.external_ips, MAX_EXTERNAL_IPS);
    rejections.nulls(format_args!("spec.externalIPs"), all);
    let mut ips = Vec::new();
    for (i, text) in all.iter().enumerate() {
        let Some(text) = written(text.as_ref()) else { continue };
        let address = frontend_address(text)
            .and_then(|ip| special_kind(ip).map_or(Ok(ip), |k| Err(AddressFault::Special(k))))
            .and_then(|ip| of_served_family(ip, cluster_ips));
        match address {
            Ok(ip) if ips.contains(&ip) => {}
            Ok(ip) => ips.push(ip),
            Err(fault) => rejections.add(
                format_args!("spec.externalIPs[{i}]"),
                text,
                format_args!("{fault}; it is not served; correct or remove it"),
            ),
        }
    }
    ips
}

/// Addresses at which packets arrive unchanged (`ipMode: VIP`); proxying load balancers send to
/// node ports.
pub(super) fn load_balancer_ips(
    status: &wire::ServiceStatus<'_>,
    cluster_ips: &[IpAddr],
    rejections: &mut Rejections,
) -> Vec<IpAddr> {
    let all = rejections.limit(
        format_args!("status.loadBalancer.ingress"),
        &status.load_balancer.ingress,
        MAX_LOAD_BALANCER_IPS,
    );
    rejections.nulls(format_args!("status.loadBalancer.ingress"), all);
    let mut ips = Vec::new();
    for (i, ingress) in all.iter().enumerate() {
        let Some(ingress) = ingress else { continue };
        let Some(text) = filled(ingress.ip.as_ref()) else { continue };
        match filled(ingress.ip_mode.as_ref()) {
            None | Some("VIP") => {}
            Some("Proxy") => continue,
            Some(mode) => {
                rejections.add(
                    format_args!("status.loadBalancer.ingress[{i}].ipMode"),
                    mode,
                    "not an IP mode; the address is not served; use VIP or Proxy",
                );
                continue;
            }
        }
        match frontend_address(text).and_then(|ip| of_served_family(ip, cluster_ips)) {
            Ok(ip) if ips.contains(&ip) => {}
            Ok(ip) => ips.push(ip),
            Err(fault) => rejections.add(
                format_args!("status.loadBalancer.ingress[{i}].ip"),
                text,
                format_args!("{fault}; it is not served; see what wrote the status"),
            ),
        }
    }
    ips
}

/// Invalid ranges are skipped. If that leaves none, an empty list would mean "everybody": then the
/// load-balancer IPs are not served at all.
pub(super) fn source_ranges(
    spec: &ServiceSpec<'_>,
    load_balancer_ips: &mut Vec<IpAddr>,
    rejections: &mut Rejections,
) -> Vec<IpNetwork> {
    let field = "spec.loadBalancerSourceRanges";
    let all = rejections.limit(
        format_args!("{field}"),
        &spec.load_balancer_source_ranges,
        MAX_SOURCE_RANGES,
    );
    rejections.nulls(format_args!("{field}"), all);
    let mut ranges = Vec::with_capacity(all.len());
    let mut asked = false;
    for (i, text) in all.iter().enumerate() {
        // What cannot be read asks for something, though nobody knows for what.
        asked |= text.is_none();
        let Some(text) = written(text.as_ref()) else { continue };
        asked = true;
        match parse_network(text) {
            Some(range) => ranges.push(range),
            None => rejections.add(
                format_args!("{field}[{i}]"),
                text,
                "not a network; it is ignored; write one as 192.0.2.0/24 or 192.0.2.1/32",
            ),
        }
    }
    if asked && ranges.is_empty() && !load_balancer_ips.is_empty() {
        rejections.add(
            format_args!("{field}"),
            "",
            "no range is usable; the load-balancer IPs are not served, rather than to everybody",
        );
        load_balancer_ips.clear();
    }
    open_to_everybody(&ranges, load_balancer_ips, rejections);
    ranges
}

/// Ranges of one family say nothing of the other, as in kube-proxy; who wrote them may not know.
fn open_to_everybody(
    ranges: &[IpNetwork],
    load_balancer_ips: &[IpAddr],
    rejections: &mut Rejections,
) {
    for family in Family::ALL {
        let lacks = !ranges.is_empty() && ranges.iter().all(|r| Family::of(r.ip()) != family);
        let open = load_balancer_ips.iter().find(|ip| Family::of(**ip) == family);
        if let (true, Some(ip)) = (lacks, open) {
            rejections.add(
                format_args!("spec.loadBalancerSourceRanges"),
                ranges[0],
                format_args!(
                    "no range is {family}, so that the load-balancer IP {ip} is open to everybody, \
                     as with kube-proxy; add {family} ranges"
                ),
            );
        }
    }
}
