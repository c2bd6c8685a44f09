//! `sliceproxy render`: the nft script that a node would run. Touches no kernel.

use std::process::ExitCode;

use anyhow::{Context, Result};
use sliceproxy_dataplane::fake::FakeKernel;
use sliceproxy_dataplane::nft_json::{Contents, document, script};

use super::args::{RenderArgs, RenderFormat};
use super::offline::Snapshot;
use super::{exit, output};

const WITHOUT_MANIFESTS: &str = "--manifests PATH is needed: render works offline; what the kernel of \
     this node holds is printed by `sliceproxy dump kernel` or `nft list table ip sliceproxy`";

/// Prints program and rows as one script.
///
/// # Errors
/// If the manifests cannot be used.
pub fn run(args: &RenderArgs) -> Result<ExitCode> {
    if !args.offline.is_offline() {
        return Err(exit::UsageError(WITHOUT_MANIFESTS).into());
    }
    let text = text(&Snapshot::open(&args.offline)?, args.output)?;
    output::write_out(&text)?;
    Ok(exit::OK)
}

fn text(snapshot: &Snapshot, format: RenderFormat) -> Result<String> {
    let engine = snapshot.engine(FakeKernel::new())?;
    let contents = Contents::of(&engine.ledger().transaction())?;
    Ok(match format {
        RenderFormat::Nft => script(&contents),
        RenderFormat::Json => {
            let document = document(&contents).context("cannot be written as JSON")?;
            format!("{document:#}\n")
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    #[test]
    fn both_forms_hold_both_tables_and_every_row() {
        let snapshot = shop::snapshot("node-a1", "");
        let engine = snapshot.engine(FakeKernel::new()).unwrap();
        let nft = text(&snapshot, RenderFormat::Nft).unwrap();
        assert!(nft.contains("table ip sliceproxy {") && nft.contains("table ip6 sliceproxy {"));
        let json = text(&snapshot, RenderFormat::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(document["nftables"].is_array());
        for row in engine.ledger().desired_rows() {
            let Some(frontend) = row.key.frontend() else { continue };
            let address = frontend.address.to_string();
            assert!(nft.contains(&address) && json.contains(&address), "{row}");
        }
    }
}
