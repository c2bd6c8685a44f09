//! What only a look at everything can tell: counts over all rows and Service ports. Taken when
//! metrics are asked for, never on the way of a change.

use std::collections::BTreeMap;

use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::rows::SetName;

use super::metrics::{LocalPolicy, Metrics};
use crate::engine::{Engine, Port};
use crate::model::{Service, TrafficPolicy};
use crate::topology::LocalScope;
use crate::view::Selected;

/// Levels that are shown even if no Service port uses them, so that an alert can ask for 0.
const LEVELS: [&str; 11] = [
    "hinted-node",
    "hinted-zone",
    "node",
    "zone",
    "region",
    "anywhere",
    "local",
    "local-terminating",
    "terminating",
    "refused",
    "none",
];

/// Counts over everything that an engine holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    rows: BTreeMap<(SetName, Family), usize>,
    quarantined: BTreeMap<Family, usize>,
    levels: BTreeMap<&'static str, usize>,
    /// Internal and external.
    no_local_endpoints: BTreeMap<Family, (usize, usize)>,
    conflicts: usize,
}

impl Survey {
    /// Of the engine as it is now.
    pub fn of<K: Kernel>(engine: &Engine<K>) -> Self {
        let levels = LEVELS.into_iter().map(|level| (level, 0)).collect();
        let mut survey = Self { levels, ..Self::default() };
        for family in &engine.settings().families {
            survey.no_local_endpoints.insert(*family, (0, 0));
            survey.quarantined.insert(*family, 0);
            // The kernel itself writes what is in the affinity map.
            let ours = SetName::ALL.into_iter().filter(|set| *set != SetName::Affinity);
            survey.rows.extend(ours.map(|set| ((set, *family), 0)));
        }
        for row in engine.ledger().desired_rows() {
            *survey.rows.entry((row.key.set(), row.key.family())).or_default() += 1;
        }
        for key in engine.ledger().set_aside().keys() {
            *survey.quarantined.entry(key.family()).or_default() += 1;
        }
        survey.conflicts = engine.claims().conflicts().count();
        for port in engine.ports() {
            if let Some(service) = engine.cache().service(&port.name.service) {
                survey.count(port, service);
            }
        }
        survey
    }

    fn count(&mut self, port: &Port, service: &Service) {
        let pool = &port.pool;
        *self.levels.entry(Selected::of(service, port).level).or_default() += 1;
        if pool.local_scope() == LocalScope::None && pool.tally().any_usable() {
            let (internal, external) = self.no_local_endpoints.entry(pool.family()).or_default();
            *internal += usize::from(service.internal_policy == TrafficPolicy::Local);
            *external += usize::from(service.external_policy == TrafficPolicy::Local);
        }
    }
}

impl Metrics {
    /// Shows a survey.
    pub fn surveyed(&self, survey: &Survey) {
        for ((set, family), rows) in &survey.rows {
            self.rows(*set, *family, *rows);
        }
        for (family, rows) in &survey.quarantined {
            self.quarantined(*family, *rows);
        }
        for (family, (internal, external)) in &survey.no_local_endpoints {
            self.no_local_endpoints(LocalPolicy::Internal, *family, *internal);
            self.no_local_endpoints(LocalPolicy::External, *family, *external);
        }
        self.topology_levels(survey.levels.iter().map(|(level, ports)| (*level, *ports)));
        self.frontend_conflicts(survey.conflicts);
    }
}
