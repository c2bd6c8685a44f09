//! What the kernel holds, as walks read it.

use std::net::IpAddr;

use sliceproxy_dataplane::frontend::{Endpoint, Frontend};
use sliceproxy_dataplane::kernel::KernelState;
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::program::{ChainDef, Program};
use sliceproxy_dataplane::rows::{AffinityRow, Chain, RowKey, RowValue};
use sliceproxy_dataplane::walk::{Rows, Snapshot};

/// Rows, clients and chains that were read back.
pub(super) struct Held<'a> {
    snapshot: Snapshot,
    pub(super) state: &'a KernelState,
    /// Knows what the chains of groups contain.
    ledger: &'a Ledger,
}

impl<'a> Held<'a> {
    pub(super) fn new(
        state: &'a KernelState,
        clients: Vec<AffinityRow>,
        ledger: &'a Ledger,
    ) -> Self {
        Self { snapshot: Snapshot::new(state, clients), state, ledger }
    }
}

impl Rows for Held<'_> {
    fn row(&self, key: &RowKey) -> Option<RowValue> {
        self.snapshot.row(key)
    }

    fn remembered(&self, frontend: Frontend, client: IpAddr) -> Option<Endpoint> {
        self.snapshot.remembered(frontend, client)
    }

    fn chain(&self, program: &Program, chain: Chain) -> Option<ChainDef> {
        let exists = chain == Chain::RejectNow
            || self.state.table(program.family()).is_some_and(|t| t.chains.contains(&chain));
        exists.then(|| program.row_chain(chain, self.ledger.group(chain)))
    }
}
