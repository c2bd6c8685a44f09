//! Why these endpoints, in words that need no knowledge of Kubernetes' internals.

use crate::topology::{Choice, Level, Scope};

use super::cluster::{PLACES, Place};

/// Why the endpoints of a Service were chosen.
pub(super) fn reason(choice: &Choice) -> String {
    let Place { zone, region, node, .. } = PLACES[0];
    let looked_nearer = !choice.passed_over.is_empty();
    match choice.scope {
        Scope::None => "no pod is ready, so clients are told at once".into(),
        Scope::Refused => "the Service allows no place where a pod is ready".into(),
        Scope::Terminating => "only pods that are shutting down are left".into(),
        Scope::Within(Level::HintedNode) => format!("its slice says: for node {node}"),
        Scope::Within(Level::HintedZone) => format!("its slice says: for zone {zone}"),
        Scope::Within(Level::Node) => "a pod on this very node is nearest".into(),
        Scope::Within(Level::Zone) => format!("none on this node; same zone {zone}"),
        Scope::Within(Level::Region) => format!("none in zone {zone}; same region {region}"),
        Scope::Anywhere if looked_nearer => format!("none in region {region}: any will do"),
        Scope::Anywhere => "the Service wants all of them used".into(),
    }
}
