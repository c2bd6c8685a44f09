//! Who owns a frontend that several Service ports ask for.
//!
//! A cluster IP goes before anything else, so that no other Service can capture it with an external
//! IP; then the older Service wins, then the name. The order is total, so every node decides alike.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rustc_hash::{FxHashMap, FxHashSet};
use sliceproxy_dataplane::frontend::Frontend;

use crate::desired::FrontendKind;
use crate::few::Few;
use crate::model::{Service, ServiceName, ServicePortName};

/// One Service port's wish for a frontend. The least one wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// 0 for a cluster IP, 1 for the rest.
    rank: u8,
    created: i64,
    /// The Service port.
    pub port: ServicePortName,
}

impl Claim {
    /// The claim of `port`, a port of `service`, to a frontend of that kind.
    pub fn new(service: &Service, port: &ServicePortName, kind: FrontendKind) -> Self {
        let rank = u8::from(kind != FrontendKind::ClusterIp);
        Self { rank, created: service.created, port: port.clone() }
    }
}

/// All claims, and the cluster IPs in use.
#[derive(Debug, Default)]
pub struct Claims {
    by_frontend: FxHashMap<Frontend, Few<Claim>>,
    /// Frontends claimed as something else than a cluster IP, by address.
    external: FxHashMap<IpAddr, BTreeSet<Frontend>>,
    cluster_ips: FxHashMap<IpAddr, Few<ServiceName>>,
    /// Frontends that somebody claims and does not get.
    contested: FxHashSet<Frontend>,
    /// Counts changes of who gets what among the contested.
    disputes: u64,
}

impl Claims {
    /// Enters a claim; gives the Service ports that may win or lose by it.
    pub fn add(&mut self, frontend: Frontend, claim: Claim) -> Vec<ServicePortName> {
        if claim.rank > 0 {
            self.external.entry(frontend.address).or_default().insert(frontend);
        }
        let claims = self.by_frontend.entry(frontend).or_default();
        let before = claims.first().map(|claim| claim.port.clone());
        let port = claim.port.clone();
        claims.insert(claim);
        self.judge(frontend);
        before.into_iter().chain([port]).collect()
    }

    /// Withdraws a claim; gives the Service ports that may win or lose by it.
    pub fn remove(&mut self, frontend: Frontend, claim: &Claim) -> Vec<ServicePortName> {
        let Some(claims) = self.by_frontend.get_mut(&frontend) else { return Vec::new() };
        claims.remove(claim);
        let now = claims.first().map(|claim| claim.port.clone());
        if !claims.iter().any(|claim| claim.rank > 0)
            && let Some(frontends) = self.external.get_mut(&frontend.address)
        {
            frontends.remove(&frontend);
            if frontends.is_empty() {
                self.external.remove(&frontend.address);
            }
        }
        if claims.is_empty() {
            self.by_frontend.remove(&frontend);
        }
        self.judge(frontend);
        now.into_iter().chain([claim.port.clone()]).collect()
    }

    /// Marks an address as a cluster IP of `service`. Gives the Service ports that claim a frontend
    /// on it and may lose it.
    pub fn add_cluster_ip(
        &mut self,
        address: IpAddr,
        service: &ServiceName,
    ) -> Vec<ServicePortName> {
        self.cluster_ips.entry(address).or_default().insert(service.clone());
        self.external_on(address)
    }

    /// Takes back [`Claims::add_cluster_ip`]; gives the Service ports that may win by it.
    pub fn remove_cluster_ip(
        &mut self,
        address: IpAddr,
        service: &ServiceName,
    ) -> Vec<ServicePortName> {
        if let Some(services) = self.cluster_ips.get_mut(&address) {
            services.remove(service);
            if services.is_empty() {
                self.cluster_ips.remove(&address);
            }
        }
        self.external_on(address)
    }

    /// Notes whether somebody goes without `frontend`.
    fn judge(&mut self, frontend: Frontend) {
        let claims = self.by_frontend.get(&frontend).map_or(0, Few::len);
        let contested = claims > usize::from(self.owner(&frontend).is_some());
        let before = if contested {
            !self.contested.insert(frontend)
        } else {
            self.contested.remove(&frontend)
        };
        self.disputes += u64::from(before || contested);
    }

    fn external_on(&mut self, address: IpAddr) -> Vec<ServicePortName> {
        for frontend in self.external.get(&address).cloned().unwrap_or_default() {
            self.judge(frontend);
        }
        let frontends = self.external.get(&address).into_iter().flatten();
        let claims = frontends.filter_map(|frontend| self.by_frontend.get(frontend)).flatten();
        claims.filter(|claim| claim.rank > 0).map(|claim| claim.port.clone()).collect()
    }

    /// The Service port that owns `frontend`: the first claim, unless the address is a cluster IP of
    /// another Service.
    pub fn owner(&self, frontend: &Frontend) -> Option<&ServicePortName> {
        let first = self.by_frontend.get(frontend)?.first()?;
        let captured = first.rank > 0
            && self
                .cluster_ips
                .get(&frontend.address)
                .is_some_and(|services| !services.contains(&first.port.service));
        (!captured).then_some(&first.port)
    }

    /// Changes whenever [`Claims::conflicts`] may have.
    pub fn disputes(&self) -> u64 {
        self.disputes
    }

    /// Frontends that more than one Service port claims, or that are another Service's cluster IP,
    /// with the losers: for Events, metrics and `explain`.
    pub fn conflicts(&self) -> impl Iterator<Item = (&Frontend, Vec<&ServicePortName>)> {
        self.contested.iter().map(|frontend| {
            let owner = self.owner(frontend);
            let claims = self.by_frontend.get(frontend).into_iter().flatten();
            let losers = claims.map(|claim| &claim.port).filter(|port| Some(*port) != owner);
            (frontend, losers.collect())
        })
    }
}
