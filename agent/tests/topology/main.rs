//! Which endpoints a node sends traffic to: from Kubernetes objects as they come, through the
//! agent, to the packets of clients inside and outside the cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod annotations;
mod cluster;
mod counting;
mod hints;
mod labels;
mod nearest;
mod policies;
mod properties;
mod row;
