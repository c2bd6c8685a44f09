//! A real control plane, and a kube-proxy if wanted, for a developer; `tests/cluster/up` starts it.

use std::fs;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use sliceproxy::lab::{self, Lab, NodeAddresses};
use sliceproxy_tests::cluster::{self, Cluster, KubeProxy, KubeProxyOptions, Options, User};
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::require_root;

const USAGE: &str = "usage: tests/cluster/up [--kube-proxy]
  A control plane with the nodes, Services and slices of tests/data/shop.yaml, reachable from the
  network namespace of its node-a1. Ctrl-C ends it.
  --kube-proxy  kube-proxy with nft 1.1.3 on that node";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let with_kube_proxy = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--kube-proxy"] => true,
        _ => bail!("{USAGE}"),
    };
    require_root();
    cluster::binaries()?;

    // Before any thread starts, so that all have them blocked and this one can wait for them.
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGINT);
    ends.add(Signal::SIGTERM);
    ends.thread_block()?;

    let node = NodeAddresses { v4: "172.18.0.11".parse()?, v6: "fd00:18::b".parse()? };
    let mut lab = Lab::new(node)?;
    lab.add_outside("client", &["203.0.113.9".parse()?, "2001:db8::9".parse()?])?;
    let addresses: Vec<IpAddr> = vec!["192.0.2.10".parse()?];
    let name = "control-plane".to_owned();
    lab.add_pods(&[lab::Pod { name, addresses: addresses.clone(), ports: Vec::new() }])?;
    let options = Options { addresses, audit: true, ..Options::default() };
    let cluster = lab.machine("control-plane")?.netns().run(|| Cluster::start(options))??;

    let api = cluster.api()?;
    api.add_namespace("shop")?;
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/shop.yaml");
    let text = fs::read_to_string(&shop).with_context(|| shop.display().to_string())?;
    api.apply_manifests(&text)?;
    let nft = Nft::newer()?;
    let proxy = with_kube_proxy
        .then(|| -> Result<KubeProxy> {
            let mut options = KubeProxyOptions::new("node-a1", "10.244.0.0/16,fd00:244::/32");
            options.nft = nft.clone();
            lab.node().run(|| KubeProxy::start(&cluster, &options))?
        })
        .transpose()?;

    let kubeconfig = cluster.kubeconfig(&User::admin())?;
    // The namespace has no name; it is reached through this process's descriptor of it.
    let node = format!("/proc/{}/fd/{}", std::process::id(), lab.node().as_fd().as_raw_fd());
    println!("export KUBECONFIG={}", kubeconfig.display());
    println!("a shell on node-a1: nsenter --net={node}");
    println!("audit log and the servers' logs: {}", cluster.folder().display());
    if let Some(proxy) = &proxy {
        let process = proxy.process();
        println!("kube-proxy: process {}, log {}", process.pid(), process.log().display());
        println!("its rules (another version of nft may crash on them):");
        println!("  nsenter --net={node} {} list ruleset", nft.program().display());
    }
    println!("Ctrl-C ends it.");
    ends.wait()?;
    Ok(())
}
