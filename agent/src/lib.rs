//! sliceproxy: a Kubernetes node proxy. EndpointSlices and Services in, rows of a fixed nftables
//! program out. The binary is a thin shell around this library.

pub mod lab;
pub mod model;
