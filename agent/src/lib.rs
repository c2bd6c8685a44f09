//! sliceproxy: a Kubernetes node proxy. EndpointSlices and Services in, rows of a fixed nftables
//! program out. The binary is a thin shell around this library.

pub mod alone;
pub mod cache;
pub mod claims;
pub mod cli;
pub mod clip;
pub mod config;
pub mod conflicts;
pub mod conntrack;
pub mod convert;
pub mod demo;
pub mod desired;
pub mod driver;
pub mod engine;
pub mod events;
pub mod few;
pub mod foreign;
pub mod host;
pub mod inlet;
pub mod lab;
pub mod logging;
pub mod model;
pub mod node;
pub mod pool;
pub mod report;
pub mod server;
pub mod source;
pub mod topology;
pub mod version;
pub mod view;
pub mod wire;
