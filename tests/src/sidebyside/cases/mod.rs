//! All scenarios, and all deliberate differences from kube-proxy.

mod affinity;
mod changes;
mod endpoints;
mod frontends;
mod policies;
mod sources;
mod topology;

use super::case::Case;
use super::probe::{Outcome, Seen};
use super::side::UNTOUCHED;

/// All of them, numbered.
pub fn all() -> Vec<Case> {
    let groups = [
        frontends::cases(),
        endpoints::cases(),
        policies::cases(),
        sources::cases(),
        affinity::cases(),
        topology::cases(),
        changes::cases(),
    ];
    (1..).zip(groups.into_iter().flatten()).map(|(n, case)| case.numbered(n)).collect()
}

fn answered(pods: &[&str], seen: Seen) -> Outcome {
    Outcome::Answered(pods.iter().map(ToString::to_string).collect(), [seen].into())
}

/// Answered by these, which see the caller's own address.
pub fn direct(pods: &[&str]) -> Outcome {
    answered(pods, Seen::Itself)
}

/// Answered by these, which see the node's address.
pub fn masqueraded(pods: &[&str]) -> Outcome {
    answered(pods, Seen::Node)
}

/// Not translated and not kept away.
fn untouched() -> Outcome {
    direct(&[UNTOUCHED])
}

/// Each client always answered by the same of these.
fn sticky(pods: &[&str]) -> Outcome {
    Outcome::Sticky(pods.iter().map(ToString::to_string).collect())
}
