//! How long a change takes, from the event to the kernel's yes, alone and in a crowd.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sliceproxy_dataplane::frontend::{Family, Protocol};
use sliceproxy_dataplane::kernel::Kernel;

use super::cluster::DemoService;
use crate::engine::{Engine, SyncError};
use crate::model::{
    Conditions, Event, ObjectName, Service, ServicePort, Slice, SliceEndpoint, SlicePort,
};

/// Times of a repeated change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Half of the changes took no longer.
    pub(super) median: Duration,
    /// 99 of 100 took no longer.
    pub(super) p99: Duration,
    /// Rows written by each.
    pub(super) rows: usize,
}

/// Replaces one endpoint of `service` by another, again and again.
pub(super) fn replace_endpoint<K: Kernel>(
    engine: &mut Engine<K>,
    service: &DemoService,
    rounds: u32,
) -> Result<Times, SyncError> {
    let mut times = Vec::new();
    let mut rows = 0;
    for round in 0..rounds {
        let mut slice = service.slice(Family::V4, &[]);
        if let Some(last) = slice.endpoints.last_mut().filter(|_| round % 2 == 0) {
            last.address = Ipv4Addr::new(10, 244, 250, 1).into();
        }
        let event = Event::Slice(Arc::new(slice));
        let start = Instant::now();
        engine.apply(event);
        let synced = engine.sync()?;
        times.push(start.elapsed());
        rows = rows.max(synced.added.len());
    }
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    Ok(Times { median: at(50), p99: at(99), rows })
}

/// Adds many other Services with `endpoints` endpoints each; how long, and how many rows.
pub(super) fn add_crowd<K: Kernel>(
    engine: &mut Engine<K>,
    services: u32,
    endpoints: u32,
) -> Result<(Duration, usize), SyncError> {
    let crowd: Vec<_> =
        (0..services).map(|i| (Arc::new(service(i)), Arc::new(slice(i, endpoints)))).collect();
    let start = Instant::now();
    for (service, slice) in crowd {
        engine.apply(Event::Service(service));
        engine.apply(Event::Slice(slice));
    }
    let synced = engine.sync()?;
    Ok((start.elapsed(), synced.added.len()))
}

fn name(i: u32) -> ObjectName {
    ObjectName::new("crowd", &format!("service-{i}"))
}

fn service(i: u32) -> Service {
    Service::new(
        name(i),
        vec![numbered(Ipv4Addr::new(10, 100, 0, 0), i)],
        vec![ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None }],
    )
}

fn slice(i: u32, endpoints: u32) -> Slice {
    let endpoint = |j| SliceEndpoint {
        address: numbered(Ipv4Addr::new(100, 64, 0, 0), i * endpoints + j),
        conditions: Conditions { ready: true, serving: true, terminating: false },
        node: None,
        zone: None,
        region: None,
        hints: None,
    };
    Slice {
        name: name(i),
        service: name(i),
        family: Family::V4,
        ports: vec![SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }],
        endpoints: (0..endpoints).map(endpoint).collect(),
        trigger_time: None,
    }
}

fn numbered(base: Ipv4Addr, n: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(base) + n).into()
}
