//! An agent made of manifests, for commands with `--manifests`: what any node of a snapshot would
//! do, without a cluster and without a running agent.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use sliceproxy_dataplane::fake::FakeKernel;
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::ProgramConfig;

use super::args::OfflineFlags;
use super::engine::families;
use super::exit;
use crate::config::{Config, Gate, Source};
use crate::engine::{Engine, Settings};
use crate::model::{Event, Node};
use crate::source::manifests::{self, World};
use crate::view::{Answer, Question};

/// Notes about manifests that are printed one by one.
const MAX_NOTES: usize = 1_000;

/// A cluster in files, and the configuration of one of its nodes.
#[derive(Debug)]
pub struct Snapshot {
    config: Config,
    world: World,
    /// Where node ports are served.
    node_port_addresses: Vec<IpAddr>,
    families: Vec<Family>,
}

impl Snapshot {
    /// Reads the manifests that `flags` name, for the node that they name, and says on standard
    /// error what of them is not used.
    ///
    /// # Errors
    /// If the manifests cannot be read or do not hold the node.
    pub fn open(flags: &OfflineFlags) -> Result<Self> {
        let snapshot = Self::open_for_any_node(flags)?;
        snapshot.check_node()?;
        Ok(snapshot)
    }

    /// The same, whether the node is there or not.
    ///
    /// # Errors
    /// If the manifests cannot be read.
    pub fn open_for_any_node(flags: &OfflineFlags) -> Result<Self> {
        let loaded = Config::load(&flags.to_flags())?;
        for warning in loaded.warnings {
            eprintln!("warning: {warning}");
        }
        let Source::Manifests(path) = loaded.config.source.clone() else {
            const NEEDED: &str =
                "--manifests PATH is needed: the objects of the cluster, as a file or a folder";
            return Err(exit::UsageError(NEEDED).into());
        };
        let snapshot = Self::load(loaded.config, &path)?;
        snapshot.complain();
        Ok(snapshot)
    }

    /// The quiet part of it.
    ///
    /// # Errors
    /// If the manifests cannot be read.
    pub fn load(config: Config, path: &Path) -> Result<Self> {
        let world = manifests::load(path)?;
        let node = world.nodes.get(&config.node_name);
        let addresses = node.map(|node| node.addresses.clone()).unwrap_or_default();
        let served = addresses.iter().filter(|ip| config.node_ports.serves(**ip, &addresses));
        let node_port_addresses = served.copied().collect();
        Ok(Self { config, world, node_port_addresses, families: Family::ALL.to_vec() })
    }

    fn check_node(&self) -> Result<()> {
        let (name, nodes) = (&self.config.node_name, &self.world.nodes);
        // Objects without any Node are fine: then nothing is known of this one.
        if nodes.is_empty() || nodes.contains_key(name) {
            return Ok(());
        }
        let mut known: Vec<String> = nodes.keys().map(ToString::to_string).collect();
        known.truncate(10);
        bail!(
            "there is no node {:?} in the manifests; choose one with --node-name, such as {}",
            &*name.0,
            known.join(", ")
        )
    }

    /// Takes families and node-port addresses from the machine that the command runs on.
    fn on_this_machine(mut self) -> Result<Self> {
        let interfaces = nix::ifaddrs::getifaddrs().context("cannot list this node's addresses")?;
        let local = interfaces.filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        });
        let of_node = self.node().map(|node| node.addresses.clone()).unwrap_or_default();
        let served = local.filter(|address| self.config.node_ports.serves(*address, &of_node));
        self.node_port_addresses = served.collect();
        self.families = families();
        Ok(self)
    }

    /// The Node object of this node.
    pub fn node(&self) -> Option<&Node> {
        self.world.nodes.get(&self.config.node_name).map(|node| &**node)
    }

    /// Everything that the manifests say.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// An engine that knows all of it and has written nothing yet.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn engine<K: Kernel>(&self, kernel: K) -> Result<Engine<K>> {
        let mut engine = Engine::new(self.settings(), kernel)?.obeying(&self.config);
        engine.apply(Event::NodePortAddresses(self.node_port_addresses.clone()));
        for event in self.world.events(&self.config.node_name) {
            engine.apply(event);
        }
        Ok(engine)
    }

    /// What an engine for this node needs to know.
    pub fn settings(&self) -> Settings {
        Settings {
            node: self.config.node_name.clone(),
            families: self.families.clone(),
            program: self.program(),
            topology_routing: self.config.gates.enabled(Gate::TopologyRouting),
            zone_regions: self.config.zone_regions.clone(),
        }
    }

    fn program(&self) -> ProgramConfig {
        let pod_cidrs = self.node().map(|node| node.pod_cidrs.as_slice()).unwrap_or_default();
        self.config.program(pod_cidrs)
    }

    /// Answers `question`: from the kernel of this network namespace where it is about the kernel,
    /// else from one in memory. Nothing is written to the real one.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn answer(self, question: &Question) -> Result<Answer> {
        if question.needs_kernel() {
            let this = self.on_this_machine()?;
            let kernel = NetlinkKernel::open(&this.program())?;
            return Ok(question.answer_alone(&mut this.engine(kernel)?, None)?.write_out());
        }
        let mut engine = self.engine(FakeKernel::new())?;
        if matches!(question, Question::Explain { .. }) {
            // A packet's way leads through a kernel that holds what is desired.
            engine.sync()?;
        }
        Ok(question.answer_alone(&mut engine, None)?.write_out())
    }

    fn complain(&self) {
        for problem in self.world.unread.iter().take(MAX_NOTES) {
            eprintln!("warning: {problem}");
        }
        if let more @ 1.. = self.world.unread.len().saturating_sub(MAX_NOTES) {
            eprintln!("warning: and {more} more files or documents cannot be read");
        }
        let findings = self.world.rejections.iter().map(ToString::to_string);
        let notes = findings.chain(self.world.notes.iter().cloned());
        let count = self.world.rejections.len() + self.world.notes.len();
        for note in notes.take(MAX_NOTES) {
            eprintln!("note: {note}");
        }
        if count > MAX_NOTES {
            eprintln!("note: and {} more", count - MAX_NOTES);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use crate::view::shop;

    #[test]
    fn a_node_that_is_not_there_is_named_with_those_that_are() {
        let mut snapshot = shop::snapshot("node-a1", "");
        snapshot.check_node().unwrap();
        snapshot.config.node_name = crate::model::NodeName::new("node-x").unwrap();
        let error = snapshot.check_node().unwrap_err().to_string();
        assert!(error.contains("no node \"node-x\"") && error.contains("node-a1"), "{error}");
    }
}
