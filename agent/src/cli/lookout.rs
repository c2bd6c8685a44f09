//! Says what on this machine does not fit the configuration: no interface that looks like a pod's,
//! and another proxy's tables.

use std::collections::BTreeSet;
use std::time::Duration;

use sliceproxy_dataplane::netlink::{OtherChain, other_chains};
use sliceproxy_dataplane::program::PodTraffic;
use tracing::{info, warn};

use super::cleanup::is_of_kube_proxy;
use crate::config::Config;
use crate::host::{self, is_of_pods};

/// Pause between two looks for an interface, until there is one.
const PERIOD: Duration = Duration::from_secs(5);

/// Looks around without holding anything up.
pub(super) fn start(config: &Config) {
    tokio::task::spawn_blocking(|| match other_chains(is_of_kube_proxy) {
        Ok(chains) => tables(&chains),
        Err(error) => warn!(%error, "cannot look for tables of kube-proxy"),
    });
    // Interfaces are the same for both families.
    tokio::spawn(pod_interfaces(config.program(&[]).pods_v4));
}

fn tables(chains: &[OtherChain]) {
    if chains.is_empty() {
        return;
    }
    let tables: BTreeSet<String> =
        chains.iter().map(|chain| format!("{} {}", chain.family, chain.table)).collect();
    let tables: Vec<String> = tables.into_iter().collect();
    warn!(
        chains = chains.len(),
        tables = tables.join(", "),
        "kube-proxy's rules are here and translate Services, too, before or after ours: once it no \
         longer runs on this node, remove them with `sliceproxy cleanup --kube-proxy`"
    );
}

/// Pods' interfaces come with the first pod, and not at all if they are called otherwise.
async fn pod_interfaces(pods: PodTraffic) {
    let wanted = match &pods {
        PodTraffic::Interface(name) => name.clone(),
        PodTraffic::InterfacePrefix(prefix) => format!("{prefix}*"),
        PodTraffic::Unknown | PodTraffic::From(_) => return,
    };
    let mut told = false;
    loop {
        match host::interfaces().await {
            Ok(names) => match names.into_iter().find(|name| is_of_pods(&pods, name)) {
                Some(interface) if told => {
                    info!(%interface, "an interface of pods has come");
                    return;
                }
                Some(_) => return,
                None if told => {}
                None => {
                    told = true;
                    warn!(
                        interface = %wanted,
                        "no interface is called like that: no traffic is recognised as that of this \
                         node's pods, so that theirs is masqueraded; check --detect-local-mode \
                         unless there are no pods here yet"
                    );
                }
            },
            Err(error) => warn!(%error, "cannot look for the interfaces of pods"),
        }
        tokio::time::sleep(PERIOD).await;
    }
}
