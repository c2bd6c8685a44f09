//! A packet's way through program and rows, and what becomes of it, in words and numbers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;
use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::{Family, Frontend};
use sliceproxy_dataplane::program::{PodTraffic, ProgramConfig};
use sliceproxy_dataplane::walk::{Choice, Fate, Masquerade, Node, Origin, Outcome, Packet, Walk};

use crate::host::{Host, is_of_pods};

/// What happens to the first packet of a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteView {
    /// Who sends it, in words.
    pub from: String,
    /// The sender's address; where nobody was named, an example.
    pub source: IpAddr,
    /// What happens.
    pub outcome: OutcomeKind,
    /// The same in words.
    pub summary: String,
    /// The endpoints that it may be sent to.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub choices: Vec<ChoiceView>,
    /// The way through the rules, step by step.
    pub steps: Vec<String>,
}

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeKind {
    /// Its destination becomes that of an endpoint.
    Translated,
    /// The sender is told that nobody is there.
    Refused,
    /// It vanishes.
    Dropped,
    /// Nothing.
    Passed,
}

/// An endpoint that a packet may be sent to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChoiceView {
    /// Address and port.
    pub endpoint: String,
    /// Its slot; absent if it is remembered for this client.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slot: Option<u32>,
    /// Its share of new connections.
    pub percent: f64,
    /// Whether it sees the node's address instead of the sender's.
    pub masqueraded: bool,
    /// What becomes of the packet, if it is not delivered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fate: Option<String>,
}

/// A sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sender {
    what: String,
    address: IpAddr,
    origin: Origin,
    input_interface: Option<String>,
}

/// How sure an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Seen,
    Assumed,
}

/// What senders are recognised by.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    /// The machine, where it is at hand.
    pub(super) host: Option<&'a Host>,
    /// Addresses of this node.
    pub(super) node: &'a Node,
    /// The same, in the order of the Node object.
    pub(super) node_addresses: &'a [IpAddr],
    /// Networks of this node's pods.
    pub(super) pod_cidrs: &'a [IpNetwork],
    /// How the program recognises pods.
    pub(super) program: &'a ProgramConfig,
}

impl Surroundings<'_> {
    fn pods(&self, family: Family) -> &PodTraffic {
        match family {
            Family::V4 => &self.program.pods_v4,
            Family::V6 => &self.program.pods_v6,
        }
    }

    /// The sender with that address.
    pub(super) fn sender(&self, address: IpAddr) -> Sender {
        if self.node.is_local(address) {
            let what = format!("this node ({address})");
            return Sender { what, address, origin: Origin::ThisNode, input_interface: None };
        }
        let of_pods = self.pods(Family::of(address));
        let here = self.pod_cidrs.iter().any(|network| network.contains(address));
        let recognised = matches!(of_pods, PodTraffic::From(network) if network.contains(address));
        let (input_interface, over) = match self.interface(address, here) {
            Some((name, Found::Seen)) => (Some(name.clone()), format!(", over {name}")),
            Some((name, Found::Assumed)) => {
                (Some(name.clone()), format!(", over {name} as is assumed"))
            }
            None => (None, String::new()),
        };
        let by_interface = input_interface.as_ref().is_some_and(|name| is_of_pods(of_pods, name));
        let what = match (here || by_interface, recognised) {
            (true, _) => format!("a pod on this node ({address}{over})"),
            (false, true) => format!("a pod ({address}{over})"),
            (false, false) => format!("outside ({address}{over})"),
        };
        Sender { what, address, origin: Origin::Elsewhere, input_interface }
    }

    /// The interface that its packets arrive on, where that matters: the one that leads there. Of an
    /// example, and on another machine, it can only be assumed.
    fn interface(&self, address: IpAddr, here: bool) -> Option<(String, Found)> {
        let of_pods = self.pods(Family::of(address));
        let named = match of_pods {
            PodTraffic::Interface(name) => name.clone(),
            PodTraffic::InterfacePrefix(prefix) => format!("{prefix}0"),
            PodTraffic::From(_) | PodTraffic::Unknown => return None,
        };
        let Some(host) = self.host else { return here.then_some((named, Found::Assumed)) };
        if let Some((_, name)) = host.way.as_ref().filter(|(client, _)| *client == address) {
            return Some((name.clone(), Found::Seen));
        }
        let likely = host.pod_interface(of_pods).filter(|_| here)?;
        Some((likely.to_owned(), Found::Assumed))
    }

    /// Examples of everyone who may be treated differently: a pod, the node, a stranger, and one of
    /// `allowed`, the frontend's source ranges.
    pub(super) fn examples(&self, family: Family, allowed: &[IpNetwork]) -> Vec<Sender> {
        let of_family = |network: &&IpNetwork| Family::of(network.ip()) == family;
        let pods = self.pod_cidrs.iter().find(of_family).copied().or(match self.pods(family) {
            PodTraffic::From(network) => Some(*network),
            _ => None,
        });
        let own = self.node_addresses.iter().find(|address| Family::of(**address) == family);
        let stranger: IpAddr = match family {
            Family::V4 => Ipv4Addr::new(192, 0, 2, 1).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        };
        let mut senders: Vec<Sender> = Vec::new();
        senders.extend(pods.map(example).map(|address| self.sender(address)));
        senders.extend(own.map(|address| self.sender(*address)));
        senders.push(self.sender(stranger));
        if let Some(range) = allowed.iter().find(of_family) {
            let mut sender = self.sender(example(*range));
            sender.what = format!("a client in {range} ({})", sender.address);
            senders.push(sender);
        }
        senders
    }
}

