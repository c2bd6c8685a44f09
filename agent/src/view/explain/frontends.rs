//! Frontends: who has them, and what their clients meet.

use std::collections::BTreeSet;

use sliceproxy_dataplane::frontend::{Family, Frontend};
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::netlink::OtherChain;
use sliceproxy_dataplane::program::PodTraffic;
use sliceproxy_dataplane::rows::RowKey;
use sliceproxy_dataplane::walk::{Rows, walk};

use super::{FrontendExplanation, Inquiry};
use crate::desired::FrontendKind;
use crate::engine::Port;
use crate::model::Service;
use crate::view::diff::{ProgramState, program_state};
use crate::view::route::{RouteView, Surroundings};
use crate::view::services::{kind_name, policy};

/// Chains of others that are named one by one.
const MAX_CHAINS: usize = 20;

impl<K: Kernel> Inquiry<'_, K> {
    fn port(&self, frontend: Frontend) -> Option<(&Service, &Port, FrontendKind)> {
        let owner = self.engine.claims().owner(&frontend)?;
        let ports = self.engine.ports_of(&owner.service);
        let port = ports
            .iter()
            .find(|port| port.name == *owner && port.pool.family() == frontend.family())?;
        let (_, kind) = port.claimed.iter().find(|(claimed, _)| *claimed == frontend)?;
        Some((self.engine.cache().service(&owner.service)?, port, *kind))
    }

    pub(super) fn frontend(&self, frontend: Frontend) -> FrontendExplanation {
        let found = self.port(frontend);
        let mut conflicts = self.engine.claims().conflicts();
        let denied = conflicts.find(|(disputed, _)| **disputed == frontend);
        let denied: Vec<String> = denied
            .map(|(_, losers)| losers.iter().map(ToString::to_string).collect())
            .unwrap_or_default();
        let policy_of = |service: &Service, kind| match kind {
            FrontendKind::ClusterIp => policy(service.internal_policy),
            _ => policy(service.external_policy),
        };
        FrontendExplanation {
            frontend: frontend.to_string(),
            kind: found.map(|(_, _, kind)| kind_name(kind).to_owned()),
            service_port: found.map(|(_, port, _)| port.name.to_string()),
            traffic_policy: found.map(|(service, _, kind)| policy_of(service, kind).to_owned()),
            session_affinity_seconds: found.and_then(|(service, ..)| service.affinity_timeout),
            remark: found.is_none().then(|| self.remark(frontend, &denied)),
            denied,
            routes: self.routes(frontend, found.map(|(service, _, kind)| (service, kind))),
        }
    }

    fn routes(
        &self,
        frontend: Frontend,
        found: Option<(&Service, FrontendKind)>,
    ) -> Vec<RouteView> {
        let node = self.engine.node();
        let settings = self.engine.settings();
        let surroundings = Surroundings {
            host: self.host,
            node: &self.node,
            node_addresses: node.map(|node| node.addresses.as_slice()).unwrap_or_default(),
            pod_cidrs: &self.engine.here().pod_cidrs,
            program: &settings.program,
        };
        let family = frontend.family();
        let restricted = found.filter(|(_, kind)| *kind == FrontendKind::LoadBalancerIp);
        let allowed = restricted.map(|(service, _)| service.source_ranges.as_slice());
        let senders = match self.from {
            Some(from) => vec![surroundings.sender(from)],
            None => surroundings.examples(family, allowed.unwrap_or_default()),
        };
        let unhandled = match (self.program(family), self.held.picture.table(family)) {
            (None, _) => Err(format!("{family} is switched off here")),
            (_, None) => Err(format!("the kernel has no table {} sliceproxy", family.nft_name())),
            (Some(program), Some(_)) => Ok(program),
        };
        let routes = senders.into_iter().map(|sender| match &unhandled {
            Ok(program) => {
                sender.route(&walk(program, self.held, &self.node, &sender.packet(frontend)))
            }
            Err(why) => sender.unhandled(why),
        });
        routes.collect()
    }

    /// Where pods are to be recognised by an interface that is not there.
    fn no_pod_interface(&self, frontends: &[Frontend]) -> Option<String> {
        let program = &self.engine.settings().program;
        let family = frontends.first()?.family();
        let pods = if family == Family::V4 { &program.pods_v4 } else { &program.pods_v6 };
        let wanted = match pods {
            PodTraffic::Interface(name) => name.clone(),
            PodTraffic::InterfacePrefix(prefix) => format!("{prefix}*"),
            PodTraffic::Unknown | PodTraffic::From(_) => return None,
        };
        self.host?.pod_interface(pods).is_none().then(|| {
            format!("no interface is called {wanted}: no traffic is recognised as that of pods")
        })
    }

    /// Ranges that restrict nobody, since they are all of the other family.
    fn unrestricted(&self, frontend: Frontend) -> Option<String> {
        let (service, _, kind) = self.port(frontend)?;
        let ranges = &service.source_ranges;
        let family = frontend.family();
        let lacks = !ranges.is_empty() && ranges.iter().all(|r| Family::of(r.ip()) != family);
        (kind == FrontendKind::LoadBalancerIp && lacks).then(|| {
            format!(
                "loadBalancerSourceRanges of {} has no {family} range: {frontend} is open to everybody",
                service.name
            )
        })
    }

    /// Chains of others that packets to the frontends may meet.
    pub(super) fn not_followed(&self, frontends: &[Frontend]) -> Vec<String> {
        let families: BTreeSet<_> = frontends.iter().map(|f| f.family().nft_name()).collect();
        let met = |chain: &&OtherChain| chain.family == "inet" || families.contains(chain.family);
        let chains = self.host.into_iter().flat_map(|host| &host.chains);
        let mut told: Vec<String> = chains.filter(met).map(ToString::to_string).collect();
        if let more @ 1.. = told.len().saturating_sub(MAX_CHAINS) {
            told.truncate(MAX_CHAINS);
            told.push(format!("{more} more chains"));
        }
        told
    }

    /// Limits that keep a part of the frontends' Services from being served.
    fn exceeded(&self, frontends: &[Frontend]) -> Vec<String> {
        let owners = frontends.iter().filter_map(|f| self.engine.claims().owner(f));
        let mut services: Vec<_> = owners.map(|owner| &owner.service).collect();
        services.sort_unstable();
        services.dedup();
        let sentence = |service| {
            let exceeded = self.engine.exceeded(service).iter();
            exceeded.map(move |excess| format!("{service} {excess}"))
        };
        services.into_iter().flat_map(sentence).collect()
    }

    /// Where the kernel is not what it should be.
    pub(super) fn warnings(&self, frontends: &[Frontend]) -> Vec<String> {
        let mut warnings = Vec::new();
        for family in Family::ALL {
            if !frontends.iter().any(|frontend| frontend.family() == family) {
                continue;
            }
            let name = format!("table {} sliceproxy", family.nft_name());
            match program_state(self.program(family), self.held.picture.table(family)) {
                ProgramState::Current => {}
                ProgramState::Missing => warnings.push(format!("the kernel has no {name}")),
                ProgramState::Off | ProgramState::Surplus => {
                    warnings.push(format!("{family} is switched off here"));
                }
                ProgramState::Other | ProgramState::Damaged => warnings.push(format!(
                    "{name} holds another program than it should; what follows is what the right \
                     one would do with the rows that are there"
                )),
            }
        }
        warnings.extend(self.exceeded(frontends));
        warnings.extend(self.no_pod_interface(frontends));
        warnings.extend(frontends.iter().filter_map(|frontend| self.unrestricted(*frontend)));
        let concerns = |key: &RowKey| key.frontend().is_some_and(|f| frontends.contains(&f));
        let desired = self.engine.ledger().desired_rows().filter(|row| concerns(&row.key));
        let wrong = desired.filter(|row| self.held.row(&row.key) != Some(row.value)).count();
        let held = self.held.picture.rows().filter(|row| concerns(&row.key));
        let surplus = held.filter(|row| self.engine.ledger().desired(&row.key).is_none()).count();
        if wrong + surplus > 0 {
            warnings.push(format!(
                "{} rows are not in the kernel as they should be; `sliceproxy diff` shows them",
                wrong + surplus
            ));
        }
        warnings
    }
}
