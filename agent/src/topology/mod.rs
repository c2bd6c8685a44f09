//! Which endpoints of a Service port this node uses, and why. Pure: no I/O, no clock.
//!
//! Selection needs to know only how many endpoints stand how to this node, so it works on counts:
//!
//! 1. [`Standing`]: how one endpoint stands to this node (ready, same zone, hinted for it, …);
//! 2. [`Tally`]: how many stand how, kept up to date endpoint by endpoint;
//! 3. [`choose`]: counts and the Service's wishes → a [`Choice`];
//! 4. [`Scope::admits`]: whether the chosen scope takes an endpoint of that standing.
//!
//! As long as an event does not change the choice, only the endpoints in it are looked at again,
//! whatever the size of the Service.

mod standing;
pub mod words;

pub use standing::{Here, Standing, Tally};

use serde::Serialize;

use crate::model::TopologyKey;

/// What a Service wants of topology, once gate and annotations are taken together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Wishes {
    /// Gate `TopologyRouting`: without hints, same node before same zone before same region.
    pub nearest_first: bool,
    /// The Service's own order, which wins over hints; only with the gate on.
    pub keys: Option<Vec<TopologyKey>>,
    /// Ready endpoints from which on a level counts; 0 means 1.
    pub min_endpoints: u32,
}

/// A level that a Service port may be confined to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Endpoints hinted for this node.
    HintedNode,
    /// Endpoints hinted for this node's zone.
    HintedZone,
    /// Endpoints on this node.
    Node,
    /// Endpoints in this node's zone.
    Zone,
    /// Endpoints in this node's region.
    Region,
}

/// The endpoints that are used for traffic with policy Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// None: there is no endpoint that could serve.
    None,
    /// None: `sliceproxy.io/topology-keys` allows none of the ready ones.
    Refused,
    /// No endpoint is ready, so the ones that terminate but still serve are used, wherever they are.
    Terminating,
    /// The ready ones of that level.
    Within(Level),
    /// All ready ones.
    Anywhere,
}

/// Why a level was not chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// This node has no label that says its zone or region.
    NodeUnlabelled,
    /// Fewer ready endpoints than the level needs.
    TooFew {
        /// Ready endpoints at that level.
        ready: u32,
        /// Ready endpoints that it takes.
        needed: u32,
    },
    /// Hints count only if every ready endpoint has one.
    HintsMissing {
        /// Ready endpoints without such a hint.
        without: u32,
        /// All ready endpoints.
        ready: u32,
    },
    /// Every ready endpoint has a hint, none of them for here.
    HintedElsewhere,
}

/// A level that was looked at before the chosen one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// The level.
    pub level: Level,
    /// Why it was not chosen.
    pub why: Why,
}

/// The outcome of a selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Which endpoints are used.
    pub scope: Scope,
    /// The levels that were considered first, in order.
    pub passed_over: Vec<PassedOver>,
}

/// Which endpoints are used for traffic with policy Local. Topology does not matter there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalScope {
    /// None on this node.
    None,
    /// The ready ones on this node.
    Ready,
    /// None is ready on this node: those that terminate but still serve.
    Terminating,
}

/// Chooses the endpoints for traffic with policy Cluster; the first of these that applies:
///
/// 1. nothing is ready: those that terminate and serve, else none;
/// 2. the Service's own keys, in their order;
/// 3. hints: node, then zone, each only if every ready endpoint has one and one is for here
///    (as kube-proxy 1.36);
/// 4. nearest first: node, zone, region;
/// 5. all ready ones.
pub fn choose(tally: &Tally, here: &Here, wishes: &Wishes) -> Choice {
    let mut passed_over = Vec::new();
    let scope = if tally.ready == 0 {
        if tally.terminating > 0 { Scope::Terminating } else { Scope::None }
    } else if let Some(keys) = &wishes.keys {
        by_keys(tally, here, wishes, keys, &mut passed_over)
    } else {
        by_hints(tally, here, &mut passed_over)
            .or_else(|| nearest(tally, here, wishes, &mut passed_over))
            .map_or(Scope::Anywhere, Scope::Within)
    };
    Choice { scope, passed_over }
}

