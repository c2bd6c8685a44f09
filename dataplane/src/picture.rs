//! What was read of a kernel, by key: to be compared with what it should hold, to send packets
//! through, and to be kept up with commits.

use std::net::IpAddr;

use rustc_hash::FxHashMap;

use crate::frontend::{Endpoint, Family, Frontend};
use crate::kernel::{KernelState, TableState};
use crate::rows::{AffinityRow, Row, RowKey, RowValue};
use crate::walk::Rows;

/// Both tables, and remembered clients.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// Without their rows.
    tables: KernelState,
    pub(crate) rows: FxHashMap<RowKey, RowValue>,
    clients: FxHashMap<(Frontend, IpAddr), Endpoint>,
}

impl From<KernelState> for Picture {
    fn from(mut state: KernelState) -> Self {
        let rows = take_rows(&mut state).map(|row| (row.key, row.value)).collect();
        Self { tables: state, rows, clients: FxHashMap::default() }
    }
}

impl Picture {
    /// The same picture, with these clients.
    #[must_use]
    pub fn with_clients(mut self, clients: impl IntoIterator<Item = AffinityRow>) -> Self {
        let known = clients.into_iter().map(|row| ((row.frontend, row.client), row.endpoint));
        self.clients.extend(known);
        self
    }

    /// The table of that family; its rows are not in it, but in [`Picture::rows`].
    pub fn table(&self, family: Family) -> Option<&TableState> {
        self.tables.table(family)
    }

    pub(crate) fn tables_mut(&mut self) -> &mut KernelState {
        &mut self.tables
    }

    pub(crate) fn tables(&self) -> &KernelState {
        &self.tables
    }

    /// The rows of both tables, in no order.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows.iter().map(|(key, value)| Row { key: *key, value: *value })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes in another pass over the same kernel. One pass may leave out rows and chains that are
    /// there, but never the same as another; so what either has found is there. What both have found
    /// is as the later one says.
    pub fn merge(&mut self, mut later: KernelState) {
        self.rows.extend(take_rows(&mut later).map(|row| (row.key, row.value)));
        for family in Family::ALL {
            let earlier = self.tables.table_mut(family).take();
            if let (Some(mut earlier), Some(later)) = (earlier, later.table_mut(family)) {
                later.chains.append(&mut earlier.chains);
                // Missing rules are found by every pass if they are missing.
                later.damage.retain(|damage| earlier.damage.contains(damage));
            }
        }
        self.tables = later;
    }
}

fn take_rows(state: &mut KernelState) -> impl Iterator<Item = Row> + use<> {
    let mut take = |family| {
        let table = state.table_mut(family).as_mut();
        table.map(|table| std::mem::take(&mut table.rows)).unwrap_or_default()
    };
    take(Family::V4).into_iter().chain(take(Family::V6))
}

impl Rows for Picture {
    fn row(&self, key: &RowKey) -> Option<RowValue> {
        self.rows.get(key).copied()
    }

    fn remembered(&self, frontend: Frontend, client: IpAddr) -> Option<Endpoint> {
        self.clients.get(&(frontend, client)).copied()
    }
}
