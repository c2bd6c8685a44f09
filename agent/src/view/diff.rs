//! What the kernel lacks, has too much of, or has otherwise than it should be.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Kernel, TableState};
use sliceproxy_dataplane::ledger::SetAside;
use sliceproxy_dataplane::picture::Picture;
use sliceproxy_dataplane::program::Program;
use sliceproxy_dataplane::rows::{Chain, Row, RowKey};
use sliceproxy_dataplane::walk::Rows;

use super::rows::{refusal, value_text};
use super::{RowState, RowView, StrayView};
use crate::engine::Engine;

/// The difference between what is desired and what the kernel holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffView {
    /// Whether there is none.
    pub equal: bool,
    /// Rows that are desired.
    pub desired_rows: usize,
    /// Rows that the kernel holds.
    pub kernel_rows: usize,
    /// The programs, IPv4 first.
    pub tables: Vec<TableDiffView>,
    /// Desired rows that the kernel lacks.
    pub missing: Vec<RowView>,
    /// Rows of the kernel that are not desired.
    pub surplus: Vec<RowView>,
    /// Rows whose value is another one.
    pub different: Vec<DifferenceView>,
    /// Chains that desired rows need and the kernel lacks, with their family.
    pub missing_chains: Vec<(Family, String)>,
    /// Elements that are not rows at all.
    pub strays: Vec<StrayView>,
}

/// A table's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableDiffView {
    /// The table's family.
    pub family: Family,
    /// What is the matter with it.
    pub program: ProgramState,
    /// What is missing or changed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub damage: Vec<String>,
}

/// Whether a table holds the program that it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProgramState {
    /// It does.
    Current,
    /// There is no table.
    Missing,
    /// It holds the program of another version or configuration.
    Other,
    /// Parts of it are missing or changed.
    Damaged,
    /// The family is switched off, and there is no table.
    Off,
    /// The family is switched off, and there is a table.
    Surplus,
}

/// A row with two values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceView {
    /// The row as it should be.
    #[serde(flatten)]
    pub desired: RowView,
    /// The kernel's value.
    pub kernel_value: String,
}

/// Compares what `engine` wants with `picture`. What the engine is not needed for is left to do.
pub fn diff<K: Kernel>(engine: &Engine<K>, picture: Picture) -> impl FnOnce() -> DiffView + use<K> {
    let ledger = engine.ledger();
    let wanted = Wanted {
        programs: ledger.programs().to_vec(),
        rows: ledger.desired_rows().collect(),
        chains: ledger.desired_chains(),
        set_aside: ledger.set_aside().clone(),
    };
    move || wanted.compare(&picture)
}

/// What the kernel should hold.
struct Wanted {
    programs: Vec<Program>,
    rows: Vec<Row>,
    chains: BTreeSet<(Family, Chain)>,
    /// What it refused.
    set_aside: BTreeMap<RowKey, SetAside>,
}

impl Wanted {
    fn compare(mut self, picture: &Picture) -> DiffView {
        self.rows.sort_unstable();
        let mut view = DiffView {
            equal: false,
            desired_rows: self.rows.len(),
            kernel_rows: picture.len(),
            tables: tables(&self.programs, picture),
            missing: Vec::new(),
            surplus: self.surplus(picture),
            different: Vec::new(),
            missing_chains: Vec::new(),
            strays: Vec::new(),
        };
        for row in &self.rows {
            match picture.row(&row.key) {
                Some(value) if value == row.value => {}
                Some(value) => view.different.push(DifferenceView {
                    desired: RowView::of(row),
                    kernel_value: value_text(value).unwrap_or_default(),
                }),
                None => view.missing.push(self.missing(row)),
            }
        }
        let lacks = |(family, chain): &(Family, Chain)| {
            picture.table(*family).is_none_or(|table| !table.chains.contains(chain))
        };
        let missing = self.chains.into_iter().filter(lacks);
        view.missing_chains = missing.map(|(family, chain)| (family, chain.to_string())).collect();
        let tables = Family::ALL.into_iter().filter_map(|family| picture.table(family));
        view.strays = tables.flat_map(|table| &table.strays).map(StrayView::of).collect();
        view.equal = view.is_equal();
        view
    }

    fn missing(&self, row: &Row) -> RowView {
        let aside = self.set_aside.get(&row.key);
        RowView {
            state: aside.map(|_| RowState::SetAside),
            reason: aside.map(|aside| refusal(aside.errno)),
            ..RowView::of(row)
        }
    }

