//! The core of the agent: events in, transactions out. Owns all state, knows neither clock nor
//! network, and is driven by one thread, so nothing in it is ever half done.

mod affinity;
mod flows;
mod limits;
mod place;
mod port;
mod services;
mod slices;
mod sync;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnetwork::IpNetwork;
use rustc_hash::FxHashMap;
use sliceproxy_dataplane::cidr;
use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend};
use sliceproxy_dataplane::kernel::{Kernel, KernelState};
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::program::{Program, ProgramConfig};
use sliceproxy_dataplane::rows::{Row, RowKey, RowValue, Slot};

pub use flows::FlowCheck;
pub use limits::Excess;
use limits::Restraint;
pub use port::{Port, Terms};
use sync::ReadBack;
pub use sync::{SyncError, Synced};

use crate::cache::Cache;
use crate::claims::Claims;
use crate::config::Limits;
use crate::model::{Event, Node, NodeName, Service, ServiceName, ZoneRegions};
use crate::topology::{Here, Wishes};

/// What an engine needs to know from the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of this node.
    pub node: NodeName,
    /// The families that this node serves.
    pub families: Vec<Family>,
    /// What the programs depend on.
    pub program: ProgramConfig,
    /// Gate `TopologyRouting`.
    pub topology_routing: bool,
    /// Regions of zones that the configuration gives; they win over what is looked up.
    pub zone_regions: ZoneRegions,
}

/// Endpoints that an earlier run gave a frontend, in the order of their slots.
#[derive(Debug, Default)]
struct Adoptable {
    cluster: Vec<(Slot, Endpoint)>,
    local: Vec<(Slot, Endpoint)>,
}

/// Everything the agent knows, and the kernel it writes to.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a thing of its own that is still to come"
)]
pub struct Engine<K> {
    settings: Settings,
    kernel: K,
    cache: Cache,
    claims: Claims,
    ports: FxHashMap<ServiceName, Vec<Port>>,
    ledger: Ledger,
    here: Arc<Here>,
    node: Option<Arc<Node>>,
    node_port_addresses: Vec<IpAddr>,
    service_cidrs: Vec<IpNetwork>,
    adoptable: FxHashMap<Frontend, Adoptable>,
    services_listed: bool,
    slices_listed: bool,
    /// [`Event::NodePortAddresses`] is still to come, and will.
    node_port_addresses_due: bool,
    /// [`Engine::set_program`] is still to come.
    program_due: bool,
    read_back: ReadBack,
    read_time: Option<Duration>,
    /// Families whose remembered clients are to be looked at with the next transaction: one may have
    /// an endpoint that it must not get any more, or another timeout than its Service.
    affinity_due: BTreeSet<Family>,
    /// UDP frontends whose flows are to be looked at after the next transaction.
    flows_due: BTreeSet<Frontend>,
    restraint: Restraint,
    /// Health checks may have to answer something else after the next transaction.
    checks_due: bool,
    /// `last-change-trigger-time` of the slices that changed since the last transaction.
    triggers: Vec<i64>,
}

