//! The dataplane of sliceproxy: a fixed nftables program, the rows it works on, and the way to the
//! kernel. Synchronous, and without any knowledge of Kubernetes.

#![deny(missing_docs)]

mod chain_uses;
pub mod cidr;
pub mod conntrack;
mod digest;
pub mod fake;
pub mod frontend;
pub mod kernel;
mod known;
pub mod ledger;
pub mod netlink;
pub mod nft_json;
pub mod picture;
pub mod program;
pub mod reading;
pub mod rows;
pub mod slots;
pub mod transaction;
pub mod walk;
mod wishes;
