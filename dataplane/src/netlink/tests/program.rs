//! The program as `nft` sees it, and what is said of one that was tampered with.

use std::collections::BTreeMap;
use std::path::Path;

use super::nft::{self, Nft};
use super::sample::{chains, everything};
use super::{in_namespace, installed};
use crate::frontend::Family;
use crate::kernel::Kernel as _;
use crate::netlink::NetlinkKernel;
use crate::netlink::number::{SUBSYSTEM, flag, message, set};
use crate::netlink::socket::DumpEnd;
use crate::netlink::wire::{Buffer, Message};
use crate::program::{PodTraffic, Program, ProgramConfig};
use crate::rows::SetName;
use crate::transaction::Transaction;

fn config() -> ProgramConfig {
    ProgramConfig {
        pods_v4: PodTraffic::From("10.244.0.0/16".parse().unwrap()),
        pods_v6: PodTraffic::InterfacePrefix("veth".into()),
        ..ProgramConfig::default()
    }
}

/// The committed text, or, with `UPDATE_GOLDEN` set, the new one.
fn golden(name: &str, now: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/netlink/tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    std::fs::read_to_string(&path).unwrap()
}

#[test]
fn nft_lists_the_program_as_it_always_did() {
    for nft in nft::all() {
        in_namespace(move || {
            let mut kernel = installed(&config());
            for family in Family::ALL {
                let new_chains = chains(family, &config());
                kernel.commit(&Transaction { new_chains, ..Transaction::default() }).unwrap();
                // `-y`: how priorities are called differs between versions.
                let listed = nft.run(&["-y", "list", "table", family.nft_name(), "sliceproxy"]);
                let name = format!("{}.nft", family.nft_name());
                assert_eq!(listed, golden(&name, &listed), "{nft:?}");
            }
        });
    }
}

#[test]
fn what_nft_lists_can_be_loaded_again_and_is_the_same() {
    for nft in nft::all().into_iter().filter(Nft::is_recent) {
        let tool = nft.clone();
        let (listed, before) = in_namespace(move || {
            let mut kernel = NetlinkKernel::open(&config()).unwrap();
            kernel.commit(&everything(&config(), &Family::ALL)).unwrap();
            (tool.run(&["list", "ruleset"]), kernel.read().unwrap())
        });
        let after = in_namespace(move || {
            nft.run_with(&["-f", "-"], &listed);
            NetlinkKernel::open(&config()).unwrap().read().unwrap()
        });
        assert_eq!(after, before);
    }
}

#[test]
fn nft_reads_every_set() {
    for nft in nft::all() {
        in_namespace(move || {
            let mut kernel = NetlinkKernel::open(&config()).unwrap();
            kernel.commit(&everything(&config(), &Family::ALL)).unwrap();
            for family in Family::ALL {
                for definition in crate::program::sets() {
                    let is_set = definition.value == crate::program::SetValue::None;
                    let kind = if is_set { "set" } else { "map" };
                    let name = definition.name.as_str();
                    let place = [kind, family.nft_name(), "sliceproxy", name];
                    let listed = nft.run(&[&["list"], &place[..]].concat());
                    let json = nft.json(&[&["list"], &place[..]].concat());
                    assert!(json.to_string().contains("elem"), "{json}");
                    let element = first_element(&listed);
                    let place = ["element", family.nft_name(), "sliceproxy", name];
                    let got = nft.run(&[&["get"], &place[..], &["{", &element, "}"]].concat());
                    assert!(got.contains(&element), "{got} has no {element}");
                }
            }
        });
    }
}

/// The key of the first element in a listing.
fn first_element(listed: &str) -> String {
    let (_, elements) = listed.split_once("elements = { ").unwrap();
    let end = elements.find(['}', ',']).unwrap();
    let first = elements[..end].trim();
    let key = first.split_once(" : ").map_or(first, |(key, _)| key);
    key.split_once(" timeout ").map_or(key, |(key, _)| key).to_owned()
}

