//! What we write for nft, loaded by nft: golden scripts, and what nft lists afterwards.
//!
//! Needs root for network namespaces. `UPDATE_GOLDEN=1` rewrites the golden files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nft;
#[path = "contract/samples.rs"]
mod samples;

use std::path::PathBuf;

use nft::{Nft, in_namespace};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::nft_json::{self, Contents};
use sliceproxy_dataplane::program::{PodTraffic, Program, ProgramConfig};
use sliceproxy_dataplane::rows::Row;
use sliceproxy_dataplane::transaction::Transaction;

/// Pods known by address in one family and by interface in the other, so that both are seen. The
/// network ends inside a byte: for others nft compares fewer bytes where we mask, which means the
/// same but is read back as another rule.
fn config() -> ProgramConfig {
    ProgramConfig {
        pods_v4: PodTraffic::From("10.244.0.0/14".parse().unwrap()),
        pods_v6: PodTraffic::InterfacePrefix("veth".to_owned()),
        ..ProgramConfig::default()
    }
}

fn program(family: Family) -> Program {
    Program::new(family, &config())
}

/// A row of every kind.
fn transaction(family: Family) -> Transaction {
    let (new_chains, added) = samples::every_row(&program(family));
    Transaction { installed: vec![program(family)], new_chains, added, ..Transaction::default() }
}

fn contents(family: Family) -> Vec<Contents> {
    Contents::of(&transaction(family)).unwrap()
}

fn golden(family: Family) -> PathBuf {
    let name = format!("{}.nft", family.to_string().to_lowercase());
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", &name].iter().collect()
}

/// What a script or a listing says, without layout, comments and the order of elements, and
/// without what nft leaves out because another part of the rule implies it.
fn essence(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut elements: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') || line.ends_with("sliceproxy") {
            continue;
        }
        let listed = line.strip_prefix("elements = { ");
        if listed.is_none() && elements.is_empty() {
            lines.push(line.replace("meta l4proto tcp reject", "reject"));
            continue;
        }
        let part = listed.unwrap_or(line);
        let last = part.ends_with(" }");
        elements
            .extend(part.trim_end_matches(" }").split(", ").map(|e| e.trim_matches(',').into()));
        if last {
            elements.sort();
            lines.append(&mut elements);
        }
    }
    lines
}

#[test]
fn scripts_are_as_they_were() {
    for family in Family::ALL {
        let script = nft_json::script(&contents(family));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(golden(family), &script).unwrap();
        }
        let known = std::fs::read_to_string(golden(family)).unwrap();
        assert!(known == script, "{}: differs; see UPDATE_GOLDEN", golden(family).display());
    }
}

#[test]
fn nft_lists_what_the_script_says_and_loads_its_own_listing() {
    for family in Family::ALL {
        let script = nft_json::script(&contents(family));
        let nft = Nft::new();
        in_namespace(move || {
            nft.run_with(&["-f", "-"], &script);
            let listing = nft.run(&["list", "ruleset"]);
            assert_eq!(essence(&listing), essence(&script));
            // Over an existing table, and from a listing.
            nft.run_with(&["-f", "-"], &script);
            assert_eq!(nft.run(&["list", "ruleset"]), listing);
            nft.run(&["flush", "ruleset"]);
            nft.run_with(&["-f", "-"], &listing);
            assert_eq!(nft.run(&["list", "ruleset"]), listing);
        });
    }
}

#[test]
fn the_systems_nft_lists_the_tables() {
    let tables: Vec<Contents> = Family::ALL.into_iter().flat_map(contents).collect();
    let nft = Nft::new();
    in_namespace(move || {
        nft.run_with(&["-f", "-"], &nft_json::script(&tables));
        let listing = Nft::of_the_system().run(&["list", "ruleset"]);
        assert!(listing.contains("table ip6 sliceproxy"));
    });
}

#[test]
fn listed_rows_are_the_rows_that_were_written() {
    for family in Family::ALL {
        let transaction = transaction(family);
        let script = nft_json::script(&Contents::of(&transaction).unwrap());
        let nft = Nft::new();
        let listing = in_namespace(move || {
            nft.run_with(&["-f", "-"], &script);
            nft.run(&["-j", "list", "table", family.nft_name(), "sliceproxy"])
        });
        let listing = serde_json::from_str(&listing).unwrap();
        let mut rows = nft_json::rows_from_listing(&listing).unwrap();
        let mut written: Vec<Row> = transaction.added;
        rows.sort();
        written.sort();
        assert_eq!(rows, written);
    }
}

#[test]
fn the_json_document_says_the_same_as_the_script() {
    for family in Family::ALL {
        let contents = contents(family);
        let script = nft_json::script(&contents);
        let document = nft_json::document(&contents).unwrap().to_string();
        let nft = Nft::new();
        in_namespace(move || {
            nft.run_with(&["-f", "-"], &script);
            let listing = nft.run(&["list", "ruleset"]);
            nft.run_with(&["-j", "-f", "-"], &document);
            // From JSON nft keeps of a verdict map's key only the types.
            let ip = family.nft_name();
            let example = format!("typeof {ip} daddr . meta l4proto . th dport : verdict");
            let version = if family == Family::V4 { 4 } else { 6 };
            let types = format!("type ipv{version}_addr . inet_proto . inet_service : verdict");
            assert_eq!(nft.run(&["list", "ruleset"]), listing.replace(&example, &types));
        });
    }
}

#[test]
fn the_script_and_netlink_lead_to_the_same_tables() {
    for family in Family::ALL {
        let transaction = transaction(family);
        let script = nft_json::script(&contents(family));
        let nft = Nft::new();
        in_namespace(move || {
            let mut kernel = NetlinkKernel::open(&config()).unwrap();
            kernel.commit(&transaction).unwrap();
            let listing = nft.run(&["list", "ruleset"]);
            assert_eq!(essence(&listing), essence(&script));

            // And what the script makes is adopted as it is.
            let ours = kernel.read().unwrap();
            nft.run_with(&["-f", "-"], &script);
            let theirs = kernel.read().unwrap();
            let (ours, theirs) = (ours.table(family).unwrap(), theirs.table(family).unwrap());
            assert_eq!(theirs.damage, Vec::<String>::new());
            assert_eq!((&theirs.identity, &theirs.chains), (&ours.identity, &ours.chains));
            assert_eq!(theirs.strays, []);
            let sorted = |rows: &[Row]| {
                let mut rows = rows.to_vec();
                rows.sort();
                rows
            };
            assert_eq!(sorted(&theirs.rows), sorted(&ours.rows));
        });
    }
}
