//! Whether the proxy does its work: no change waits too long for the kernel. Pure; the clock is the
//! caller's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use sliceproxy_dataplane::frontend::Family;

use super::moment::Moment;
use crate::source::kube::Freshness;

/// What Go shows for a time that was never set.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The state of health. Shared: all methods take `&self`.
#[derive(Debug)]
pub struct Health {
    timeout: Duration,
    state: Mutex<State>,
    /// What the API server's watches say of themselves; `None` if it is not the source.
    watches: Option<Arc<Freshness>>,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest change that is not in the kernel.
    waiting_since: BTreeMap<Family, Moment>,
    synced_at: BTreeMap<Family, Moment>,
    node_eligible: bool,
    heard_at: Option<Moment>,
}

/// The body of `/healthz` and `/livez`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Now, if all is well: clients take it for the age of the answer. Else the last commit.
    pub last_updated: String,
    /// Now.
    pub current_time: String,
    /// Whether load balancers may send to this node; only in `/healthz`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_eligible: Option<bool>,
    /// Whether no family is late.
    pub healthy: bool,
    /// The families.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub status: BTreeMap<Family, FamilyReport>,
}

/// The state of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyReport {
    /// Its last commit.
    pub last_updated: String,
    /// Whether no change waits too long.
    pub healthy: bool,
}

