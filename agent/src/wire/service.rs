//! Services as they come.

use serde::Deserialize;

use super::{Metadata, Number, Text, null_is_default};

/// `v1` Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub metadata: Metadata<'a>,
    /// What is wanted.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub spec: ServiceSpec<'a>,
    /// What a load balancer has made of it.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub status: ServiceStatus<'a>,
}

/// `spec` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec<'a> {
    /// Type; `ClusterIP` if absent.
    #[serde(borrow, rename = "type")]
    pub type_: Option<Text<'a>>,
    /// The first cluster IP, or `None`.
    #[serde(borrow, rename = "clusterIP")]
    pub cluster_ip: Option<Text<'a>>,
    /// Cluster IPs.
    #[serde(borrow, rename = "clusterIPs", deserialize_with = "null_is_default")]
    pub cluster_ips: Vec<Option<Text<'a>>>,
    /// Families of the cluster IPs.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub ip_families: Vec<Text<'a>>,
    /// External IPs.
    #[serde(borrow, rename = "externalIPs", deserialize_with = "null_is_default")]
    pub external_ips: Vec<Option<Text<'a>>>,
    /// Whom the load-balancer IPs serve.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub load_balancer_source_ranges: Vec<Option<Text<'a>>>,
    /// Ports.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub ports: Vec<Option<ServicePort<'a>>>,
    /// `Cluster` or `Local`.
    #[serde(borrow)]
    pub internal_traffic_policy: Option<Text<'a>>,
    /// `Cluster` or `Local`.
    #[serde(borrow)]
    pub external_traffic_policy: Option<Text<'a>>,
    /// `None` or `ClientIP`.
    #[serde(borrow)]
    pub session_affinity: Option<Text<'a>>,
    /// Its time-out.
    #[serde(deserialize_with = "null_is_default")]
    pub session_affinity_config: SessionAffinityConfig,
    /// Port of the health check for load balancers.
    pub health_check_node_port: Option<Number>,
}

/// A port of a Service. `targetPort` is for those who write slices.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort<'a> {
    /// Name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// Protocol; `TCP` if absent.
    #[serde(borrow)]
    pub protocol: Option<Text<'a>>,
    /// Port.
    pub port: Option<Number>,
    /// Port on the nodes; 0 like absent.
    pub node_port: Option<Number>,
}

/// `sessionAffinityConfig`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionAffinityConfig {
    /// For `ClientIP`.
    #[serde(rename = "clientIP", deserialize_with = "null_is_default")]
    pub client_ip: ClientIpConfig,
}

/// `sessionAffinityConfig.clientIP`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientIpConfig {
    /// Seconds.
    pub timeout_seconds: Option<Number>,
}

/// `status` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus<'a> {
    /// Its load balancer.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub load_balancer: LoadBalancerStatus<'a>,
}

/// `status.loadBalancer`
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus<'a> {
    /// Where clients come in.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub ingress: Vec<Option<Ingress<'a>>>,
}

/// A way in through a load balancer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress<'a> {
    /// Address; none if the load balancer is known by host name.
    #[serde(borrow)]
    pub ip: Option<Text<'a>>,
    /// `VIP` (or absent) or `Proxy`.
    #[serde(borrow)]
    pub ip_mode: Option<Text<'a>>,
}
