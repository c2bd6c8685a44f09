//! sliceproxy: a Kubernetes node proxy. EndpointSlices and Services in, rows of a fixed nftables
//! program out. The binary is a thin shell around this library.

pub mod convert;
pub mod model;
pub mod source;
pub mod wire;
