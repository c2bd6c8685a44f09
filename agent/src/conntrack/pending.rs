//! What is still to be checked, and the decision about a flow.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use sliceproxy_dataplane::conntrack::{Conntrack, Flow, Scope, Swept};
use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend};
use sliceproxy_dataplane::kernel::KernelError;

use crate::engine::FlowCheck;

/// Frontends whose flows are to be checked, and the endpoints that may answer them.
#[derive(Debug, Default)]
pub(super) struct Pending(FxHashMap<Frontend, Arc<FxHashSet<Endpoint>>>);

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in a check; it replaces an earlier one of the same frontend.
    pub(super) fn add(&mut self, check: &FlowCheck) {
        let endpoints = Arc::new(check.endpoints());
        for frontend in &check.frontends {
            self.0.insert(*frontend, Arc::clone(&endpoints));
        }
    }

    /// Checks what there is of `family` in one sweep, and forgets it if that succeeds.
    pub(super) fn sweep(
        &mut self,
        family: Family,
        table: &mut impl Conntrack,
    ) -> Result<Option<Swept>, KernelError> {
        let of_family = |frontend: &Frontend| frontend.family() == family;
        let frontends = self.0.keys().copied().filter(of_family);
        let Some(scope) = Scope::around(frontends) else { return Ok(None) };
        let swept = table.sweep(&scope, &mut |flow| self.is_stale(flow))?;
        self.0.retain(|frontend, _| !of_family(frontend));
        Ok(Some(swept))
    }

    /// A flow to one of the frontends that somebody else answers: an endpoint that is gone, or the
    /// frontend's own address because nothing was translated when the flow began.
    fn is_stale(&self, flow: &Flow) -> bool {
        let endpoints = self.0.get(&flow.frontend);
        endpoints.is_some_and(|endpoints| !endpoints.contains(&flow.answers_from))
    }
}
