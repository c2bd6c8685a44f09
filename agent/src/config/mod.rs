//! One validated [`Config`] from the command line and a configuration file.
//!
//! Precedence: a flag that is given wins over the file, the file over the default. (kube-proxy
//! ignores most flags as soon as there is a file; an operator who adds a flag to a DaemonSet that
//! mounts one means it.)
//!
//! ```text
//! file ── document ──┐
//!                    ├── ConfigFile ── resolve ──> Config, warnings
//! flags ── overlay ──┘
//! ```

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnetwork::IpNetwork;
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::program::{AFFINITY_LIMIT, PodTraffic, ProgramConfig};

use crate::model::{NodeName, ZoneRegions};

pub mod address;
pub mod changes;
mod check;
mod document;
pub mod duration;
mod effective;
pub mod file;
pub mod flags;
pub mod gates;
mod legacy;
mod load;
mod resolve;
pub mod selector;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;

pub use address::NodePortAddresses;
pub use check::Problem;
pub use document::FileError;
pub use flags::Flags;
pub use gates::{FeatureGates, Gate};
pub use load::{ConfigError, Loaded};
pub use selector::LabelSelector;

/// Everything that can be configured, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The node this process works for.
    pub node_name: NodeName,
    /// Where Services and slices come from.
    pub source: Source,
    /// Which EndpointSlices are watched, beyond those that never are.
    pub slice_selector: Option<LabelSelector>,
    /// How traffic of this node's pods is recognised.
    pub detect_local: DetectLocal,
    /// Bit of the packet mark that asks for masquerading, 0 to 31.
    pub masquerade_bit: u8,
    /// Whether everything sent to a cluster IP is masqueraded.
    pub masquerade_all: bool,
    /// Where node ports are served.
    pub node_ports: NodePortAddresses,
    /// The node's own address if it is to be set; unspecified (`0.0.0.0`, `::`) takes it from the
    /// Node object, and says which family comes first.
    pub bind_address: IpAddr,
    /// Longest time between two looks at the kernel, and half the time after which changes that
    /// are not in the kernel make the proxy unhealthy.
    pub sync_period: Duration,
    /// Shortest time from the end of one commit to the start of the next; zero for as fast as the
    /// kernel takes them.
    pub min_sync_period: Duration,
    /// Features that are on.
    pub gates: FeatureGates,
    /// Regions of zones, where the API server need not be asked.
    pub zone_regions: ZoneRegions,
    /// HTTP servers.
    pub servers: Servers,
    /// Socket for `dump`, `explain` and `diff`.
    pub admin_socket: Option<PathBuf>,
    /// Kernel settings for connection tracking.
    pub conntrack: Conntrack,
    /// Written to `/proc/self/oom_score_adj`.
    pub oom_score_adj: i16,
    /// What one user of the cluster may cost this node.
    pub limits: Limits,
    /// How logs are written.
    pub logging: Logging,
}

/// Where Kubernetes objects come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A file or folder of objects.
    Manifests(PathBuf),
    /// The API server.
    Api(ApiServer),
}

/// How the API server is reached. With neither, the Pod's own credentials are used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApiServer {
    /// Credentials and address.
    pub kubeconfig: Option<PathBuf>,
    /// Address that overrides the kubeconfig's.
    pub master: Option<http::Uri>,
}

/// How traffic of this node's pods is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetectLocal {
    /// By the cluster's pod networks, at most one per family; none means not at all.
    ClusterCidr(Vec<IpNetwork>),
    /// By the pod networks in the Node object, which must be there before the program is written.
    NodeCidr,
    /// By the bridge that pods are plugged into.
    BridgeInterface(String),
    /// By how pods' interfaces are called.
    InterfaceNamePrefix(String),
}

/// Where the HTTP servers listen. `None` is a server that is not wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// `/healthz` and `/livez`.
    pub healthz: Option<SocketAddr>,
    /// `/metrics` and the pages about the process.
    pub metrics: Option<SocketAddr>,
    /// End the process when an address cannot be bound, instead of trying again.
    pub hard_fail: bool,
}

