//! Settings of the machine itself, made once at start: nothing that a Service or slice could change.

pub mod fill;
pub mod memory;
pub mod oom;
pub mod sysctl;
