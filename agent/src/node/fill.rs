//! How full the connection tracking table is. A full one drops new connections, and only the
//! kernel's log says why.

use std::path::Path;
use std::time::Duration;

use tracing::{info, warn};

use super::sysctl::read_number;

const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// Time from one look to the next.
const INTERVAL: Duration = Duration::from_secs(30);
/// Parts of a hundred from which on it is nearly full.
const HIGH: u64 = 90;
/// Parts of a hundred below which it is not any more.
const LOW: u64 = 80;

/// Says in the log when the table is nearly full, and when it is not any more. Runs for ever.
pub async fn watch() {
    let mut fill = Fill::default();
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        interval.tick().await;
        let number = |path: &str| read_number(Path::new(path)).ok().flatten();
        // Without connection tracking there is nothing to watch.
        if let (Some(count), Some(max)) = (number(COUNT), number(MAX)) {
            match fill.look(count, max) {
                Some(true) => warn!(
                    count,
                    max,
                    "the connection tracking table is nearly full; when it is, new connections are \
                     dropped: raise --conntrack-max-per-core or --conntrack-min"
                ),
                Some(false) => info!(count, max, "the connection tracking table has room again"),
                None => {}
            }
        }
    }
}

/// Whether it was nearly full at the last look.
#[derive(Debug, Default)]
struct Fill {
    nearly_full: bool,
}

impl Fill {
    /// Whether it is nearly full, if that is news.
    fn look(&mut self, count: u64, max: u64) -> Option<bool> {
        let limit = if self.nearly_full { LOW } else { HIGH };
        let now = max > 0 && count.saturating_mul(100) >= max.saturating_mul(limit);
        let before = std::mem::replace(&mut self.nearly_full, now);
        (now != before).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_only_and_with_some_distance() {
        let mut fill = Fill::default();
        let looks = [(0, None), (89, None), (90, Some(true)), (100, None), (85, None)];
        for (count, expected) in looks.into_iter().chain([(79, Some(false)), (89, None)]) {
            assert_eq!(fill.look(count, 100), expected, "{count}");
        }
    }
}
