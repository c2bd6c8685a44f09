//! Stable, dense numbering of the endpoints of a frontend.
//!
//! `pick-N` chooses one of N slots, so slots run from 0 to N-1 without gaps. An endpoint keeps its
//! slot while it stays; a hole is filled by a newcomer if there is one, else by the last endpoint.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::frontend::Endpoint;
use crate::rows::Slot;

/// What slots hold after an update, for each slot that changed: its endpoint, or nothing.
pub type SlotChanges = BTreeMap<Slot, Option<Endpoint>>;

/// Up to so many endpoints are looked through one by one, which takes no longer than hashing.
const FEW: usize = 32;

/// Endpoints with their slots.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    endpoints: Vec<Endpoint>,
    /// Kept from the time that there are more than [`FEW`].
    positions: Option<FxHashMap<Endpoint, Slot>>,
}

impl Slots {
    /// Number of endpoints, which is also the number of slots.
    pub fn len(&self) -> u32 {
        // A slot is 32 bits wide in the kernel; four thousand million endpoints do not fit in memory.
        u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX)
    }

    /// Whether there is no endpoint.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Whether `endpoint` has a slot.
    pub fn contains(&self, endpoint: &Endpoint) -> bool {
        self.position(endpoint).is_some()
    }

    fn position(&self, endpoint: &Endpoint) -> Option<Slot> {
        match &self.positions {
            Some(positions) => positions.get(endpoint).copied(),
            None => self.iter().find(|(_, known)| known == endpoint).map(|(slot, _)| slot),
        }
    }

    /// All endpoints in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, Endpoint)> + '_ {
        (0..).zip(self.endpoints.iter().copied())
    }

    /// Takes `gone` out and `come` in, touching as few slots as that allows: unknown ones in `gone`
    /// and known ones in `come` are passed over. Returns the slots that changed.
    ///
    /// An endpoint that is both in `gone` and in `come` keeps its slot.
    pub fn update(
        &mut self,
        gone: impl IntoIterator<Item = Endpoint>,
        come: impl IntoIterator<Item = Endpoint>,
    ) -> SlotChanges {
        let mut changes = SlotChanges::new();
        let mut gone: FxHashSet<Endpoint> =
            gone.into_iter().filter(|endpoint| self.contains(endpoint)).collect();
        let mut newcomers: Vec<Endpoint> = come
            .into_iter()
            .filter(|endpoint| !gone.remove(endpoint) && !self.contains(endpoint))
            .collect();
        let mut holes: BTreeSet<Slot> =
            gone.iter().filter_map(|endpoint| self.position(endpoint)).collect();
        if let Some(positions) = &mut self.positions {
            for endpoint in &gone {
                positions.remove(endpoint);
            }
        }
        newcomers.sort_unstable();
        newcomers.dedup();
        let mut newcomers = newcomers.into_iter();
        while !holes.is_empty()
            && let Some(endpoint) = newcomers.next()
            && let Some(slot) = holes.pop_first()
        {
            self.set(slot, endpoint, &mut changes);
        }
        for endpoint in newcomers {
            let slot = self.len();
            self.endpoints.push(endpoint);
            self.set(slot, endpoint, &mut changes);
        }
        self.close(holes, &mut changes);
        changes
    }

    /// Fills the remaining holes from the end.
    fn close(&mut self, mut holes: BTreeSet<Slot>, changes: &mut SlotChanges) {
        while let Some(slot) = holes.pop_first() {
            // The last slots may be holes themselves: those just end.
            while let Some(last) = self.len().checked_sub(1) {
                if !holes.remove(&last) {
                    break;
                }
                self.endpoints.pop();
                changes.insert(last, None);
            }
            let last = self.len().saturating_sub(1);
            let Some(moved) = self.endpoints.pop() else { break };
            changes.insert(last, None);
            if last != slot {
                self.set(slot, moved, changes);
            }
        }
    }

    fn set(&mut self, slot: Slot, endpoint: Endpoint, changes: &mut SlotChanges) {
        if let Some(place) = self.endpoints.get_mut(slot as usize) {
            *place = endpoint;
        }
        if let Some(positions) = &mut self.positions {
            positions.insert(endpoint, slot);
        } else if self.endpoints.len() > FEW {
            self.positions = Some(self.iter().map(|(slot, endpoint)| (endpoint, slot)).collect());
        }
        changes.insert(slot, Some(endpoint));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    fn endpoint(number: u8) -> Endpoint {
        Endpoint { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)), port: 80 }
    }

    fn endpoints(numbers: &[u8]) -> Vec<Endpoint> {
        numbers.iter().copied().map(endpoint).collect()
    }

    #[test]
    fn a_replaced_endpoint_changes_one_slot() {
        let mut slots = Slots::default();
        slots.update([], endpoints(&[1, 2, 3]));
        let changes = slots.update([endpoint(2)], [endpoint(9)]);
        assert_eq!(changes, SlotChanges::from([(1, Some(endpoint(9)))]));
    }

    #[test]
    fn a_hole_is_filled_by_the_last() {
        let mut slots = Slots::default();
        slots.update([], endpoints(&[1, 2, 3]));
        let changes = slots.update([endpoint(1)], []);
        assert_eq!(changes, SlotChanges::from([(0, Some(endpoint(3))), (2, None)]));
        assert_eq!(slots.len(), 2);
    }

    #[test]
    fn the_last_one_leaves_without_a_move() {
        let mut slots = Slots::default();
        slots.update([], endpoints(&[1, 2, 3]));
        assert_eq!(slots.update([endpoint(3)], []), SlotChanges::from([(2, None)]));
    }

    #[test]
    fn gone_and_come_at_once_is_no_change() {
        let mut slots = Slots::default();
        slots.update([], endpoints(&[1, 2, 3]));
        assert_eq!(slots.update([endpoint(2)], [endpoint(2)]), SlotChanges::new());
        assert_eq!(slots.len(), 3);
    }

    proptest! {
        /// Dense, complete, and the reported changes turn the old slots into the new ones.
        #[test]
        fn slots_stay_dense_and_changes_are_complete(
            steps in prop::collection::vec(
                (prop::collection::vec(0u8..60, 0..30), prop::collection::vec(0u8..60, 0..30)),
                1..12,
            )
        ) {
            let mut slots = Slots::default();
            let mut expected: BTreeSet<Endpoint> = BTreeSet::new();
            let mut mirror: BTreeMap<Slot, Endpoint> = BTreeMap::new();
            for (gone, come) in steps {
                let before: BTreeMap<Endpoint, Slot> = slots.iter().map(|(s, e)| (e, s)).collect();
                for number in &gone { expected.remove(&endpoint(*number)); }
                for number in &come { expected.insert(endpoint(*number)); }
                let changes = slots.update(endpoints(&gone), endpoints(&come));
                for (slot, value) in &changes {
                    match value {
                        Some(endpoint) => { mirror.insert(*slot, *endpoint); }
                        None => { mirror.remove(slot); }
                    }
                }
                let now: BTreeMap<Slot, Endpoint> = slots.iter().collect();
                prop_assert_eq!(&now, &mirror);
                prop_assert_eq!(now.values().copied().collect::<BTreeSet<_>>(), expected.clone());
                prop_assert_eq!(now.len(), expected.len());
                prop_assert!(now.keys().copied().eq(0..slots.len()));
                // Whoever stays and is below the new end keeps the slot.
                for (endpoint, slot) in before {
                    if expected.contains(&endpoint) && slot < slots.len() {
                        prop_assert_eq!(now.get(&slot), Some(&endpoint));
                    }
                }
            }
        }
    }
}
