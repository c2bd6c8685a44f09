//! What one Service may cost this node, and what becomes of one that wants more.
//!
//! Whoever may create a Service decides how many rows a node holds. Beyond a limit a Service is not
//! frozen, since endpoints that are gone would go on being served, but loses its least important
//! frontends: node ports first, then external IPs, load-balancer IPs, and cluster IPs at last. The
//! others are served as always, and other Services never notice.
//!
//! | limit | counts | beyond it |
//! |---|---|---|
//! | `frontendsPerService` | addresses times ports | the first so many are served |
//! | `rowsPerService` | frontends times (endpoints + 4) | of each port in turn, as many frontends as fit |
//! | `affinityRows` | remembered clients, per family | the kernel remembers no more of them |
//! | `endpointCounts` | different numbers of endpoints, each of which needs a chain | the next smaller number in use: some endpoints get no new connections |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sliceproxy_dataplane::kernel::Kernel;

use super::{Engine, Port};
use crate::config::{Config, Gate, Limits};
use crate::desired::{self, FrontendKind};
use crate::model::{Service, ServiceName, ServicePortName};

/// Rows of a frontend beside those for its endpoints, at most, source ranges aside.
const ROWS_PER_FRONTEND: u64 = 4;

/// How many frontends of each kind a Service may have.
pub(super) type Budget = [usize; FrontendKind::ALL.len()];

/// A part of a Service that is not served because a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excess {
    /// More addresses times ports than a Service may have.
    Frontends {
        /// How many it asks for.
        wanted: usize,
        /// How many it gets.
        limit: u32,
    },
    /// More rows than a Service may have.
    Rows {
        /// Frontends that are not served.
        unserved: usize,
        /// Rows that it may have.
        limit: u32,
    },
    /// More different numbers of endpoints than this node may have chains for.
    EndpointCounts {
        /// Endpoints of a port of it.
        wanted: u32,
        /// Those that get connections.
        used: u32,
        /// Numbers that there may be.
        limit: u32,
    },
}

impl Excess {
    /// The limit's name in the configuration.
    pub fn limit(&self) -> &'static str {
        match self {
            Self::Frontends { .. } => "frontendsPerService",
            Self::Rows { .. } => "rowsPerService",
            Self::EndpointCounts { .. } => "endpointCounts",
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frontends { wanted, limit } => write!(
                f,
                "asks for {wanted} frontends (addresses times ports); {limit} are served, node \
                 ports last"
            ),
            Self::Rows { unserved, limit } => write!(
                f,
                "needs more than {limit} rows (frontends times endpoints); {unserved} of its \
                 frontends are not served, node ports first"
            ),
            Self::EndpointCounts { wanted, used, limit } => write!(
                f,
                "has {wanted} endpoints, and there are {limit} different numbers of endpoints \
                 already; {used} of them get connections"
            ),
        }?;
        write!(f, "; split the Service, or raise limits.{}", self.limit())
    }
}

/// What the engine knows of limits.
#[derive(Debug, Default)]
pub(super) struct Restraint {
    pub(super) limits: Limits,
    /// Gate `AllowServiceExternalIPs` is off.
    pub(super) without_external_ips: bool,
    /// Services with too many frontends, and how many they ask for.
    trimmed: BTreeMap<ServiceName, usize>,
    exceeded: BTreeMap<ServiceName, Vec<Excess>>,
    /// What was exceeded since the last transaction and was not before.
    pub(super) news: Vec<(ServiceName, Excess)>,
}

impl<K: Kernel> Engine<K> {
    /// Keeps to the limits and gates of `config`, instead of the defaults.
    #[must_use]
    pub fn obeying(mut self, config: &Config) -> Self {
        self.restraint.limits = config.limits;
        self.restraint.without_external_ips = !config.gates.enabled(Gate::AllowServiceExternalIPs);
        self
    }

