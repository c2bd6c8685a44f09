//! The agent's own idea of Services, EndpointSlices and Nodes. Kubernetes types end at
//! [`crate::convert`]; from here on every value is parsed and valid.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnetwork::IpNetwork;
use serde::Serialize;
use sliceproxy_dataplane::frontend::{Endpoint, Family, Protocol};

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name inside the namespace.
    pub name: Arc<str>,
}

impl ObjectName {
    /// From its two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for ObjectName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A Service, by name.
pub type ServiceName = ObjectName;
/// An EndpointSlice, by name.
pub type SliceName = ObjectName;

/// A node's name, lower case as Kubernetes requires it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NodeName(pub Arc<str>);

/// A value of `topology.kubernetes.io/zone`, compared byte for byte; never empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Zone(pub Arc<str>);

/// A value of `topology.kubernetes.io/region`, compared byte for byte; never empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Region(pub Arc<str>);

macro_rules! text_newtype {
    ($($name:ident),*) => {$(
        impl $name {
            /// The value, unless it is empty.
            pub fn new(text: &str) -> Option<Self> {
                (!text.is_empty()).then(|| Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
text_newtype!(NodeName, Zone, Region);

/// The name of a port, as Services and slices share it; empty for an unnamed one.
pub type PortName = Arc<str>;

/// One port of one Service: what endpoints are selected for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePortName {
    /// The Service.
    pub service: ServiceName,
    /// The port's name; may be empty.
    pub port: PortName,
    /// The port's protocol: two ports may share a name only if their protocols differ.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if !self.port.is_empty() {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", self.protocol)
    }
}

/// `internalTrafficPolicy` and `externalTrafficPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub enum TrafficPolicy {
    /// Any endpoint that topology allows.
    #[default]
    Cluster,
    /// Endpoints on this node only.
    Local,
}

/// A step of `sliceproxy.io/topology-keys`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum TopologyKey {
    /// `kubernetes.io/hostname`
    #[serde(rename = "kubernetes.io/hostname")]
    Hostname,
    /// `topology.kubernetes.io/zone`
    #[serde(rename = "topology.kubernetes.io/zone")]
    Zone,
    /// `topology.kubernetes.io/region`
    #[serde(rename = "topology.kubernetes.io/region")]
    Region,
    /// `*`
    #[serde(rename = "*")]
    Any,
}

/// What a Service's own annotations say about topology.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TopologyAnnotations {
    /// The order of `sliceproxy.io/topology-keys`; `None` if absent or rejected.
    pub keys: Option<Vec<TopologyKey>>,
    /// `sliceproxy.io/topology-min-endpoints`: ready endpoints from which on a level counts; at
    /// least 1.
    pub min_endpoints: Option<u32>,
    /// Why the annotations, or one of them, were ignored, for Event and `explain`.
    pub ignored: Option<String>,
}

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Name; empty if it has none.
    pub name: PortName,
    /// Protocol.
    pub protocol: Protocol,
    /// Port of the cluster IP, external IPs and load-balancer IPs.
    pub port: u16,
    /// Port on the nodes' addresses.
    pub node_port: Option<u16>,
}

/// A Service that has frontends. Headless and ExternalName Services never become one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Service {
    /// Namespace and name.
    pub name: ServiceName,
    /// Object UID; empty if the source does not know it.
    pub uid: Arc<str>,
    /// Creation time, seconds since the epoch; decides conflicts, the oldest wins. 0 if unknown.
    pub created: i64,
    /// Cluster IPs, at most one per family.
    pub cluster_ips: Vec<IpAddr>,
    /// External IPs.
    pub external_ips: Vec<IpAddr>,
    /// Load-balancer IPs with mode VIP.
    pub load_balancer_ips: Vec<IpAddr>,
    /// `loadBalancerSourceRanges`; empty means unrestricted.
    pub source_ranges: Vec<IpNetwork>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// For traffic to the cluster IP.
    pub internal_policy: TrafficPolicy,
    /// For traffic to node ports, external IPs and load-balancer IPs. `Cluster` unless the Service
    /// is externally accessible.
    pub external_policy: TrafficPolicy,
    /// Seconds that a client keeps its endpoint; `None` without session affinity.
    pub affinity_timeout: Option<u32>,
    /// Port of the health check for load balancers, for `externalTrafficPolicy: Local`.
    pub health_check_node_port: Option<u16>,
    /// The Service's own topology wishes.
    pub topology: TopologyAnnotations,
}

impl Service {
    /// A Service that asks for nothing but these cluster IPs and ports: the API's defaults.
    pub fn new(name: ServiceName, cluster_ips: Vec<IpAddr>, ports: Vec<ServicePort>) -> Self {
        Self {
            name,
            uid: "".into(),
            created: 0,
            cluster_ips,
            external_ips: Vec::new(),
            load_balancer_ips: Vec::new(),
            source_ranges: Vec::new(),
            ports,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            affinity_timeout: None,
            health_check_node_port: None,
            topology: TopologyAnnotations::default(),
        }
    }