#[test]
fn nft_lists_everything_as_json() {
    for nft in nft::all() {
        in_namespace(move || {
            let mut kernel = NetlinkKernel::open(&config()).unwrap();
            kernel.commit(&everything(&config(), &Family::ALL)).unwrap();
            let json = nft.json(&["list", "ruleset"]);
            assert!(json["nftables"].as_array().unwrap().len() > 80);
        });
    }
}

/// What the kernel knows about our sets: every attribute, except the numbers that it chooses, and
/// how many elements there are.
fn raw_sets(kernel: &mut NetlinkKernel) -> Vec<(String, BTreeMap<u16, Vec<u8>>)> {
    let mut request = Buffer::default();
    let sequence = kernel.channel.next_sequence();
    let kind = SUBSYSTEM << 8 | message::GET_SET;
    let start = request.begin_message(kind, flag::REQUEST | flag::DUMP, sequence, 0, 0);
    request.end_message(start);
    let (handle, count) = (16, set::COUNT);
    let mut all = Vec::new();
    let each = |answer: Message<'_>| {
        let attributes = answer.attributes();
        let name = attributes.find(set::NAME).unwrap().text().unwrap().to_owned();
        let name = format!("{:?} {name}", answer.family());
        let values = attributes.iter().filter(|a| ![handle, count].contains(&a.kind));
        all.push((name, values.map(|a| (a.kind, a.value.to_vec())).collect()));
        Ok(())
    };
    assert_eq!(kernel.channel.ask(&request, each).unwrap(), DumpEnd::Whole);
    all.sort();
    all
}

#[test]
fn our_sets_are_byte_for_byte_what_nft_makes_of_its_own_listing() {
    for nft in nft::all().into_iter().filter(Nft::is_recent) {
        in_namespace(move || {
            let mut kernel = installed(&config());
            let (listed, ours) = (nft.run(&["list", "ruleset"]), raw_sets(&mut kernel));
            nft.run(&["flush ruleset"]);
            nft.run_with(&["-f", "-"], &listed);
            let theirs = raw_sets(&mut kernel);
            assert_eq!(ours.len(), 28);
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert_eq!(ours, theirs);
            }
        });
    }
}

#[test]
fn every_way_to_know_pods_is_listed_and_loaded_again() {
    let from = |network: &str| PodTraffic::From(network.parse().unwrap());
    let cases = [
        (from("0.0.0.0/0"), "ip saddr != 0.0.0.0/0 "),
        (from("10.128.0.0/9"), "ip saddr != 10.128.0.0/9 "),
        (from("10.0.0.0/8"), "ip saddr != 10.0.0.0/8 "),
        (from("10.244.7.0/25"), "ip saddr != 10.244.7.0/25 "),
        (from("192.0.2.1/32"), "ip saddr != 192.0.2.1 "),
        (PodTraffic::Interface("cni0".into()), "iifname != \"cni0\" "),
        (PodTraffic::Interface("fifteen-letters".into()), "iifname != \"fifteen-letters\" "),
        (PodTraffic::InterfacePrefix("veth".into()), "iifname != \"veth*\" "),
    ];
    for nft in nft::all() {
        for (pods, text) in cases.clone() {
            let nft = nft.clone();
            in_namespace(move || {
                let config = ProgramConfig { pods_v4: pods, ..ProgramConfig::default() };
                let mut kernel = installed(&config);
                let listed = nft.run(&["list", "table", "ip", "sliceproxy"]);
                assert!(listed.contains(text), "{listed}");
                let before = kernel.read().unwrap();
                assert_eq!(before.v4.as_ref().unwrap().damage, Vec::<String>::new());
                if nft.is_recent() {
                    nft.run(&["delete table ip sliceproxy"]);
                    nft.run_with(&["-f", "-"], &listed);
                    assert_eq!(kernel.read().unwrap(), before, "{text}");
                }
            });
        }
    }
}

