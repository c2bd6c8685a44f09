//! Small clusters as manifests that a test can change.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;

use sliceproxy_dataplane::frontend::{Family, Protocol};

/// A port of a Service, and of its endpoints.
#[derive(Debug, Clone)]
pub struct Port {
    /// Protocol; also the port's name.
    pub protocol: Protocol,
    /// Port of the Service.
    pub number: u16,
    /// Port of the endpoints.
    pub target: u16,
    /// Node port, 0 for none.
    pub node_port: u16,
}

/// A Service with its endpoints: a slice for each family.
#[derive(Debug, Clone)]
pub struct Service {
    /// Name, in namespace `ns`.
    pub name: &'static str,
    /// Cluster IPs.
    pub cluster_ips: Vec<IpAddr>,
    /// External IPs.
    pub external_ips: Vec<IpAddr>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Ready endpoints.
    pub endpoints: Vec<IpAddr>,
}

/// A file of manifests.
#[derive(Debug)]
pub struct Manifests {
    folder: tempfile::TempDir,
    node: String,
}

impl Manifests {
    /// A cluster with the node `name`, and no Service yet.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(name: &str, addresses: &[IpAddr]) -> anyhow::Result<Self> {
        let mut node = format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus:\n  addresses:\n"
        );
        for address in addresses {
            writeln!(node, "  - {{type: InternalIP, address: '{address}'}}")?;
        }
        let manifests = Self { folder: tempfile::tempdir()?, node };
        manifests.set(&[])?;
        Ok(manifests)
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("cluster.yaml")
    }

    /// Says that these are the Services, in one step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&self, services: &[Service]) -> anyhow::Result<()> {
        let mut text = self.node.clone();
        for service in services {
            write_service(&mut text, service)?;
            for family in Family::ALL {
                write_slice(&mut text, service, family)?;
            }
        }
        let next = self.folder.path().join(".next");
        std::fs::write(&next, text)?;
        std::fs::rename(next, self.path())?;
        Ok(())
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let quoted: Vec<String> = addresses.iter().map(|address| format!("'{address}'")).collect();
    format!("[{}]", quoted.join(", "))
}

fn write_service(text: &mut String, service: &Service) -> std::fmt::Result {
    let first = service.cluster_ips.first().map(ToString::to_string).unwrap_or_default();
    let kind =
        if service.ports.iter().any(|port| port.node_port > 0) { "NodePort" } else { "ClusterIP" };
    writeln!(
        text,
        "---\napiVersion: v1\nkind: Service\nmetadata: {{namespace: ns, name: {}}}\nspec:\n  \
         type: {kind}\n  clusterIP: '{first}'\n  clusterIPs: {}\n  externalIPs: {}\n  ports:",
        service.name,
        list(&service.cluster_ips),
        list(&service.external_ips)
    )?;
    for Port { protocol, number, target, node_port } in &service.ports {
        let name = protocol.nft_name();
        write!(text, "  - {{name: {name}, protocol: {protocol}, port: {number}, ")?;
        if *node_port > 0 {
            write!(text, "nodePort: {node_port}, ")?;
        }
        writeln!(text, "targetPort: {target}}}")?;
    }
    Ok(())
}

fn write_slice(text: &mut String, service: &Service, family: Family) -> std::fmt::Result {
    let name = service.name;
    let addresses = service.endpoints.iter().filter(|address| Family::of(**address) == family);
    writeln!(
        text,
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  namespace: ns\n  \
         name: {name}-{}\n  labels: {{kubernetes.io/service-name: {name}}}\naddressType: {family}\n\
         ports:",
        family.nft_name()
    )?;
    for Port { protocol, target, .. } in &service.ports {
        let name = protocol.nft_name();
        writeln!(text, "- {{name: {name}, protocol: {protocol}, port: {target}}}")?;
    }
    writeln!(text, "endpoints:")?;
    for address in addresses.clone() {
        writeln!(text, "- addresses: ['{address}']\n  conditions: {{ready: true}}")?;
    }
    if addresses.count() == 0 {
        writeln!(text, "  []")?;
    }
    Ok(())
}