impl Health {
    /// Healthy, with nothing waiting and a Node that is not known yet. A change that waits as long
    /// as `timeout` makes its family unhealthy.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, state: Mutex::default(), watches: None }
    }

    /// Measures silence by these watches, each for itself: one that is alive must not hide that
    /// another is dead.
    #[must_use]
    pub fn following(mut self, watches: Arc<Freshness>) -> Self {
        self.watches = Some(watches);
        self
    }

    /// The watches, if the API server is the source.
    pub fn watches(&self) -> Option<&Freshness> {
        self.watches.as_deref()
    }

    /// There is a change that is not in the kernel. Only the first one since the last
    /// [`Health::synced`] counts.
    pub fn queued(&self, family: Family, at: Moment) {
        self.state().waiting_since.entry(family).or_insert(at);
    }

    /// Everything is in the kernel.
    pub fn synced(&self, family: Family, at: Moment) {
        let mut state = self.state();
        state.waiting_since.remove(&family);
        state.synced_at.insert(family, at);
    }

    /// Whether load balancers may send to this node, as its Node object says.
    pub fn node(&self, eligible: bool) {
        self.state().node_eligible = eligible;
    }

    /// The source of events is alive, whether it has something to say or not.
    pub fn heard(&self, at: Moment) {
        self.state().heard_at = Some(at);
    }

    /// How long the source of events has been silent; `None` if it never spoke. Of the API server:
    /// how long ago Services or slices were last heard of, whichever is longer; bookmarks count.
    pub fn silence(&self, now: Moment) -> Option<Duration> {
        if let Some(watches) = &self.watches {
            return watches.age();
        }
        self.state().heard_at.map(|heard| now.since(heard))
    }

    /// Whether no family is late.
    pub fn is_healthy(&self, now: Moment) -> bool {
        let state = self.state();
        Family::ALL.into_iter().all(|family| !self.is_late(&state, family, now))
    }

    /// Whether load balancers may send to this node.
    pub fn is_node_eligible(&self) -> bool {
        self.state().node_eligible
    }

    /// The answer of `/livez`, and whether all is well.
    pub fn livez(&self, now: Moment) -> (bool, Report) {
        self.report(now, None)
    }

    /// The answer of `/healthz`, and whether all is well: with a Node that load balancers should
    /// leave, it is not, although the proxy itself is healthy.
    pub fn healthz(&self, now: Moment) -> (bool, Report) {
        let eligible = self.is_node_eligible();
        self.report(now, Some(eligible))
    }

    fn report(&self, now: Moment, node_eligible: Option<bool>) -> (bool, Report) {
        let state = self.state();
        let families = Family::ALL.into_iter().filter_map(|family| {
            let healthy = !self.is_late(&state, family, now);
            let synced = state.synced_at.get(&family);
            let last_updated = synced.map_or_else(|| NEVER.to_owned(), |m| m.to_rfc3339());
            // A family that never got anything to do is not shown.
            (synced.is_some() || !healthy)
                .then_some((family, FamilyReport { last_updated, healthy }))
        });
        let status: BTreeMap<_, _> = families.collect();
        let healthy = status.values().all(|family| family.healthy);
        let good = healthy && node_eligible != Some(false);
        let newest = state.synced_at.values().max_by_key(|moment| moment.steady);
        let last_updated = if good { Some(&now) } else { newest };
        let report = Report {
            last_updated: last_updated.map_or_else(|| NEVER.to_owned(), |m| m.to_rfc3339()),
            current_time: now.to_rfc3339(),
            node_eligible,
            healthy,
            status,
        };
        (good, report)
    }

    /// Also before the first commit: a kernel that never takes anything must not look healthy.
    fn is_late(&self, state: &State, family: Family, now: Moment) -> bool {
        let waiting = state.waiting_since.get(&family);
        waiting.is_some_and(|since| now.since(*since) >= self.timeout)
    }

    /// A panic elsewhere ends the process, so that there is no half-changed state to fear.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Family::{V4, V6};

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn health() -> (Health, Moment) {
        let wall = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_050);
        (Health::new(TIMEOUT), Moment { wall, ..Moment::now() })
    }

    fn seconds(start: Moment, seconds: u64) -> Moment {
        start.after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_change_that_waits_too_long_is_unhealthy_until_it_is_in_the_kernel() {
        let (health, start) = health();
        assert!(health.is_healthy(seconds(start, 10_000)), "nothing to do");
        health.synced(V4, start);
        health.queued(V4, seconds(start, 100));
        health.queued(V4, seconds(start, 159));
        assert!(health.is_healthy(seconds(start, 159)));
        assert!(!health.is_healthy(seconds(start, 160)), "the oldest change counts");
        health.synced(V6, seconds(start, 161));
        assert!(!health.is_healthy(seconds(start, 162)), "each family for itself");
        health.synced(V4, seconds(start, 163));
        assert!(health.is_healthy(seconds(start, 10_000)));
    }

    #[test]
    fn a_kernel_that_never_took_anything_is_unhealthy() {
        let (health, start) = health();
        health.queued(V4, start);
        assert!(health.is_healthy(seconds(start, 59)), "starting up");
        let (good, report) = health.livez(seconds(start, 60));
        assert!(!good && !report.healthy);
        assert_eq!(report.last_updated, NEVER);
    }

    #[test]
    fn bodies_are_byte_for_byte_kube_proxys() {
        let (health, start) = health();
        health.synced(V6, start);
        health.synced(V4, seconds(start, 1));
        health.node(true);
        let json = |report: &Report| serde_json::to_string(report).unwrap_or_default();
        let (good, report) = health.healthz(seconds(start, 2));
        assert!(good);
        assert_eq!(
            json(&report),
            r#"{"lastUpdated":"2026-01-02T03:04:12Z","currentTime":"2026-01-02T03:04:12Z","nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":"2026-01-02T03:04:11Z","healthy":true},"IPv6":{"lastUpdated":"2026-01-02T03:04:10Z","healthy":true}}}"#
        );
        let (good, report) = Health::new(TIMEOUT).livez(start);
        assert!(good);
        assert_eq!(
            json(&report),
            r#"{"lastUpdated":"2026-01-02T03:04:10Z","currentTime":"2026-01-02T03:04:10Z","healthy":true}"#
        );
    }

    #[test]
    fn a_node_to_be_left_fails_healthz_alone() {
        let (health, start) = health();
        health.synced(V4, start);
        for (eligible, expected) in [(None, false), (Some(true), true), (Some(false), false)] {
            if let Some(eligible) = eligible {
                health.node(eligible);
            }
            let (good, report) = health.healthz(seconds(start, 5));
            assert_eq!(good, expected);
            assert!(report.healthy, "the proxy itself is healthy");
            let shown = if good { 5 } else { 0 };
            assert_eq!(report.last_updated, seconds(start, shown).to_rfc3339());
            assert!(health.livez(seconds(start, 5)).0);
        }
    }

    #[test]
    fn silence_is_measured_from_the_last_sign_of_life() {
        let (health, start) = health();
        assert_eq!(health.silence(start), None);
        health.heard(start);
        assert_eq!(health.silence(seconds(start, 7)), Some(Duration::from_secs(7)));
    }
}