/// Kernel settings for connection tracking; zero leaves a setting alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conntrack {
    /// Entries per CPU.
    pub max_per_core: u32,
    /// Entries at least, unless [`Self::max_per_core`] is zero.
    pub min: u32,
    /// `nf_conntrack_tcp_timeout_established`
    pub tcp_established_timeout: Duration,
    /// `nf_conntrack_tcp_timeout_close_wait`
    pub tcp_close_wait_timeout: Duration,
    /// `nf_conntrack_tcp_be_liberal`
    pub tcp_be_liberal: bool,
    /// `nf_conntrack_udp_timeout`
    pub udp_timeout: Duration,
    /// `nf_conntrack_udp_timeout_stream`
    pub udp_stream_timeout: Duration,
}

/// More entries than this are never asked for on account of many CPUs.
const CONNTRACK_MAX: u32 = 1_048_576;

impl Conntrack {
    /// `nf_conntrack_max` for a machine with that many CPUs; `None` to leave it alone.
    pub fn max_entries(&self, cpus: u32) -> Option<u32> {
        if self.max_per_core == 0 {
            return None;
        }
        let scaled = self.max_per_core.saturating_mul(cpus);
        Some(if scaled > CONNTRACK_MAX { CONNTRACK_MAX } else { scaled.max(self.min) })
    }
}

/// What one user of the cluster may cost this node. Anyone who may create a Service reaches this
/// code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of all frontends of a Service.
    pub rows_per_service: u32,
    /// Addresses times ports of a Service.
    pub frontends_per_service: u32,
    /// Different numbers of endpoints, each of which needs a chain.
    pub endpoint_counts: u32,
    /// Remembered clients per family.
    pub affinity_rows: u32,
    /// Complaints about one object per hour in the log.
    pub log_lines_per_object: u32,
    /// Resident memory in MiB beyond which the process says so in health and log; 0 for never.
    pub memory_mib: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rows_per_service: 2_000_000,
            frontends_per_service: 4_096,
            endpoint_counts: 4_096,
            affinity_rows: AFFINITY_LIMIT,
            log_lines_per_object: 20,
            memory_mib: 0,
        }
    }
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logging {
    /// Text or JSON.
    pub format: LogFormat,
    /// 0 is what an operator needs, 2 every commit, 4 every event, 6 every row.
    pub verbosity: u8,
}

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

impl Config {
    /// What the kernel's program depends on. `pod_cidrs` are those of the Node object; they matter
    /// in mode NodeCIDR only.
    pub fn program(&self, pod_cidrs: &[IpNetwork]) -> ProgramConfig {
        let pods = |family: Family| match &self.detect_local {
            DetectLocal::ClusterCidr(networks) => first_of(family, networks),
            DetectLocal::NodeCidr => first_of(family, pod_cidrs),
            DetectLocal::BridgeInterface(name) => PodTraffic::Interface(name.clone()),
            DetectLocal::InterfaceNamePrefix(prefix) => PodTraffic::InterfacePrefix(prefix.clone()),
        };
        ProgramConfig {
            masquerade_bit: self.masquerade_bit,
            masquerade_all: self.masquerade_all,
            pods_v4: pods(Family::V4),
            pods_v6: pods(Family::V6),
            affinity_rows: self.limits.affinity_rows,
        }
    }

    /// Whether the program can be written only when the Node's pod networks are known.
    pub fn needs_pod_cidrs(&self) -> bool {
        self.detect_local == DetectLocal::NodeCidr
    }

    /// How old a change may grow that is not in the kernel yet before the proxy is unhealthy.
    pub fn health_timeout(&self) -> Duration {
        self.sync_period * 2
    }
}

fn first_of(family: Family, networks: &[IpNetwork]) -> PodTraffic {
    let own = networks.iter().find(|network| Family::of(network.ip()) == family);
    own.map_or(PodTraffic::Unknown, |network| PodTraffic::From(*network))
}