    /// What of `service` is not served because a limit is reached.
    pub fn exceeded(&self, service: &ServiceName) -> &[Excess] {
        self.restraint.exceeded.get(service).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many frontends of each kind `service` may have; `None` if as many as it asks for.
    pub(super) fn budget(&self, service: &Service) -> Option<Budget> {
        let limit = self.frontends_per_service();
        let addresses = service.cluster_ips.len()
            + service.load_balancer_ips.len()
            + service.external_ips.len()
            + self.node_port_addresses.len();
        if service.ports.len() * addresses <= limit {
            return None;
        }
        let mut budget = self.count_frontends(service);
        let mut left = limit;
        for wanted in &mut budget {
            *wanted = left.min(*wanted);
            left -= *wanted;
        }
        Some(budget)
    }

    fn frontends_per_service(&self) -> usize {
        usize::try_from(self.restraint.limits.frontends_per_service).unwrap_or(usize::MAX)
    }

    fn count_frontends(&self, service: &Service) -> Budget {
        let mut counts = Budget::default();
        for spec in &service.ports {
            for family in self.settings.families.iter().copied() {
                let addresses = &self.node_port_addresses;
                for (_, kind) in desired::frontends(service, spec, family, addresses) {
                    counts[kind as usize] += 1;
                }
            }
        }
        counts
    }

    /// Remembers whether `service` got fewer frontends than it asks for.
    pub(super) fn note_budget(&mut self, service: &Service, budget: Option<&Budget>) {
        let wanted = budget.map(|_| self.count_frontends(service).iter().sum());
        match wanted.filter(|wanted| *wanted > self.frontends_per_service()) {
            Some(wanted) => {
                self.restraint.trimmed.insert(service.name.clone(), wanted);
            }
            None => {
                self.restraint.trimmed.remove(&service.name);
            }
        }
    }

    /// The Service is gone.
    pub(super) fn forget_limits(&mut self, service: &ServiceName) {
        self.restraint.trimmed.remove(service);
        self.restraint.exceeded.remove(service);
    }

    /// Says what of a Service is left out, after its ports have been rendered.
    pub(super) fn note_limits(&mut self, service: &ServiceName) {
        let Limits { frontends_per_service, rows_per_service, endpoint_counts, .. } =
            self.restraint.limits;
        let mut now = Vec::new();
        if let Some(wanted) = self.restraint.trimmed.get(service).copied() {
            now.push(Excess::Frontends { wanted, limit: frontends_per_service });
        }
        let ports = self.ports.get(service).map(Vec::as_slice).unwrap_or_default();
        let unserved = ports.iter().map(Port::unserved).sum();
        if unserved > 0 {
            now.push(Excess::Rows { unserved, limit: rows_per_service });
        }
        if let Some((wanted, used)) = ports.iter().filter_map(Port::rounded).max() {
            now.push(Excess::EndpointCounts { wanted, used, limit: endpoint_counts });
        }
        let before = self.restraint.exceeded.get(service).map(Vec::as_slice).unwrap_or_default();
        if now == before {
            return;
        }
        let is_new = |excess: &&Excess| !before.iter().any(|old| old.limit() == excess.limit());
        let news: Vec<_> =
            now.iter().filter(is_new).map(|excess| (service.clone(), *excess)).collect();
        self.restraint.news.extend(news);
        if now.is_empty() {
            self.restraint.exceeded.remove(service);
        } else {
            self.restraint.exceeded.insert(service.clone(), now);
        }
    }

    /// The ports of Services that are over a limit: what they lack may fit by now.
    pub(super) fn restrained_ports(&self) -> BTreeSet<ServicePortName> {
        let services = self.restraint.exceeded.keys();
        services.flat_map(|name| self.ports_of(name)).map(|port| port.name.clone()).collect()
    }
}

/// Says of each port how many frontends it may have, so that all of them together keep to the limit
/// on rows. Whether that changed anything.
pub(super) fn allot(ports: &mut [Port], limits: Limits) -> bool {
    let cost = |port: &Port| port.pool.size() as u64 + ROWS_PER_FRONTEND;
    let mut left = u64::from(limits.rows_per_service);
    let mut changed = false;
    for port in ports {
        let fit = usize::try_from(left / cost(port)).unwrap_or(usize::MAX);
        let allowance = fit.min(port.claimed.len());
        left -= allowance as u64 * cost(port);
        changed |= port.allow(allowance);
    }
    changed
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
