//! Which build this is.

/// Version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit that it was built from, or "unknown".
pub const COMMIT: &str = env!("SLICEPROXY_COMMIT");

/// Both, for `--version` and the log.
pub const FULL: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("SLICEPROXY_COMMIT"), ")");
