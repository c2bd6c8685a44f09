//! `sliceproxy cleanup`: removes our tables, and on request kube-proxy's. Others are left alone.

use std::process::ExitCode;

use anyhow::{Context, Result};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Kernel, KernelError};
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::{ProgramConfig, TABLE};
use sliceproxy_dataplane::transaction::Transaction;

use super::args::CleanupArgs;
use super::{exit, output};

/// The name of kube-proxy's tables in its nftables mode.
const KUBE_PROXY: &str = "kube-proxy";

/// Removes the tables and says which.
///
/// # Errors
/// If the kernel refuses.
pub fn run(args: &CleanupArgs) -> Result<ExitCode> {
    let mut kernel = NetlinkKernel::open(&ProgramConfig::default())?;
    let mut removed = remove_ours(&mut kernel)?;
    if args.kube_proxy {
        for family in Family::ALL {
            let table = format!("{} {KUBE_PROXY}", family.nft_name());
            if kernel
                .remove_table(family, KUBE_PROXY)
                .with_context(|| format!("cannot remove table {table}"))?
            {
                removed.push(table);
            }
        }
    }
    let text = if removed.is_empty() {
        "nothing to remove".to_owned()
    } else {
        format!("removed: table {}", removed.join(", table "))
    };
    output::write_out(&(text + "\n"))?;
    Ok(exit::OK)
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
    Ok(tables.into_iter().map(|family| format!("{} {TABLE}", family.nft_name())).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    #[test]
    fn both_tables_go_at_once_and_nothing_to_remove_is_fine() {
        let mut engine = shop::engine("node-a1");
        engine.sync().unwrap();
        let kernel = engine.kernel_mut();
        let commits = kernel.commits();
        assert_eq!(remove_ours(kernel).unwrap(), ["ip sliceproxy", "ip6 sliceproxy"]);
        assert_eq!(kernel.commits(), commits + 1);
        assert!(remove_ours(kernel).unwrap().is_empty());
        kernel.without_rights(true);
        let error = remove_ours(kernel).unwrap_err().to_string();
        assert!(error.contains("CAP_NET_ADMIN"), "{error}");
    }
}
