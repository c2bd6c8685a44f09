//! One network with sliceproxy alone, which follows a file of manifests instead of an API server:
//! the same scenarios where there is no control plane.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::case::{Case, Change};
use super::plan::NODE;
use super::side::{CLUSTER_CIDR, FIRST_SENTINEL, Side, nodes, sentinel};
use crate::cluster::object_path;

/// The network, and the manifests. The agent is the caller's, since it borrows from it.
#[derive(Debug)]
pub struct Alone {
    /// The network.
    pub side: Side,
    folder: TempDir,
    /// By their path in the API.
    objects: RefCell<BTreeMap<String, Value>>,
    sentinels: Cell<u8>,
}

impl Alone {
    /// A network for these scenarios, and manifests of its nodes.
    ///
    /// # Errors
    /// When namespaces cannot be made.
    pub fn new(cases: &[Case]) -> Result<Self> {
        let alone = Self {
            side: Side::new("sliceproxy", cases)?,
            folder: tempfile::tempdir()?,
            objects: RefCell::default(),
            sentinels: Cell::new(FIRST_SENTINEL),
        };
        for node in nodes() {
            alone.put(node.object())?;
        }
        alone.put(json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": ["10.96.0.0/12", "fd00:10:96::/108"]},
        }))?;
        alone.write()?;
        Ok(alone)
    }

    /// What `sliceproxy run` is started with on its node.
    pub fn agent_args(&self) -> Vec<String> {
        self.agent_args_with(&["--cluster-cidr", CLUSTER_CIDR])
    }

    /// The same with other settings.
    pub fn agent_args_with(&self, settings: &[&str]) -> Vec<String> {
        let manifests = self.path();
        ["--manifests", &manifests.to_string_lossy()]
            .into_iter()
            .chain(["--node-name", NODE, "--conntrack-max-per-core=0", "--conntrack-min=0"])
            .chain(settings.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    /// Makes the objects of all cases, and waits until they are served.
    ///
    /// # Errors
    /// When the proxy does not follow.
    pub fn apply(&self, cases: &[Case]) -> Result<()> {
        for object in cases.iter().flat_map(Case::objects) {
            self.put(object)?;
        }
        self.settle()
    }

    /// Makes the changes of all cases, and waits until they are served.
    ///
    /// # Errors
    /// As [`Alone::apply`].
    pub fn change(&self, cases: &[Case]) -> Result<()> {
        self.change_only(cases)?;
        self.settle()
    }

    /// Makes the changes of all cases for whoever reads the manifests next.
    ///
    /// # Errors
    /// When one does not fit the objects.
    pub fn change_only(&self, cases: &[Case]) -> Result<()> {
        for change in cases.iter().flat_map(|case| &case.changes) {
            match change {
                Change::Apply(object) => self.put(object.clone())?,
                Change::Patch(path, change) => self.patch(path, change)?,
                Change::Delete(path) => {
                    self.objects.borrow_mut().remove(path).with_context(|| path.clone())?;
                }
            }
        }
        self.write()
    }

    /// Gives the node another zone.
    ///
    /// # Errors
    /// As [`Alone::apply`].
    pub fn move_node(&self, zone: &str) -> Result<()> {
        self.patch_node(&json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}}))
    }

    /// Changes the node's object.
    ///
    /// # Errors
    /// As [`Alone::apply`].
    pub fn patch_node(&self, patch: &Value) -> Result<()> {
        self.patch(&format!("/api/v1/nodes/{NODE}"), patch)?;
        self.settle()
    }

    fn patch(&self, path: &str, change: &Value) -> Result<()> {
        let mut objects = self.objects.borrow_mut();
        let object = objects.get_mut(path.trim_end_matches("/status"));
        merge(object.with_context(|| path.to_owned())?, change);
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let number = self.sentinels.replace(self.sentinels.get() + 1);
        for object in sentinel(number).objects() {
            self.put(object)?;
        }
        self.write()?;
        self.side.wait_for_service(number)
    }

    fn put(&self, object: Value) -> Result<()> {
        self.objects.borrow_mut().insert(object_path(&object)?, object);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("objects.json")
    }

    /// Replaces the file in one step.
    fn write(&self) -> Result<()> {
        let objects: Vec<Value> = self.objects.borrow().values().cloned().collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let next = self.folder.path().join(".next");
        fs::write(&next, serde_json::to_vec(&list)?)?;
        Ok(fs::rename(next, self.path())?)
    }
}

/// A JSON merge patch: null removes, objects are merged, all else is replaced.
fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        object.clone_from(patch);
        return;
    };
    for (field, value) in fields {
        if value.is_null() {
            if let Some(object) = object.as_object_mut() {
                object.remove(field);
            }
        } else {
            merge(&mut object[field], value);
        }
    }
}
