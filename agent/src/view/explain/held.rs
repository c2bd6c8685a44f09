//! What the kernel holds, as walks read it.

use std::net::IpAddr;

use sliceproxy_dataplane::frontend::{Endpoint, Frontend};
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::picture::Picture;
use sliceproxy_dataplane::program::{ChainDef, Program};
use sliceproxy_dataplane::rows::{Chain, RowKey, RowValue};
use sliceproxy_dataplane::walk::Rows;

/// Rows, clients and chains that were read back.
pub(super) struct Held<'a> {
    pub(super) picture: &'a Picture,
    /// Knows what the chains of groups contain.
    pub(super) ledger: &'a Ledger,
}

impl Rows for Held<'_> {
    fn row(&self, key: &RowKey) -> Option<RowValue> {
        self.picture.row(key)
    }

    fn remembered(&self, frontend: Frontend, client: IpAddr) -> Option<Endpoint> {
        self.picture.remembered(frontend, client)
    }

    fn chain(&self, program: &Program, chain: Chain) -> Option<ChainDef> {
        let exists = chain == Chain::RejectNow
            || self.picture.table(program.family()).is_some_and(|t| t.chains.contains(&chain));
        exists.then(|| program.row_chain(chain, self.ledger.group(chain)))
    }
}