    /// The cluster IP of `family`.
    pub fn cluster_ip(&self, family: Family) -> Option<IpAddr> {
        self.cluster_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }
}

/// One port of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlicePort {
    /// Name; empty if it has none.
    pub name: PortName,
    /// Protocol.
    pub protocol: Protocol,
    /// Port on the endpoints.
    pub port: u16,
}

/// Nodes and zones that an endpoint is meant for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hints {
    /// `hints.forNodes`
    pub nodes: Vec<NodeName>,
    /// `hints.forZones`
    pub zones: Vec<Zone>,
}

/// The conditions of an endpoint, defaults applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Conditions {
    /// Takes new connections.
    pub ready: bool,
    /// Answers, ready or not.
    pub serving: bool,
    /// Is going away.
    pub terminating: bool,
}

impl Conditions {
    /// Whether it may go on answering flows that it has: it serves, or is declared ready although
    /// it does not (`publishNotReadyAddresses`).
    pub fn may_answer(self) -> bool {
        self.serving || self.ready
    }
}

/// What a slice says of one endpoint apart from its address: shared by the ports of the slice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceEndpoint {
    /// The first address of the API's list; the others are not used, as in kube-proxy.
    pub address: IpAddr,
    /// Conditions.
    pub conditions: Conditions,
    /// The node it runs on, if the slice says so.
    pub node: Option<NodeName>,
    /// The zone it runs in, if the slice says so.
    pub zone: Option<Zone>,
    /// Its region, which only slices with `deprecatedTopology` say.
    pub region: Option<Region>,
    /// Whom it is meant for; `None` without any. Endpoints of a zone have the same.
    pub hints: Option<Arc<Hints>>,
}

/// An EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Namespace and name.
    pub name: SliceName,
    /// The Service it belongs to.
    pub service: ServiceName,
    /// Family of all its addresses.
    pub family: Family,
    /// Ports of every endpoint.
    pub ports: Vec<SlicePort>,
    /// Endpoints, in the order of the object.
    pub endpoints: Vec<SliceEndpoint>,
    /// `endpoints.kubernetes.io/last-change-trigger-time`, nanoseconds since the epoch.
    pub trigger_time: Option<i64>,
}

/// What this node's own Node object says, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// `topology.kubernetes.io/zone`
    pub zone: Option<Zone>,
    /// `topology.kubernetes.io/region`
    pub region: Option<Region>,
    /// InternalIP addresses, then ExternalIP addresses.
    pub addresses: Vec<IpAddr>,
    /// Pod networks of the node.
    pub pod_cidrs: Vec<IpNetwork>,
    /// Whether load balancers may send to the node: not being deleted by deletion or autoscaler.
    pub eligible: bool,
    /// Object UID; empty if unknown.
    pub uid: Arc<str>,
}

/// Which region each zone is in.
pub type ZoneRegions = BTreeMap<Zone, Region>;

/// A change that a source reports. Objects that are not to be served (deleted, headless, moved to
/// another proxy, without a Service name) are reported as removed.
#[derive(Debug, Clone)]
pub enum Event {
    /// All Services there are: a first or repeated listing.
    AllServices(Vec<Arc<Service>>),
    /// A Service was added or changed.
    Service(Arc<Service>),
    /// A Service was removed; unknown names are fine.
    ServiceRemoved(ServiceName),
    /// All slices there are.
    AllSlices(Vec<Arc<Slice>>),
    /// A slice was added or changed.
    Slice(Arc<Slice>),
    /// A slice was removed; unknown names are fine.
    SliceRemoved(SliceName),
    /// This node's own object; `None` if it does not exist.
    Node(Option<Arc<Node>>),
    /// The Service CIDRs of the cluster.
    ServiceCidrs(Vec<IpNetwork>),
    /// The addresses on which node ports are served.
    NodePortAddresses(Vec<IpAddr>),
    /// Regions of zones, all that are known.
    ZoneRegions(ZoneRegions),
}

/// A part of an object that is not served, and why. The rest of the object is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// Kind, such as `EndpointSlice`.
    pub kind: &'static str,
    /// Namespace and name, or what is known of them.
    pub object: String,
    /// Path of the field, such as `endpoints[3].addresses[0]`.
    pub field: String,
    /// The offending value, as found.
    pub value: String,
    /// What is wrong, what becomes of it, and what to do.
    pub reason: String,
}

impl AsRef<Self> for Rejection {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl fmt::Display for Rejection {
    /// Text from objects is escaped: it may hold control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}={:?}: {}",
            self.kind,
            self.object.escape_debug(),
            self.field.escape_debug(),
            self.value,
            self.reason
        )
    }
}

impl Slice {
    /// The endpoints' addresses under `port`.
    pub fn targets<'a>(
        &'a self,
        port: &SlicePort,
    ) -> impl Iterator<Item = (Endpoint, &'a SliceEndpoint)> + use<'a> {
        let port = port.port;
        self.endpoints.iter().map(move |e| (Endpoint { address: e.address, port }, e))
    }
}
