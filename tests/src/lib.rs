//! What the integration tests share: waiting, the agent's binary in a namespace, the `nft` tool,
//! and an independent reading of the example shop.

use std::time::{Duration, Instant};

use anyhow::bail;
use sliceproxy::lab;

/// Fails the calling test unless it may make network namespaces: a test that silently does
/// nothing is worse than one that fails.
pub fn require_root() {
    assert!(
        lab::may_make_namespaces(),
        "this test makes network namespaces: run it as root, or inside `unshare --user --map-root-user`"
    );
}

/// Looks until `look` finds something, and fails after `limit`.
///
/// # Errors
/// When nothing was found in time; the message says what was waited for.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if started.elapsed() > limit {
            bail!("waited {limit:?} for {what}, in vain");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub mod agent;
pub mod cluster;
pub mod driven;
pub mod flows;
pub mod generate;
pub mod manifest;
pub mod nft;
pub mod shop;
pub mod shop_lab;
pub mod sidebyside;
