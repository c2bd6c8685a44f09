//! Why these endpoints, in words that need no knowledge of Kubernetes' internals.

use crate::topology::{Choice, Level, Scope};

use super::cluster::{PLACES, Place};

/// Why the endpoints of a Service were chosen.
pub(super) fn reason(choice: &Choice) -> String {
    let Place { zone, region, node, .. } = PLACES[0];
    let looked_nearer = !choice.passed_over.is_empty();
    match choice.scope {
        Scope::None => "no pod is ready".into(),
        Scope::Refused => "it allows no place with a ready pod".into(),
        Scope::Terminating => "only terminating pods are left".into(),
        Scope::Within(Level::HintedNode) => format!("hint for node {node}"),
        Scope::Within(Level::HintedZone) => format!("hint for zone {zone}"),
        Scope::Within(Level::Node) => "nearest: this node".into(),
        Scope::Within(Level::Zone) => format!("nearest: in zone {zone}"),
        Scope::Within(Level::Region) => format!("none in zone {zone}, so region {region}"),
        Scope::Anywhere if looked_nearer => format!("none in region {region}, so any"),
        Scope::Anywhere => "it asks for all pods".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{PassedOver, Why};

    #[test]
    fn traffic_that_went_far_is_told_from_traffic_that_was_meant_to() {
        let nearer = PassedOver { level: Level::Zone, why: Why::TooFew { ready: 0, needed: 1 } };
        let meant = Choice { scope: Scope::Anywhere, passed_over: vec![] };
        let forced = Choice { scope: Scope::Anywhere, passed_over: vec![nearer] };
        assert_eq!(reason(&meant), "it asks for all pods");
        assert_eq!(reason(&forced), "none in region eu-1, so any");
    }
}