/// An address in `network` that is unlikely to be taken: towards its end, but not the last one.
fn example(network: IpNetwork) -> IpAddr {
    match network {
        IpNetwork::V4(network) => {
            let (first, last) = (u32::from(network.network()), u32::from(network.broadcast()));
            Ipv4Addr::from(last.saturating_sub(1).max(first)).into()
        }
        IpNetwork::V6(network) => {
            let (first, last) = (u128::from(network.network()), u128::from(network.broadcast()));
            Ipv6Addr::from((first + 0xfffe).min(last)).into()
        }
    }
}

impl Sender {
    /// The packet with which it opens a connection to `frontend`.
    pub(super) fn packet(&self, frontend: Frontend) -> Packet {
        Packet {
            source: self.address,
            destination: frontend.address,
            protocol: frontend.protocol.number(),
            port: frontend.port,
            input_interface: self.input_interface.clone(),
            origin: self.origin,
        }
    }

    /// Tells what became of its packet.
    pub(super) fn route(&self, walk: &Walk) -> RouteView {
        let (outcome, choices) = match &walk.outcome {
            Outcome::Translated { choices, lost, .. } => {
                let total = choices.iter().map(|c| f64::from(c.share)).sum::<f64>();
                let total = total + f64::from(*lost);
                let choices = choices.iter().map(|choice| choice_view(choice, total)).collect();
                (OutcomeKind::Translated, choices)
            }
            Outcome::Refused { .. } => (OutcomeKind::Refused, Vec::new()),
            Outcome::Dropped { .. } => (OutcomeKind::Dropped, Vec::new()),
            Outcome::Passed => (OutcomeKind::Passed, Vec::new()),
        };
        RouteView {
            from: self.what.clone(),
            source: self.address,
            outcome,
            summary: summary(&walk.outcome, &choices),
            choices,
            steps: walk.steps.iter().map(ToString::to_string).collect(),
        }
    }

    /// What happens where there is no table of ours.
    pub(super) fn unhandled(&self, why: &str) -> RouteView {
        RouteView {
            from: self.what.clone(),
            source: self.address,
            outcome: OutcomeKind::Passed,
            summary: format!("passes untouched: {why}"),
            choices: Vec::new(),
            steps: Vec::new(),
        }
    }
}

fn choice_view(choice: &Choice, total: f64) -> ChoiceView {
    let percent = f64::from(choice.share) * 100.0 / total;
    ChoiceView {
        endpoint: choice.endpoint.to_string(),
        slot: choice.slot,
        percent: (percent * 1000.0).round() / 1000.0,
        masqueraded: choice.masqueraded.is_some(),
        fate: (choice.fate != Fate::Delivered).then(|| choice.fate.to_string()),
    }
}