impl<K: Kernel> Engine<K> {
    /// An engine that will adopt what `kernel` holds now.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn new(settings: Settings, mut kernel: K) -> Result<Self, SyncError> {
        let state = kernel.read()?;
        let programs =
            settings.families.iter().map(|family| Program::new(*family, &settings.program));
        let mut here = Here::named(settings.node.clone());
        here.regions.clone_from(&settings.zone_regions);
        let families = settings.families.iter().copied().collect();
        Ok(Self {
            ledger: Ledger::new(programs.collect()),
            flows_due: flows::adopted(&state).collect(),
            adoptable: adoptable(&state),
            here: Arc::new(here),
            settings,
            kernel,
            cache: Cache::default(),
            claims: Claims::default(),
            ports: FxHashMap::default(),
            node: None,
            node_port_addresses: Vec::new(),
            service_cidrs: Vec::new(),
            services_listed: false,
            slices_listed: false,
            node_port_addresses_due: false,
            program_due: false,
            read_back: ReadBack::Due,
            read_time: None,
            // Endpoints may have gone, and timeouts changed, while no agent was running.
            affinity_due: families,
            restraint: Restraint::default(),
            checks_due: false,
            triggers: Vec::new(),
        })
    }

    /// Counts nothing as listed before [`Event::NodePortAddresses`] has come too: an agent that is
    /// started again would otherwise take its node ports away until it does.
    #[must_use]
    pub fn awaiting_node_port_addresses(mut self) -> Self {
        self.node_port_addresses_due = true;
        self
    }

    /// Counts nothing as listed before [`Engine::set_program`]: what the program depends on is not
    /// known yet.
    #[must_use]
    pub fn awaiting_program(mut self) -> Self {
        self.program_due = true;
        self
    }

    /// What the programs depend on has changed, or become known: tables that hold other programs are
    /// replaced with the next [`Engine::sync`], in one transaction with all rows.
    pub fn set_program(&mut self, program: ProgramConfig) {
        if program != self.settings.program {
            let families = self.settings.families.iter();
            let programs: Vec<Program> =
                families.map(|family| Program::new(*family, &program)).collect();
            self.kernel.expect(&programs);
            self.ledger.set_programs(programs);
            self.settings.program = program;
            self.read_back = ReadBack::Due;
        }
        self.listed(|engine| engine.program_due = false);
    }

    /// Takes in an event. Changes wishes only; [`Engine::sync`] writes them.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::AllServices(services) => {
                for name in self.cache.services_missing_in(&services) {
                    self.remove_service(&name);
                }
                for service in services {
                    self.put_service(service);
                }
                self.listed(|engine| engine.services_listed = true);
            }
            Event::Service(service) => self.put_service(service),
            Event::ServiceRemoved(name) => self.remove_service(&name),
            Event::AllSlices(slices) => {
                for name in self.cache.slices_missing_in(&slices) {
                    self.remove_slice(&name);
                }
                for slice in slices {
                    self.put_slice(slice);
                }
                self.listed(|engine| engine.slices_listed = true);
            }
            Event::Slice(slice) => self.put_slice(slice),
            Event::SliceRemoved(name) => self.remove_slice(&name),
            Event::Node(node) => self.set_node(node),
            Event::ServiceCidrs(networks) => self.set_service_cidrs(networks),
            Event::NodePortAddresses(addresses) => self.set_node_port_addresses(addresses),
            Event::ZoneRegions(regions) => self.set_zone_regions(regions),
        }
    }

    /// Whether Services and slices have both been listed, so that what is desired is complete.
    pub fn is_listed(&self) -> bool {
        self.services_listed
            && self.slices_listed
            && !self.node_port_addresses_due
            && !self.program_due
    }

    /// Until both are listed, Services and slices are only kept; then all Service ports are made at
    /// once, each with all its endpoints, so that adopted slots are compared with complete pools.
    fn listed(&mut self, mark: impl FnOnce(&mut Self)) {
        let before = self.is_listed();
        mark(self);
        if !before && self.is_listed() {
            let services: Vec<Arc<Service>> = self.cache.services().cloned().collect();
            // Whose slots to adopt is known only once all claims are.
            for service in &services {
                let claims = self.claims_of(service, self.budget(service));
                self.enter_claims(service, &claims);
            }
            for service in &services {
                self.refresh(None, Some(service));
            }
            self.adoptable = FxHashMap::default();
        }
    }

    fn put_service(&mut self, mut service: Arc<Service>) {
        if self.restraint.without_external_ips && !service.external_ips.is_empty() {
            Arc::make_mut(&mut service).external_ips.clear();
        }
        if let Ok(old) = self.cache.put_service(Arc::clone(&service))
            && self.is_listed()
        {
            self.refresh(old.as_ref(), Some(&service));
        }
    }

    fn remove_service(&mut self, name: &ServiceName) {
        if let Some(old) = self.cache.remove_service(name)
            && self.is_listed()
        {
            self.refresh(Some(&old), None);
        }
    }

    fn set_service_cidrs(&mut self, networks: Vec<IpNetwork>) {
        let new = cidr::merge(networks);
        let old = std::mem::replace(&mut self.service_cidrs, new);
        for network in self.service_cidrs.iter().filter(|network| !old.contains(network)) {
            self.ledger.put(Row::member(RowKey::ServiceCidr(*network)));
        }
        for network in old.iter().filter(|network| !self.service_cidrs.contains(network)) {
            self.ledger.remove(RowKey::ServiceCidr(*network));
        }
    }

    fn set_node_port_addresses(&mut self, mut addresses: Vec<IpAddr>) {
        addresses.sort_unstable();
        addresses.dedup();
        let changed = addresses != self.node_port_addresses;
        self.node_port_addresses = addresses;
        if !self.is_listed() {
            self.listed(|engine| engine.node_port_addresses_due = false);
            return;
        }
        if !changed {
            return;
        }
        let with_node_ports: Vec<Arc<Service>> = self
            .cache
            .services()
            .filter(|service| service.ports.iter().any(|port| port.node_port.is_some()))
            .cloned()
            .collect();
        for service in &with_node_ports {
            self.refresh(Some(service), Some(service));
        }
    }

    /// What `service` wants of topology, gate and annotations taken together.
    pub fn wishes(&self, service: &Service) -> Wishes {
        if !self.settings.topology_routing {
            return Wishes::default();
        }
        Wishes {
            nearest_first: true,
            keys: service.topology.keys.clone(),
            min_endpoints: service.topology.min_endpoints.unwrap_or(1),
        }
    }

    /// Services and slices as last seen.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The Service ports of a Service, one for each family in which it has frontends.
    pub fn ports_of(&self, service: &ServiceName) -> &[Port] {
        self.ports.get(service).map(Vec::as_slice).unwrap_or_default()
    }

    /// All Service ports, in no order.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.values().flatten()
    }

    /// Who owns which frontend.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Desired rows and their difference to the kernel's.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// This node's place in the cluster.
    pub fn here(&self) -> &Here {
        &self.here
    }

    /// This node's own object, as it was last seen.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_deref()
    }

    /// What the configuration says.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The kernel.
    pub fn kernel(&self) -> &K {
        &self.kernel
    }

    /// The kernel, to read from.
    pub fn kernel_mut(&mut self) -> &mut K {
        &mut self.kernel
    }
}

fn node_addresses(node: Option<&Arc<Node>>) -> &[IpAddr] {
    node.map(|node| node.addresses.as_slice()).unwrap_or_default()
}

fn terms(node: Option<&Arc<Node>>, limits: Limits) -> Terms<'_> {
    Terms { node_addresses: node_addresses(node), endpoint_counts: limits.endpoint_counts }
}

/// The slots that an earlier run filled, by frontend.
fn adoptable(state: &KernelState) -> FxHashMap<Frontend, Adoptable> {
    let mut adoptable: FxHashMap<Frontend, Adoptable> = FxHashMap::default();
    for row in state.rows() {
        let RowValue::Endpoint(endpoint) = row.value else { continue };
        match row.key {
            RowKey::Backend(frontend, slot) => {
                adoptable.entry(frontend).or_default().cluster.push((slot, endpoint));
            }
            RowKey::LocalBackend(frontend, slot) => {
                adoptable.entry(frontend).or_default().local.push((slot, endpoint));
            }
            _ => {}
        }
    }
    for slots in adoptable.values_mut() {
        slots.cluster.sort_unstable();
        slots.local.sort_unstable();
    }
    adoptable
}
