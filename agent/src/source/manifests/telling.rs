//! Tells of what is wrong with the objects of files as it is told of those of an API server: each
//! object's faults once, few lines for one object, and their number as a metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Finding;
use crate::model::ObjectName;
use crate::source::complaints::Complaints;
use crate::source::kube::{Freshness, Watched};

/// Whom to tell.
#[derive(Debug)]
pub struct Telling {
    lines_per_object: u32,
    freshness: Arc<Freshness>,
    /// By kind, also of objects of no kind.
    complaints: BTreeMap<&'static str, Complaints>,
}

impl Telling {
    /// At most so many lines about one object in an hour; numbers go to `freshness`.
    pub fn new(lines_per_object: u32, freshness: Arc<Freshness>) -> Self {
        Self { lines_per_object, freshness, complaints: BTreeMap::new() }
    }

    /// These are all findings there are. How many lines were written.
    pub(super) fn tell(&mut self, findings: &[Finding]) -> usize {
        let mut objects: BTreeMap<(&'static str, &str), Vec<&Finding>> = BTreeMap::new();
        for finding in findings {
            let rejection = &finding.rejection;
            objects.entry((rejection.kind, &rejection.object)).or_default().push(finding);
        }
        self.complaints.values_mut().for_each(Complaints::list_begins);
        let mut lines = 0;
        for ((kind, object), findings) in objects {
            let complaints = self.complaints.entry(kind);
            let complaints = complaints.or_insert_with(|| Complaints::new(self.lines_per_object));
            lines += complaints.tell(&ObjectName::new("", object), &findings);
        }
        self.complaints.values_mut().for_each(Complaints::list_is_complete);
        for watched in Watched::ALL {
            let parts = self.complaints.get(watched.kind()).map_or(0, Complaints::parts);
            self.freshness.rejected(watched, parts);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::Place;
    use super::*;
    use crate::model::Rejection;

    fn findings(kind: &'static str, object: &str, count: u64, line: u64) -> Vec<Finding> {
        let finding = |i| Finding {
            place: Place {
                file: Arc::from(std::path::Path::new("x.yaml")),
                position: Some((line + i, 1)),
            },
            rejection: Rejection {
                kind,
                object: object.to_owned(),
                field: format!("spec.ports[{i}]"),
                value: String::new(),
                reason: "wrong".to_owned(),
            },
        };
        (0..count).map(finding).collect()
    }

    #[test]
    fn each_objects_faults_are_told_once_within_limits_and_counted_by_kind() {
        let freshness = Arc::new(Freshness::default());
        let mut telling = Telling::new(3, Arc::clone(&freshness));
        let parts = || Watched::ALL.map(|watched| freshness.of(watched).rejected_parts);
        let both = [findings("Service", "shop/web", 5, 1), findings("Node", "shop/web", 1, 9)];
        assert_eq!(telling.tell(&both.concat()), 4, "three of five, and one");
        assert_eq!(parts(), [5, 0, 1, 0]);
        let moved = findings("Service", "shop/web", 5, 100);
        assert_eq!(telling.tell(&moved), 0, "the same elsewhere in the file");
        assert_eq!(parts(), [5, 0, 0, 0]);
        assert_eq!(telling.tell(&findings("object", "(no name)", 2, 1)), 2);
        assert_eq!(parts(), [0; 4]);
    }
}
