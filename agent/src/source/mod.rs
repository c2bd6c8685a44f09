//! Where Services, slices and Nodes come from. Every source sends the same
//! [`Event`](crate::model::Event)s; nobody behind it knows which one it is.

pub mod addresses;
mod complaints;
pub mod kube;
pub mod manifests;
