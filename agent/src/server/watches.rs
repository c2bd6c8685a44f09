//! Metrics of the source of objects, read from its own state when asked for.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::health::Health;
use super::moment::Moment;
use crate::source::kube::{Freshness, Watched};

/// How old what we know is, and, with an API server, how each of its watches fares.
#[derive(Debug)]
pub(super) struct Watches(pub(super) Arc<Health>);

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(silence) = self.0.silence(Moment::now()) {
            let age = ConstGauge::new(silence.as_secs_f64());
            let name = "sliceproxy_watch_age_seconds";
            let help = "Time since the source of objects gave a sign of life; of an API server, \
                        since Services or EndpointSlices did, whichever is longer ago";
            age.encode(encoder.encode_descriptor(name, help, None, age.metric_type())?)?;
        }
        let Some(watches) = self.0.watches() else { return Ok(()) };
        encode_connected(watches, &mut encoder)?;
        encode_undecodable(watches, &mut encoder)
    }
}

fn encode_connected(
    watches: &Freshness,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let name = "sliceproxy_watch_connected";
    let help = "1 while the API server answers this watch";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for watched in Watched::ALL {
        let labels = [("watch", watched.as_str())];
        let connected = ConstGauge::new(i64::from(watches.of(watched).connected));
        connected.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_undecodable(
    watches: &Freshness,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let name = "sliceproxy_undecodable_objects";
    let help = "Objects that could not be decoded";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for watched in Watched::ALL {
        let labels = [("watch", watched.as_str())];
        let failures = ConstCounter::new(watches.of(watched).decode_failures);
        failures.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