fn summary(outcome: &Outcome, choices: &[ChoiceView]) -> String {
    match outcome {
        Outcome::Translated { lost, masquerade, .. } => {
            let mut text = destinations(choices);
            if choices.iter().any(|choice| choice.fate.is_some()) {
                text.push_str(", but not all arrive");
            }
            if *lost > 0 {
                text.push_str("; the rest finds no endpoint: rows are missing");
            }
            format!("{text}; {}", masquerading(*masquerade))
        }
        Outcome::Refused { by, .. } => format!("refused by {by}"),
        Outcome::Dropped { chain } => format!("dropped: {}", drop_reason(chain)),
        Outcome::Passed => "passes untouched: no row matches".to_owned(),
    }
}

fn destinations(choices: &[ChoiceView]) -> String {
    let least = choices.iter().map(|c| c.percent).fold(f64::INFINITY, f64::min);
    let most = choices.iter().map(|c| c.percent).fold(0.0, f64::max);
    match choices {
        [] => "DNAT to nobody".to_owned(),
        [only] if only.slot.is_none() => {
            format!("DNAT to {}, remembered for this client", only.endpoint)
        }
        [only] => format!("DNAT to {}", only.endpoint),
        many if most - least < 0.01 => {
            format!("DNAT to one of {} endpoints, {} % each", many.len(), share(most))
        }
        many => {
            let (least, most) = (share(least), share(most));
            format!("DNAT to one of {} endpoints, {least} to {most} %", many.len())
        }
    }
}

/// A share of the traffic in percent, for people: a small one is not nothing.
pub fn share(percent: f64) -> String {
    if percent < 0.05 { "< 0.1".to_owned() } else { format!("{percent:.1}") }
}

fn masquerading(masquerade: Masquerade) -> String {
    match masquerade {
        Masquerade::Never => "the endpoint sees the client's address".to_owned(),
        Masquerade::Always => "masqueraded: the endpoint sees this node's address".to_owned(),
        Masquerade::HairpinOnly => {
            "masqueraded only if the endpoint is the client itself".to_owned()
        }
    }
}

/// Why a chain of the program drops.
fn drop_reason(chain: &str) -> String {
    match chain {
        "source-ranges" => "the client is not in loadBalancerSourceRanges".to_owned(),
        "refuse" => "an address of a Service CIDR that no Service has".to_owned(),
        "select" => "policy Local, and no usable endpoint is on this node".to_owned(),
        chain => format!("in chain {chain}"),
    }
}

/// Each endpoint's share, as the first of `routes` sees it that may lead there.
pub(super) fn shares<'r>(routes: impl IntoIterator<Item = &'r RouteView>) -> HashMap<&'r str, f64> {
    let mut shares = HashMap::new();
    for choice in routes.into_iter().flat_map(|route| &route.choices) {
        shares.entry(choice.endpoint.as_str()).or_insert(choice.percent);
    }
    shares
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_small_share_is_not_shown_as_none() {
        for (percent, text) in [(0.001, "< 0.1"), (0.05, "0.1"), (16.667, "16.7")] {
            assert_eq!(share(percent), text);
        }
        let choice = |percent| ChoiceView {
            endpoint: "10.244.1.10:8080".to_owned(),
            slot: Some(0),
            percent,
            masqueraded: false,
            fate: None,
        };
        let text = destinations(&[choice(0.001), choice(0.001)]);
        assert_eq!(text, "DNAT to one of 2 endpoints, < 0.1 % each");
    }

    #[test]
    fn examples_lie_inside_of_their_network() {
        for (network, expected) in [
            ("10.244.1.0/24", "10.244.1.254"),
            ("10.0.0.0/31", "10.0.0.0"),
            ("10.0.0.7/32", "10.0.0.7"),
            ("0.0.0.0/0", "255.255.255.254"),
            ("fd00::/64", "fd00::fffe"),
            ("fd00::5/128", "fd00::5"),
        ] {
            let network: IpNetwork = network.parse().unwrap();
            let address = example(network);
            assert_eq!(address.to_string(), expected);
            assert!(network.contains(address));
        }
    }
}
