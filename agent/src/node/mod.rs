//! Settings of the machine and the process, made once at start: nothing that a Service or slice could
//! change.

pub mod files;
pub mod fill;
pub mod heap;
pub mod memory;
pub mod oom;
pub mod sysctl;