    /// Rows of the kernel that nobody wants. Ours have to be sorted.
    fn surplus(&self, picture: &Picture) -> Vec<RowView> {
        let wanted = |key: &RowKey| self.rows.binary_search_by(|row| row.key.cmp(key)).is_ok();
        let mut surplus: Vec<Row> = picture.rows().filter(|row| !wanted(&row.key)).collect();
        surplus.sort_unstable();
        surplus.iter().map(RowView::of).collect()
    }
}

impl DiffView {
    fn is_equal(&self) -> bool {
        let fine = |table: &TableDiffView| {
            matches!(table.program, ProgramState::Current | ProgramState::Off)
        };
        self.tables.iter().all(fine)
            && self.missing.is_empty()
            && self.surplus.is_empty()
            && self.different.is_empty()
            && self.missing_chains.is_empty()
            && self.strays.is_empty()
    }
}

fn tables(programs: &[Program], picture: &Picture) -> Vec<TableDiffView> {
    let table = |family| {
        let program = programs.iter().find(|program| program.family() == family);
        let table = picture.table(family);
        TableDiffView {
            family,
            program: program_state(program, table),
            damage: table.map(|table| table.damage.clone()).unwrap_or_default(),
        }
    };
    Family::ALL.into_iter().map(table).collect()
}

/// Whether `table` holds `program`.
pub(super) fn program_state(program: Option<&Program>, table: Option<&TableState>) -> ProgramState {
    match (program, table) {
        (None, None) => ProgramState::Off,
        (None, Some(_)) => ProgramState::Surplus,
        (Some(_), None) => ProgramState::Missing,
        (Some(program), Some(table)) => {
            if table.identity.as_deref() != Some(program.identity().as_str()) {
                ProgramState::Other
            } else if table.damage.is_empty() {
                ProgramState::Current
            } else {
                ProgramState::Damaged
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use sliceproxy_dataplane::fake::Tampering;
    use sliceproxy_dataplane::rows::{RowValue, SetName};

    use super::*;
    use crate::view::shop;

    #[test]
    fn an_empty_kernel_lacks_everything() {
        let engine = shop::engine("node-a1");
        let view = diff(&engine, Picture::default())();
        assert!(!view.equal);
        assert_eq!(view.missing.len(), engine.ledger().len());
        assert!(view.tables.iter().all(|table| table.program == ProgramState::Missing));
        assert!(!view.missing_chains.is_empty());
    }

    #[test]
    fn every_kind_of_difference_is_found_and_none_is_invented() {
        let mut engine = shop::engine("node-a1");
        engine.sync().unwrap();
        let state = engine.kernel_mut().state();
        let view = diff(&engine, state.clone().into())();
        assert!(view.equal, "{view:?}");

        let mut backends: Vec<Row> =
            state.rows().filter(|row| row.key.set() == SetName::Backends).copied().collect();
        backends.sort_unstable();
        let RowValue::Endpoint(mut other) = backends[1].value else { panic!("a backend") };
        other.port += 1;
        let mut surplus = backends[2];
        if let RowKey::Backend(frontend, _) = surplus.key {
            surplus.key = RowKey::Backend(frontend, 999);
        }
        let kernel = engine.kernel_mut();
        kernel.tamper(Tampering::Delete(backends[0].key));
        kernel.tamper(Tampering::Write(Row::endpoint(backends[1].key, other)));
        kernel.tamper(Tampering::Write(surplus));
        kernel.tamper(Tampering::Damage(Family::V6, "chain select".into()));
        kernel.tamper(Tampering::Identity(Family::V4, Some("another".into())));
        let state = kernel.state();
        let view = diff(&engine, state.into())();
        assert!(!view.equal);
        assert_eq!(view.missing, [RowView::of(&backends[0])]);
        assert_eq!(view.surplus, [RowView::of(&surplus)]);
        assert_eq!(view.different[0].desired, RowView::of(&backends[1]));
        assert_eq!(view.different[0].kernel_value, other.to_string());
        let programs: Vec<_> = view.tables.iter().map(|table| table.program).collect();
        assert_eq!(programs, [ProgramState::Other, ProgramState::Damaged]);
        let json = serde_json::to_string(&view).unwrap();
        assert_eq!(serde_json::from_str::<DiffView>(&json).unwrap(), view);
    }

    #[test]
    fn a_family_that_is_switched_off_should_have_no_table() {
        let mut engine = shop::engine("node-a1");
        engine.sync().unwrap();
        let picture = engine.picture().unwrap();
        let (only_v4, none) = (&engine.ledger().programs()[..1], Picture::default());
        assert_eq!(tables(only_v4, &picture)[1].program, ProgramState::Surplus);
        assert_eq!(tables(only_v4, &none)[1].program, ProgramState::Off);
    }
}