#[test]
fn damage_is_told_in_words() {
    let cases = [
        ("delete rule ip sliceproxy refuse handle HANDLE", "chain refuse has 2 rules instead of 3"),
        ("add rule ip sliceproxy nat-output accept", "chain nat-output has 2 rules instead of 1"),
        ("insert rule ip sliceproxy select counter", "chain select: rule 1 differs"),
        (
            "add table ip sliceproxy { flags dormant; }",
            "the table is dormant: the kernel passes it over",
        ),
        ("flush chain ip sliceproxy pick-2", "chain pick-2 has 0 rules instead of 2"),
        ("add chain ip sliceproxy mine", "chain mine is not part of the program"),
        ("add set ip sliceproxy mine { type mark; }", "set mine is not part of the program"),
        (
            "add chain ip sliceproxy filter-input { policy drop; }",
            "chain filter-input does not let packets pass by default",
        ),
    ];
    for (command, expected) in cases {
        in_namespace(move || {
            let system = nft::system();
            let mut kernel = NetlinkKernel::open(&config()).unwrap();
            kernel.commit(&everything(&config(), &[Family::V4])).unwrap();
            let listed = system.run(&["-a", "list", "chain", "ip", "sliceproxy", "refuse"]);
            let handle = listed.rsplit("handle ").next().unwrap();
            let handle = handle.split_whitespace().next().unwrap();
            let command = command.replace("HANDLE", handle);
            system.run(&[&command]);
            let damage = kernel.read().unwrap().v4.unwrap().damage;
            assert!(damage.iter().any(|what| what == expected), "{command}: {damage:?}");
        });
    }
}

#[test]
fn other_peoples_tables_are_passed_over() {
    in_namespace(|| {
        let mut kernel = installed(&config());
        let others = "
            table inet sliceproxy { chain select { accept; }; set services { type mark; }; }
            table ip other {
                set odd { typeof ip id . tcp option maxseg size; flags timeout; }
                map services { type ipv4_addr : verdict; elements = { 1.2.3.4 : drop }; }
                chain select { type filter hook input priority 0; ip saddr vmap @services; }
            }";
        nft::system().run_with(&["-f", "-"], others);
        let state = kernel.read().unwrap();
        for family in Family::ALL {
            let table = state.table(family).unwrap();
            assert_eq!(table.damage, Vec::<String>::new());
            assert!(table.rows.is_empty() && table.strays.is_empty());
        }
    });
}

#[test]
fn a_table_of_the_same_name_without_our_comment_has_no_identity() {
    in_namespace(|| {
        nft::system().run(&["add table ip sliceproxy { comment \"mine\"; }"]);
        let state = NetlinkKernel::open(&config()).unwrap().read().unwrap();
        let table = state.v4.unwrap();
        assert_eq!(table.identity, None);
        let missing = format!("set {} is missing", SetName::Backends);
        assert!(table.damage.contains(&missing), "{:?}", table.damage);
        assert!(state.v6.is_none());
    });
}

#[test]
fn another_configuration_is_another_identity() {
    in_namespace(|| {
        installed(&ProgramConfig { masquerade_bit: 3, ..config() });
        let table = NetlinkKernel::open(&config()).unwrap().read().unwrap().v4.unwrap();
        assert_ne!(table.identity, Some(Program::new(Family::V4, &config()).identity()));
        assert!(!table.damage.is_empty());
    });
}

#[test]
fn the_kernel_remembers_as_many_clients_as_the_program_says() {
    in_namespace(|| {
        let wanted = ProgramConfig { affinity_rows: 1234, ..config() };
        let mut kernel = installed(&wanted);
        let listed = nft::system().run(&["list", "map", "ip", "sliceproxy", "affinity"]);
        assert!(listed.contains("size 1234"), "{listed}");
        let state = kernel.read().unwrap();
        for family in Family::ALL {
            let table = state.table(family).unwrap();
            let identity = Program::new(family, &wanted).identity();
            assert_eq!(table.identity.as_deref(), Some(identity.as_str()));
            assert!(table.damage.is_empty(), "{:?}", table.damage);
            assert_ne!(identity, Program::new(family, &config()).identity());
        }
    });
}
