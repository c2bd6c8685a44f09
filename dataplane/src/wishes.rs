//! Desired rows by key, in little memory: most rows are slots, and a frontend has its slots in a
//! list, where each takes a third of what it would in a map. Not for what the kernel holds.

use rustc_hash::FxHashMap;

use crate::frontend::{Endpoint, Frontend};
use crate::rows::{Row, RowKey, RowValue, SetName, Slot};

/// Desired rows.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Without gaps at the end. Slots that come before their predecessors are in `others`.
    slots: FxHashMap<(SetName, Frontend), Vec<Option<Endpoint>>>,
    filled_slots: usize,
    others: FxHashMap<RowKey, RowValue>,
}

/// The list that a row belongs in, and its place there.
fn place(key: &RowKey) -> Option<((SetName, Frontend), usize)> {
    let (RowKey::Backend(frontend, slot) | RowKey::LocalBackend(frontend, slot)) = *key else {
        return None;
    };
    Some(((key.set(), frontend), usize::try_from(slot).ok()?))
}

fn slot_key(set: SetName, frontend: Frontend, slot: Slot) -> RowKey {
    match set {
        SetName::LocalBackends => RowKey::LocalBackend(frontend, slot),
        _ => RowKey::Backend(frontend, slot),
    }
}

impl Wishes {
    /// The desired value of `key`.
    pub(crate) fn get(&self, key: &RowKey) -> Option<RowValue> {
        let listed = place(key).and_then(|(list, at)| *self.slots.get(&list)?.get(at)?);
        listed.map(RowValue::Endpoint).or_else(|| self.others.get(key).copied())
    }

    /// Wishes for `value`, and gives what was wished for before.
    pub(crate) fn insert(&mut self, key: RowKey, value: RowValue) -> Option<RowValue> {
        let (Some((list, at)), RowValue::Endpoint(endpoint)) = (place(&key), value) else {
            let before = self.remove(&key);
            self.others.insert(key, value);
            return before;
        };
        if at > self.slots.get(&list).map_or(0, Vec::len) {
            return self.others.insert(key, value);
        }
        let slots = self.slots.entry(list).or_default();
        if at == slots.len() {
            slots.push(None);
        }
        let before = slots.get_mut(at)?.replace(endpoint).map(RowValue::Endpoint);
        self.filled_slots += usize::from(before.is_none());
        before.or_else(|| self.others.remove(&key))
    }

    /// Wishes for nothing, and gives what was wished for before.
    pub(crate) fn remove(&mut self, key: &RowKey) -> Option<RowValue> {
        self.remove_slot(key).or_else(|| self.others.remove(key))
    }

    fn remove_slot(&mut self, key: &RowKey) -> Option<RowValue> {
        let (list, at) = place(key)?;
        let slots = self.slots.get_mut(&list)?;
        let before = slots.get_mut(at)?.take()?;
        self.filled_slots -= 1;
        while matches!(slots.last(), Some(None)) {
            slots.pop();
        }
        if slots.is_empty() {
            self.slots.remove(&list);
        }
        Some(RowValue::Endpoint(before))
    }

    /// All desired rows, in no order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let others = self.others.iter().map(|(key, value)| Row { key: *key, value: *value });
        let slots = self.slots.iter().flat_map(|((set, frontend), slots)| {
            let numbered = (0..).zip(slots);
            numbered.filter_map(|(slot, endpoint)| {
                Some(Row::endpoint(slot_key(*set, *frontend, slot), (*endpoint)?))
            })
        });
        slots.chain(others)
    }

    /// Number of desired rows.
    pub(crate) fn len(&self) -> usize {
        self.filled_slots + self.others.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::frontend::Protocol;
    use crate::rows::Verdict;

    fn key(kind: u8, number: u8, slot: Slot) -> RowKey {
        let address = IpAddr::V4(Ipv4Addr::new(10, 96, 0, number));
        let frontend = Frontend { address, protocol: Protocol::Tcp, port: 80 };
        match kind {
            0 => RowKey::Backend(frontend, slot),
            1 => RowKey::LocalBackend(frontend, slot),
            _ => RowKey::Service(frontend),
        }
    }

    fn value(kind: u8, number: u8) -> RowValue {
        let address = IpAddr::V4(Ipv4Addr::new(10, 244, 0, number));
        if kind < 2 {
            RowValue::Endpoint(Endpoint { address, port: 8080 })
        } else {
            RowValue::Verdict(Verdict::Drop)
        }
    }

    proptest! {
        /// In whatever order slots come and go: it is a map.
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec(
                (0u8..3, 0u8..2, 0u32..6, prop::option::weighted(0.6, 0u8..4)),
                0..60,
            ),
        ) {
            let mut wishes = Wishes::default();
            let mut map = BTreeMap::new();
            for (kind, number, slot, wish) in steps {
                let key = key(kind, number, slot);
                if let Some(value) = wish.map(|number| value(kind, number)) {
                    prop_assert_eq!(wishes.insert(key, value), map.insert(key, value));
                } else {
                    prop_assert_eq!(wishes.remove(&key), map.remove(&key));
                }
                prop_assert_eq!(wishes.get(&key), map.get(&key).copied());
                prop_assert_eq!(wishes.len(), map.len());
                let rows: BTreeMap<_, _> = wishes.rows().map(|row| (row.key, row.value)).collect();
                prop_assert_eq!(&rows, &map);
                prop_assert_eq!(wishes.rows().count(), map.len());
            }
            for key in map.keys() {
                wishes.remove(key);
            }
            prop_assert!(wishes.slots.is_empty(), "nothing is left of frontends without slots");
        }
    }
}
