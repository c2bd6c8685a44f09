//! From Services to Service ports: which frontends they ask for, who gets them, and what that changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend};
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::rows::Slot;

use super::limits::{Budget, allot};
use super::{Adoptable, Engine, Port, flows, terms};
use crate::claims::Claim;
use crate::desired::{self, FrontendKind};
use crate::model::{Service, ServiceName, ServicePort, ServicePortName};
use crate::pool::Pool;

/// What a Service port asks for in one family.
#[derive(Debug)]
pub(super) struct PortClaims {
    name: ServicePortName,
    spec: ServicePort,
    family: Family,
    frontends: Vec<(Frontend, FrontendKind)>,
}

impl<K: Kernel> Engine<K> {
    /// Replaces the ports of a Service by those of another version of it.
    pub(super) fn refresh(&mut self, old: Option<&Arc<Service>>, new: Option<&Arc<Service>>) {
        let Some(name) = new.or(old).map(|service| service.name.clone()) else { return };
        let before = self.ports.remove(&name).unwrap_or_default();
        let either = |has: fn(&Service) -> bool| [old, new].into_iter().flatten().any(|s| has(s));
        self.checks_due |= either(|service| service.health_check_node_port.is_some());
        if either(|service| service.affinity_timeout.is_some()) && old.is_some() {
            self.affinity_due.extend(before.iter().map(|port| port.pool.family()));
        }
        let mut affected = BTreeSet::new();
        if let Some(old) = old {
            affected.extend(self.withdraw_claims(old, &before));
        }
        let mut gone = before;
        if let Some(new) = new {
            let budget = self.budget(new);
            let claims = self.claims_of(new, budget);
            self.note_budget(new, budget.as_ref());
            affected.extend(self.enter_claims(new, &claims));
            let (kept, rest) = self.match_ports(new, claims, gone);
            self.ports.insert(name, kept);
            gone = rest;
        } else {
            self.forget_limits(&name);
        }
        for mut port in gone {
            let lost = port.withdraw(&mut self.ledger);
            self.flows_due.extend(flows::udp(lost));
        }
        self.settle(affected);
    }

    /// The frontends that each port of `service` asks for, in each family where it does; within
    /// `budget`.
    pub(super) fn claims_of(
        &self,
        service: &Service,
        mut budget: Option<Budget>,
    ) -> Vec<PortClaims> {
        let mut claims = Vec::with_capacity(service.ports.len());
        for spec in &service.ports {
            let name = ServicePortName {
                service: service.name.clone(),
                port: Arc::clone(&spec.name),
                protocol: spec.protocol,
            };
            for family in self.settings.families.iter().copied() {
                let addresses = &self.node_port_addresses;
                let mut frontends = desired::frontends(service, spec, family, addresses);
                if let Some(budget) = &mut budget {
                    frontends.retain(|(_, kind)| {
                        let left = &mut budget[*kind as usize];
                        let fits = *left > 0;
                        *left -= usize::from(fits);
                        fits
                    });
                }
                if !frontends.is_empty() {
                    let (name, spec) = (name.clone(), spec.clone());
                    claims.push(PortClaims { name, spec, family, frontends });
                }
            }
        }
        claims
    }

    /// The ports of `service`: those of `before` that go on, and new ones; and those that are gone.
    fn match_ports(
        &mut self,
        service: &Service,
        claims: Vec<PortClaims>,
        mut before: Vec<Port>,
    ) -> (Vec<Port>, Vec<Port>) {
        let mut ports = Vec::with_capacity(claims.len());
        for claim in claims {
            let same = |port: &Port| port.name == claim.name && port.pool.family() == claim.family;
            let mut port = if let Some(position) = before.iter().position(same) {
                before.swap_remove(position)
            } else {
                let pool = self.fill_pool(service, &claim);
                Port::new(claim.name, claim.spec.clone(), pool)
            };
            port.spec = claim.spec;
            port.claimed = claim.frontends;
            ports.push(port);
        }
        (ports, before)
    }

