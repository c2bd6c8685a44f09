//! A change of the manifests reaches the kernel as the rows that it is about, and no others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sliceproxy::lab::probe::Outcome;
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::shop::{self, Shop};
use sliceproxy_tests::shop_lab::ShopLab;
use sliceproxy_tests::{require_root, wait_for};

const SOON: Duration = Duration::from_secs(5);
const ENOUGH: usize = 110;

/// A copy of the shop's manifests that the test may change.
struct Manifests {
    folder: tempfile::TempDir,
}

impl Manifests {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(shop::path(), folder.path().join("shop.yaml")).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.yaml")
    }

    /// Replaces the file in one step, as editors and Kubernetes do.
    fn replace(&self, text: &str) {
        let next = self.folder.path().join(".next");
        fs::write(&next, text).unwrap();
        fs::rename(next, self.path()).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Says `ready: false` of the endpoint with that address.
    fn unready(&self, address: &str) {
        let text = self.text();
        let at = text.find(&format!("    - {address}\n")).unwrap();
        let ready = at + text[at..].find("ready: true").unwrap();
        let mut changed = text.clone();
        changed.replace_range(ready..ready + "ready: true".len(), "ready: false");
        self.replace(&changed);
    }
}

fn web() -> Frontend {
    Frontend { address: "10.97.65.144".parse().unwrap(), protocol: Protocol::Tcp, port: 80 }
}

fn start<'a>(lab: &'a ShopLab, manifests: &Path) -> Agent<'a> {
    Agent::start_in_sync(lab.lab.node(), &lab.agent_args(manifests)).unwrap()
}

fn who_answers(lab: &ShopLab) -> BTreeSet<String> {
    let outcomes = lab.caller().unwrap().vantage().connect_all(&[web(); ENOUGH]).unwrap();
    let pod = |outcome: Outcome| outcome.pod().map(str::to_owned).unwrap_or(outcome.to_string());
    outcomes.into_iter().map(pod).collect()
}

#[test]
fn an_endpoint_that_leaves_touches_three_rows_of_each_frontend() {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, "node-a1").unwrap();
    let manifests = Manifests::new();
    let _agent = start(&lab, &manifests.path());
    let pods = who_answers(&lab);
    assert!(pods.contains("web-1"), "{pods:?}");

    let mut monitor = Nft::system().monitor(lab.lab.node()).unwrap();
    manifests.unready("10.244.2.10");
    let mut changes = Vec::new();
    wait_for("a change in the kernel", SOON, || {
        changes.extend(monitor.changes().unwrap());
        changes.iter().any(|line| line.contains(" services ")).then_some(())
    })
    .unwrap();
    let pods = who_answers(&lab);
    assert!(!pods.contains("web-1") && pods.len() == 5, "{pods:?}");

    changes.extend(monitor.changes().unwrap());
    let elements: Vec<_> = changes.iter().filter(|line| line.contains("element")).collect();
    for line in &elements {
        assert!(line.contains("10.97.65.144"), "another Service was touched: {line}");
    }
    // Two frontends, each: the last slot goes, the hole is filled, the count changes; a changed
    // row is deleted and added.
    assert_eq!(elements.len(), 2 * 5, "{changes:#?}");
    let rules: Vec<_> = changes.iter().filter(|line| line.contains(" rule ")).collect();
    assert!(rules.iter().all(|line| line.contains("pick-5")), "{rules:#?}");
}

#[test]
fn a_half_written_file_changes_nothing() {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, "node-a1").unwrap();
    let manifests = Manifests::new();
    let agent = start(&lab, &manifests.path());
    let whole = manifests.text();
    let before = who_answers(&lab);
    let mut monitor = Nft::system().monitor(lab.lab.node()).unwrap();
    // Cut inside a quoted string: no YAML reader can take it for a whole document.
    let cut = whole.find("resourceVersion: \"").unwrap() + "resourceVersion: \"".len();
    let said_before = agent.log().len();
    manifests.replace(&whole[..cut]);
    wait_for("a complaint about the file", SOON, || {
        agent.log()[said_before..].contains("shop.yaml").then_some(())
    })
    .unwrap();
    assert_eq!(monitor.changes().unwrap(), Vec::<String>::new());
    assert_eq!(who_answers(&lab), before);

    manifests.replace(&whole);
    manifests.unready("10.244.2.10");
    wait_for("the whole file to be read again", SOON, || {
        (!who_answers(&lab).contains("web-1")).then_some(())
    })
    .unwrap();
}