fn by_keys(
    tally: &Tally,
    here: &Here,
    wishes: &Wishes,
    keys: &[TopologyKey],
    passed_over: &mut Vec<PassedOver>,
) -> Scope {
    for key in keys {
        let level = match key {
            TopologyKey::Any => return Scope::Anywhere,
            TopologyKey::Hostname => Level::Node,
            TopologyKey::Zone => Level::Zone,
            TopologyKey::Region => Level::Region,
        };
        match reaches(level, tally, here, wishes) {
            Ok(()) => return Scope::Within(level),
            Err(why) => passed_over.push(PassedOver { level, why }),
        }
    }
    Scope::Refused
}

fn by_hints(tally: &Tally, here: &Here, passed_over: &mut Vec<PassedOver>) -> Option<Level> {
    let kinds = [
        (Level::HintedNode, tally.node_hinted, tally.hinted_for_node, true),
        (Level::HintedZone, tally.zone_hinted, tally.hinted_for_zone, here.zone.is_some()),
    ];
    for (level, hinted, for_here, labelled) in kinds {
        let why = match (hinted, for_here) {
            // Nobody gave hints of this kind: not worth a word.
            (0, _) => continue,
            (hinted, _) if hinted < tally.ready => {
                Why::HintsMissing { without: tally.ready - hinted, ready: tally.ready }
            }
            (_, 0) if !labelled => Why::NodeUnlabelled,
            (_, 0) => Why::HintedElsewhere,
            _ => return Some(level),
        };
        passed_over.push(PassedOver { level, why });
    }
    None
}

fn nearest(
    tally: &Tally,
    here: &Here,
    wishes: &Wishes,
    passed_over: &mut Vec<PassedOver>,
) -> Option<Level> {
    if !wishes.nearest_first {
        return None;
    }
    for level in [Level::Node, Level::Zone, Level::Region] {
        match reaches(level, tally, here, wishes) {
            Ok(()) => return Some(level),
            Err(why) => passed_over.push(PassedOver { level, why }),
        }
    }
    None
}

/// Whether enough ready endpoints are at `level`.
fn reaches(level: Level, tally: &Tally, here: &Here, wishes: &Wishes) -> Result<(), Why> {
    let (ready, labelled) = match level {
        Level::Node => (tally.same_node, true),
        Level::Zone => (tally.same_zone, here.zone.is_some()),
        Level::Region => (tally.same_region, here.region.is_some()),
        Level::HintedNode => (tally.hinted_for_node, true),
        Level::HintedZone => (tally.hinted_for_zone, here.zone.is_some()),
    };
    let needed = wishes.min_endpoints.max(1);
    if !labelled {
        Err(Why::NodeUnlabelled)
    } else if ready < needed {
        Err(Why::TooFew { ready, needed })
    } else {
        Ok(())
    }
}

/// Chooses the endpoints for traffic with policy Local.
pub fn choose_local(tally: &Tally) -> LocalScope {
    if tally.same_node > 0 {
        LocalScope::Ready
    } else if tally.local_terminating > 0 {
        LocalScope::Terminating
    } else {
        LocalScope::None
    }
}

impl Scope {
    /// Whether an endpoint of that standing is used.
    pub fn admits(self, standing: Standing) -> bool {
        match self {
            Self::None | Self::Refused => false,
            Self::Terminating => standing.is_fallback(),
            Self::Anywhere => standing.ready,
            Self::Within(level) => standing.ready && standing.is_at(level),
        }
    }
}

impl LocalScope {
    /// Whether an endpoint of that standing is used.
    pub fn admits(self, standing: Standing) -> bool {
        match self {
            Self::None => false,
            Self::Ready => standing.same_node && standing.ready,
            Self::Terminating => standing.same_node && standing.is_fallback(),
        }
    }
}
