//! Rows as they should be, and how far they are in the kernel.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::rows::{Row, RowKey, RowValue};

use super::Filter;
use crate::engine::Engine;

/// A row of a set or map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RowView {
    /// The table it is in.
    pub family: Family,
    /// The set or map.
    pub set: String,
    /// The whole key, in words.
    pub key: String,
    /// `ADDRESS:PORT/PROTOCOL`, if the row is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frontend: Option<String>,
    /// The slot, in `backends` and `local-backends`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slot: Option<u32>,
    /// What a map says for the key: an endpoint or a verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
    /// Where the row stands; absent where that is not known or goes without saying.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<RowState>,
    /// Why it is set aside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// How far a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RowState {
    /// The kernel has it.
    Applied,
    /// It goes to the kernel with the next transaction.
    Pending,
    /// It leaves the kernel with the next transaction.
    Leaving,
    /// The kernel refused it; it is tried again when it changes and at each look at the kernel.
    SetAside,
}

impl RowView {
    /// A row of which nothing more is said.
    pub fn of(row: &Row) -> Self {
        Self { value: value_text(row.value), ..Self::of_key(&row.key) }
    }

    pub(super) fn of_key(key: &RowKey) -> Self {
        let slot = match key {
            RowKey::Backend(_, slot) | RowKey::LocalBackend(_, slot) => Some(*slot),
            _ => None,
        };
        Self {
            family: key.family(),
            set: key.set().to_string(),
            key: key.to_string(),
            frontend: key.frontend().map(|frontend| frontend.to_string()),
            slot,
            value: None,
            state: None,
            reason: None,
        }
    }
}

pub(super) fn value_text(value: RowValue) -> Option<String> {
    match value {
        RowValue::Member => None,
        value => Some(value.to_string()),
    }
}

/// Why the kernel refused a row.
pub(super) fn refusal(errno: i32) -> String {
    format!("the kernel refused it: {}", std::io::Error::from_raw_os_error(errno))
}

/// All desired rows, and those that are about to leave, sorted by set and key. Their state is left
/// out while the kernel has not been read.
pub fn rows<K: Kernel>(engine: &Engine<K>, filter: &Filter) -> Vec<RowView> {
    let shown = filter.rows(engine);
    let ledger = engine.ledger();
    let mut rows: BTreeMap<RowKey, RowView> = ledger
        .desired_rows()
        .filter(|row| shown(&row.key))
        .map(|row| (row.key, RowView::of(&row)))
        .collect();
    if !engine.is_read_back_due() {
        let transaction = ledger.transaction();
        let added: FxHashSet<RowKey> = transaction.added.iter().map(|row| row.key).collect();
        for (key, row) in &mut rows {
            let aside = ledger.set_aside().get(key);
            row.state = Some(match aside {
                Some(_) => RowState::SetAside,
                None if added.contains(key) => RowState::Pending,
                None => RowState::Applied,
            });
            row.reason = aside.map(|aside| refusal(aside.errno));
        }
        for key in transaction.deleted.iter().filter(|key| shown(key)) {
            rows.entry(*key).or_insert_with(|| RowView {
                state: Some(RowState::Leaving),
                ..RowView::of_key(key)
            });
        }
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    #[test]
    fn rows_of_one_service_with_their_state() {
        let mut engine = shop::engine("node-a1");
        let filter: Filter = "shop/dns".parse().unwrap();
        let before = rows(&engine, &filter);
        assert!(before.iter().all(|row| row.state.is_none()), "not read yet");
        engine.sync().unwrap();
        let after = rows(&engine, &filter);
        assert_eq!(before.len(), after.len());
        assert!(after.iter().all(|row| row.state == Some(RowState::Applied)));
        let backend = after.iter().find(|row| row.set == "backends").unwrap();
        assert_eq!(
            serde_json::to_value(backend).unwrap(),
            serde_json::json!({
                "family": "IPv4",
                "set": "backends",
                "key": backend.key,
                "frontend": backend.frontend,
                "slot": 0,
                "value": backend.value,
                "state": "applied",
            })
        );
        assert!(rows(&engine, &Filter::default()).len() > after.len());
    }

    #[test]
    fn a_refused_row_says_so() {
        let mut engine = shop::engine("node-a1");
        let filter: Filter = "shop/dns".parse().unwrap();
        let victim = engine
            .ledger()
            .desired_rows()
            .filter(|row| filter.rows(&engine)(&row.key))
            .map(|row| row.key)
            .min()
            .unwrap();
        engine.kernel_mut().refuse(victim, nix::libc::ENOSPC);
        engine.sync().unwrap();
        let all = rows(&engine, &filter);
        let refused: Vec<_> =
            all.iter().filter(|row| row.state == Some(RowState::SetAside)).collect();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].key, victim.to_string());
        assert!(refused[0].reason.as_ref().unwrap().contains("No space left"));
    }
}
