//! How much memory this process uses, against the limit of the configuration. Nothing is refused for
//! it, since rules matter more; it is said, so that somebody can act before the kernel does.

use std::time::Duration;

use tracing::{info, warn};

use crate::server::resident_bytes;

const PERIOD: Duration = Duration::from_secs(30);

/// What has changed since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Beyond,
    Within,
}

/// Remembers on which side of the limit memory was last.
#[derive(Debug)]
struct Gauge {
    limit: u64,
    beyond: bool,
}

impl Gauge {
    fn look(&mut self, resident: u64) -> Option<News> {
        // Not to and fro at every look.
        let bound = if self.beyond { self.limit - self.limit / 10 } else { self.limit };
        let beyond = resident > bound;
        let news = if beyond { News::Beyond } else { News::Within };
        (std::mem::replace(&mut self.beyond, beyond) != beyond).then_some(news)
    }
}

/// Says when resident memory passes `mib` MiB, and calls `beyond` then. Never ends; 0 is no limit.
pub async fn watch(mib: u32, beyond: impl Fn()) {
    if mib == 0 {
        return std::future::pending().await;
    }
    let mut gauge = Gauge { limit: u64::from(mib) << 20, beyond: false };
    loop {
        if let Some(resident) = resident_bytes() {
            let resident_mib = resident >> 20;
            match gauge.look(resident) {
                Some(News::Beyond) => {
                    warn!(resident_mib, limit_mib = mib, "more memory than limits.memoryMiB");
                    beyond();
                }
                Some(News::Within) => info!(resident_mib, "memory is within its limit again"),
                None => {}
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_passed_once_until_memory_falls_well_below() {
        let mut gauge = Gauge { limit: 100, beyond: false };
        let looks = [100, 101, 99, 150, 91, 90, 95, 101];
        let news: Vec<_> = looks.into_iter().map(|resident| gauge.look(resident)).collect();
        let (beyond, within) = (Some(News::Beyond), Some(News::Within));
        assert_eq!(news, [None, beyond, None, None, None, within, None, beyond]);
    }
}