    /// A pool with the endpoints of all known slices, in the slots that an earlier run gave them.
    fn fill_pool(&mut self, service: &Service, claim: &PortClaims) -> Pool {
        let mut pool = Pool::new(Arc::clone(&claim.name.port), claim.name.protocol, claim.family);
        let owned =
            claim.frontends.iter().filter(|(f, _)| self.claims.owner(f) == Some(&claim.name));
        let known: Vec<&Adoptable> =
            owned.filter_map(|(frontend, _)| self.adoptable.get(frontend)).collect();
        // All frontends of a Service port have the same endpoints in the same slots, if they have
        // any in that map.
        let longest = |lists: Vec<&Vec<(Slot, Endpoint)>>| {
            let list = lists.into_iter().max_by_key(|list| list.len());
            list.into_iter().flatten().map(|(_, endpoint)| *endpoint).collect()
        };
        pool.fill(
            self.cache.slices_of(&service.name),
            longest(known.iter().map(|adoptable| &adoptable.cluster).collect()),
            longest(known.iter().map(|adoptable| &adoptable.local).collect()),
            &self.here,
            &self.wishes(service),
        );
        pool
    }

    pub(super) fn enter_claims(
        &mut self,
        service: &Service,
        claims: &[PortClaims],
    ) -> BTreeSet<ServicePortName> {
        let mut affected: BTreeSet<_> = claims.iter().map(|claim| claim.name.clone()).collect();
        for address in &service.cluster_ips {
            affected.extend(self.claims.add_cluster_ip(*address, &service.name));
        }
        for PortClaims { name, frontends, .. } in claims {
            for (frontend, kind) in frontends {
                affected.extend(self.claims.add(*frontend, Claim::new(service, name, *kind)));
            }
        }
        affected
    }

    fn withdraw_claims(&mut self, service: &Service, ports: &[Port]) -> BTreeSet<ServicePortName> {
        let mut affected = BTreeSet::new();
        for address in &service.cluster_ips {
            affected.extend(self.claims.remove_cluster_ip(*address, &service.name));
        }
        for port in ports {
            for (frontend, kind) in &port.claimed {
                let claim = Claim::new(service, &port.name, *kind);
                affected.extend(self.claims.remove(*frontend, &claim));
            }
        }
        affected
    }

    /// Renders Service ports whose frontends, wishes or policies may have changed: first all give up
    /// what they lost, then each takes what it owns.
    pub(super) fn settle(&mut self, mut affected: BTreeSet<ServicePortName>) {
        let services: BTreeSet<ServiceName> =
            affected.iter().map(|name| name.service.clone()).collect();
        for service in &services {
            let Some(ports) = self.ports.get_mut(service) else { continue };
            if allot(ports, self.restraint.limits) {
                affected.extend(ports.iter().map(|port| port.name.clone()));
            }
        }
        for name in &affected {
            for port in self.ports.get_mut(&name.service).into_iter().flatten() {
                if port.name == *name {
                    let lost = port.retract(&port.entitled(&self.claims), &mut self.ledger);
                    self.flows_due.extend(flows::udp(lost));
                }
            }
        }
        for name in affected {
            let Some(service) = self.cache.service(&name.service).cloned() else { continue };
            let wishes = self.wishes(&service);
            let terms = terms(self.node.as_ref(), self.restraint.limits);
            for port in self.ports.get_mut(&name.service).into_iter().flatten() {
                if port.name == name {
                    let changes = port.pool.reselect(&self.here, &wishes);
                    self.checks_due |=
                        service.health_check_node_port.is_some() && changes.concern_checks();
                    let owned = port.entitled(&self.claims);
                    let gained = port.render(&service, &owned, &changes, terms, &mut self.ledger);
                    self.flows_due.extend(flows::udp(gained));
                }
            }
        }
        for service in &services {
            self.note_limits(service);
        }
    }
}
