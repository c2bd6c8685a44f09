//! Connection tracking in memory.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::libc::ENOBUFS;

use crate::conntrack::{Conntrack, Flow, Scope, Swept};
use crate::frontend::Protocol;
use crate::kernel::KernelError;

/// What a [`FakeConntrack`] holds, and what happened to it.
#[derive(Debug, Default)]
pub struct FakeFlows {
    /// The flows, of any protocol.
    pub flows: BTreeSet<Flow>,
    /// Sweeps that were carried out.
    pub sweeps: Vec<Scope>,
    /// Sweeps that will fail before they do anything.
    pub failing: u32,
}

/// A connection tracking table in memory, which may be in several hands.
#[derive(Debug, Clone, Default)]
pub struct FakeConntrack(Arc<Mutex<FakeFlows>>);

impl FakeConntrack {
    /// What it holds, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, FakeFlows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conntrack for FakeConntrack {
    fn sweep(
        &mut self,
        scope: &Scope,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> Result<Swept, KernelError> {
        let mut table = self.lock();
        if table.failing > 0 {
            table.failing -= 1;
            return Err(KernelError::Socket(io::Error::from_raw_os_error(ENOBUFS)));
        }
        table.sweeps.push(*scope);
        let mut swept = Swept { dumps: 1, ..Swept::default() };
        table.flows.retain(|flow| {
            if flow.frontend.protocol != Protocol::Udp || !scope.holds(&flow.frontend) {
                return true;
            }
            swept.seen += 1;
            let stale = is_stale(flow);
            swept.deleted += u64::from(stale);
            !stale
        });
        Ok(swept)
    }
}
