//! Which chains desired rows point at, and how many do.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::frontend::Family;
use crate::rows::{Chain, RowValue, Verdict};

/// Counts of desired rows by the chain that they point at.
#[derive(Debug, Default)]
pub(crate) struct ChainUses {
    uses: FxHashMap<(Family, Chain), u32>,
    /// The same by number of endpoints.
    counts: BTreeMap<(Family, u32), u32>,
}

impl ChainUses {
    /// A row of `family` that said `before` says `after` now.
    pub(crate) fn replace(
        &mut self,
        family: Family,
        before: Option<RowValue>,
        after: Option<RowValue>,
    ) {
        if let Some(RowValue::Verdict(Verdict::Goto(chain))) = after {
            *self.uses.entry((family, chain)).or_default() += 1;
            if let Some(n) = chain.endpoints() {
                *self.counts.entry((family, n)).or_default() += 1;
            }
        }
        if let Some(RowValue::Verdict(Verdict::Goto(chain))) = before
            && let Some(uses) = self.uses.get_mut(&(family, chain))
        {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&(family, chain));
            }
            if let Some(n) = chain.endpoints()
                && let Some(uses) = self.counts.get_mut(&(family, n))
            {
                *uses -= 1;
                if *uses == 0 {
                    self.counts.remove(&(family, n));
                }
            }
        }
    }

    /// See [`crate::ledger::Ledger::affordable`].
    pub(crate) fn affordable(&self, family: Family, n: u32, most: u32) -> u32 {
        let mut upwards = self.counts.range((family, 0)..=(family, u32::MAX));
        let beyond = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(1);
        if n <= 1 || self.counts.contains_key(&(family, n)) || upwards.nth(beyond).is_none() {
            return n;
        }
        self.counts.range((family, 1)..(family, n)).next_back().map_or(1, |((_, used), _)| *used)
    }

    /// All chains that a row points at, in no order.
    pub(crate) fn chains(&self) -> impl Iterator<Item = (Family, Chain)> + '_ {
        self.uses.keys().copied()
    }
}

/// The chain that `chain` goes to when it finds nothing.
pub(crate) fn fallback(chain: Chain) -> Option<Chain> {
    match chain {
        Chain::Sticky(n) => Some(Chain::Pick(n)),
        Chain::LocalSticky(n) => Some(Chain::LocalPick(n)),
        _ => None,
    }
}

/// The chain and what it goes to; nothing for a chain of the fixed program.
pub(crate) fn with_fallback(family: Family, chain: Chain) -> impl Iterator<Item = (Family, Chain)> {
    let own = (chain != Chain::RejectNow).then_some(chain);
    own.into_iter().chain(fallback(chain)).map(move |chain| (family, chain))
}
