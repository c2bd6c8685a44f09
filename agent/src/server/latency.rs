//! The buckets of kube-proxy's histograms.

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets, linear_buckets};

/// 1 ms to 16.384 s, each twice the one before: kube-proxy's for all durations of its own work.
pub(super) fn kube_proxy_sync() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// Quarter seconds to half a second, seconds to a minute, then coarser up to five minutes.
pub(super) fn network_programming() -> Histogram {
    let fine = linear_buckets(0.25, 0.25, 2).chain(linear_buckets(1.0, 1.0, 59));
    let coarse = linear_buckets(60.0, 5.0, 12).chain(linear_buckets(120.0, 30.0, 7));
    Histogram::new(fine.chain(coarse))
}

/// 16 us to 0.5 s: a commit here is often shorter than kube-proxy's first bucket.
pub(super) fn commit() -> Histogram {
    Histogram::new(exponential_buckets(0.000_016, 2.0, 16))
}
