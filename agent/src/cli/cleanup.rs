//! `sliceproxy cleanup`: removes our tables, and on request kube-proxy's. Others are left alone.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Kernel, KernelError};
use sliceproxy_dataplane::netlink::{NetlinkKernel, OtherChain};
use sliceproxy_dataplane::program::{ProgramConfig, TABLE};
use sliceproxy_dataplane::transaction::Transaction;

use super::args::CleanupArgs;
use super::{exit, output};
use crate::alone::{Alone, Holder, NotAlone};

/// The name of kube-proxy's tables in its nftables mode.
const KUBE_PROXY: &str = "kube-proxy";
/// The tables that its iptables mode writes to, where iptables is built on `nf_tables`.
const IPTABLES: [&str; 3] = ["nat", "filter", "mangle"];

/// Removes the tables and says which.
///
/// # Errors
/// If the kernel refuses.
pub fn run(args: &CleanupArgs) -> Result<ExitCode> {
    let mut kernel = NetlinkKernel::open(&ProgramConfig::default())?;
    let mut removed = Vec::new();
    // Held to the end, so that no agent starts meanwhile.
    let claim = claim()?;
    match &claim {
        Ok(_alone) => removed = remove_ours(&mut kernel)?,
        Err(holder) if args.kube_proxy => eprintln!(
            "note: sliceproxy{holder} is at work here: its own tables stay; stop it first to remove \
             them too"
        ),
        Err(holder) => bail!(
            "sliceproxy{holder} is at work in this network namespace, and would write its tables \
             again at once: stop it first"
        ),
    }
    if args.kube_proxy {
        removed.extend(remove_kube_proxy(&mut kernel)?);
        if let Some(hint) = xtables_hint(Path::new("/proc/net")) {
            eprintln!("note: {hint}");
        }
    }
    let text = if removed.is_empty() {
        "nothing to remove".to_owned()
    } else {
        format!("removed: {}", removed.join(", "))
    };
    output::write_out(&(text + "\n"))?;
    Ok(exit::OK)
}

/// The right to remove our tables, or the agent that has it.
fn claim() -> Result<Result<Alone, Holder>, NotAlone> {
    match Alone::claim() {
        Ok(alone) => Ok(Ok(alone)),
        Err(NotAlone::Taken(holder)) => Ok(Err(holder)),
        Err(error @ NotAlone::Refused(_)) => Err(error),
    }
}

/// Both tables go in one transaction.
fn remove_ours<K: Kernel>(kernel: &mut K) -> Result<Vec<String>> {
    let tables: Vec<Family> = match kernel.read() {
        Ok(state) => {
            Family::ALL.into_iter().filter(|family| state.table(*family).is_some()).collect()
        }
        Err(KernelError::Permission) => return Err(KernelError::Permission.into()),
        // Whatever is in there: it goes.
        Err(_) => Family::ALL.to_vec(),
    };
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let removal = Transaction { removed_tables: tables.clone(), ..Transaction::default() };
    kernel.commit(&removal).context("cannot remove our tables")?;
    Ok(tables.into_iter().map(|family| format!("table {} {TABLE}", family.nft_name())).collect())
}

/// What kube-proxy's nftables and iptables modes leave behind.
fn remove_kube_proxy(kernel: &mut NetlinkKernel) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for family in Family::ALL {
        let name = family.nft_name();
        let failed = || format!("cannot remove table {name} {KUBE_PROXY}");
        if kernel.remove_table(family, KUBE_PROXY).with_context(failed)? {
            removed.push(format!("table {name} {KUBE_PROXY}"));
        }
        for table in IPTABLES {
            let failed = || format!("cannot remove kube-proxy's chains from table {name} {table}");
            let chains =
                kernel.remove_chains(family, table, is_kube_proxy_chain).with_context(failed)?;
            if chains > 0 {
                removed.push(format!("{chains} chains of iptables in table {name} {table}"));
            }
        }
    }
    Ok(removed)
}

/// Whether kube-proxy made that chain, in either mode.
pub(super) fn is_of_kube_proxy(chain: &OtherChain) -> bool {
    let table = chain.table.as_str();
    chain.family != "inet"
        && (table == KUBE_PROXY || IPTABLES.contains(&table) && is_kube_proxy_chain(&chain.name))
}

/// Whether kube-proxy made that chain of iptables. Not the kubelet's: KUBE-FIREWALL,
/// KUBE-KUBELET-CANARY, KUBE-MARK-DROP and KUBE-IPTABLES-HINT; nor KUBE-MARK-MASQ, which an older
/// kubelet shares, and which does nothing by itself.
fn is_kube_proxy_chain(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "KUBE-SERVICES",
        "KUBE-EXTERNAL-SERVICES",
        "KUBE-NODEPORTS",
        "KUBE-POSTROUTING",
        "KUBE-FORWARD",
        "KUBE-PROXY-FIREWALL",
        "KUBE-PROXY-CANARY",
    ];
    const PREFIXES: [&str; 6] =
        ["KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-FW-", "KUBE-XLB-"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The older iptables keeps its rules where netlink does not reach.
fn xtables_hint(proc_net: &Path) -> Option<String> {
    let names = ["ip_tables_names", "ip6_tables_names"];
    let texts = names.map(|name| std::fs::read_to_string(proc_net.join(name)).unwrap_or_default());
    texts.iter().any(|text| !text.trim().is_empty()).then(|| {
        "this node also has tables of the older iptables (xtables), which are not touched here; if \
         kube-proxy used them, remove its rules with `kube-proxy --cleanup`, or restart the node"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    #[test]
    fn kube_proxys_chains_are_not_the_kubelets() {
        for name in ["KUBE-SERVICES", "KUBE-SVC-NPX46M4PTMTKRN6Y", "KUBE-PROXY-CANARY"] {
            assert!(is_kube_proxy_chain(name), "{name}");
        }
        for name in ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-MARK-MASQ", "CNI-KUBE-SVC-A"] {
            assert!(!is_kube_proxy_chain(name), "{name}");
        }
    }

    #[test]
    fn the_older_iptables_is_hinted_at_where_it_is_used() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(xtables_hint(folder.path()), None);
        std::fs::write(folder.path().join("ip_tables_names"), "").unwrap();
        assert_eq!(xtables_hint(folder.path()), None);
        std::fs::write(folder.path().join("ip6_tables_names"), "nat\n").unwrap();
        assert!(xtables_hint(folder.path()).unwrap().contains("kube-proxy --cleanup"));
    }

    #[test]
    fn both_tables_go_at_once_and_nothing_to_remove_is_fine() {
        let mut engine = shop::engine("node-a1");
        engine.sync().unwrap();
        let kernel = engine.kernel_mut();
        let commits = kernel.commits();
        assert_eq!(remove_ours(kernel).unwrap(), ["table ip sliceproxy", "table ip6 sliceproxy"]);
        assert_eq!(kernel.commits(), commits + 1);
        assert!(remove_ours(kernel).unwrap().is_empty());
        kernel.without_rights(true);
        let error = remove_ours(kernel).unwrap_err().to_string();
        assert!(error.contains("CAP_NET_ADMIN"), "{error}");
    }
}
