//! What the kernel holds.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Kernel, TableState};
use sliceproxy_dataplane::picture::Picture;
use sliceproxy_dataplane::program::Program;
use sliceproxy_dataplane::rows::Row;
use sliceproxy_dataplane::transaction::Stray;

use super::{Filter, RowView};
use crate::engine::Engine;

/// Both of our tables, as they were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelView {
    /// IPv4, then IPv6.
    pub tables: Vec<TableView>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableView {
    /// Its family.
    pub family: Family,
    /// Whether there is one.
    pub present: bool,
    /// Which program it says that it holds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<String>,
    /// Which program it should hold; absent if the family is switched off.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected_program: Option<String>,
    /// What is missing or changed in the program.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub damage: Vec<String>,
    /// Chains that rows point at.
    pub chains: Vec<String>,
    /// Rows, sorted by set and key.
    pub rows: Vec<RowView>,
    /// Elements that are not rows: somebody else put them there.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub strays: Vec<StrayView>,
}

/// A foreign element in one of our sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StrayView {
    /// The table it is in.
    pub family: Family,
    /// The set it is in.
    pub set: String,
    /// Its key, in hexadecimal digits.
    pub key: String,
}

impl StrayView {
    pub(super) fn of(stray: &Stray) -> Self {
        let mut key = String::with_capacity(stray.key.len() * 2);
        for byte in &stray.key {
            // Writing into a String cannot fail.
            let _ = write!(key, "{byte:02x}");
        }
        Self { family: stray.family, set: stray.set.to_string(), key }
    }
}

/// `picture`, with the rows of the Services that `filter` admits. What the engine is not needed for
/// is left to do.
pub fn kernel<K: Kernel>(
    engine: &Engine<K>,
    picture: Picture,
    filter: &Filter,
) -> impl FnOnce() -> KernelView + use<K> {
    let shown = filter.rows(engine);
    let programs = engine.ledger().programs().to_vec();
    move || {
        let tables = Family::ALL.map(|family| {
            let program = programs.iter().find(|program| program.family() == family);
            let rows = picture.rows().filter(|row| row.key.family() == family && shown(&row.key));
            table_view(family, program, picture.table(family), rows)
        });
        KernelView { tables: tables.into() }
    }
}

fn table_view(
    family: Family,
    program: Option<&Program>,
    table: Option<&TableState>,
    rows: impl Iterator<Item = Row>,
) -> TableView {
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_unstable();
    TableView {
        family,
        present: table.is_some(),
        program: table.and_then(|table| table.identity.clone()),
        expected_program: program.map(Program::identity),
        damage: table.map(|table| table.damage.clone()).unwrap_or_default(),
        chains: table
            .map(|table| table.chains.iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        rows: rows.iter().map(RowView::of).collect(),
        strays: table
            .map(|table| table.strays.iter().map(StrayView::of).collect())
            .unwrap_or_default(),
    }
}
