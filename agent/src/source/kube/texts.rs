//! What many objects share: names of nodes, zones, namespaces and ports, and hints. 100,000 endpoints
//! name a few thousand nodes; each is kept once.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::model::{Hints, Slice, SliceEndpoint};

/// Values are not looked through for unused ones before there are this many.
const FEW: usize = 4_096;

/// Every text and all hints in use, once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    texts: Known<str>,
    hints: Known<Hints>,
}

impl Texts {
    /// Lets a slice share what it has in common with others.
    pub(super) fn share_in(&mut self, slice: &mut Slice) {
        self.texts.share(&mut slice.name.namespace);
        slice.service.namespace = Arc::clone(&slice.name.namespace);
        self.texts.share(&mut slice.service.name);
        for port in &mut slice.ports {
            self.texts.share(&mut port.name);
        }
        for endpoint in &mut slice.endpoints {
            self.share_in_endpoint(endpoint);
        }
    }

    fn share_in_endpoint(&mut self, endpoint: &mut SliceEndpoint) {
        let SliceEndpoint { node, zone, region, hints, .. } = endpoint;
        let nodes = node.iter_mut().map(|node| &mut node.0);
        let zones = zone.iter_mut().map(|zone| &mut zone.0);
        let regions = region.iter_mut().map(|region| &mut region.0);
        nodes.chain(zones).chain(regions).for_each(|text| self.texts.share(text));
        if let Some(hints) = hints {
            self.hints.share(hints);
        }
    }
}

/// Every value in use, once.
#[derive(Debug)]
struct Known<T: ?Sized> {
    values: FxHashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Known<T> {
    fn default() -> Self {
        Self { values: FxHashSet::default(), sweep_at: FEW }
    }
}

impl<T: Eq + Hash + ?Sized> Known<T> {
    fn share(&mut self, value: &mut Arc<T>) {
        if let Some(known) = self.values.get(&**value) {
            *value = Arc::clone(known);
            return;
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = (self.values.len() * 2).max(FEW);
        }
        self.values.insert(Arc::clone(value));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn equal_texts_become_one_and_unused_ones_go() {
        let mut texts = Known::default();
        let (mut a, mut b): (Arc<str>, Arc<str>) = ("zone".into(), "zone".into());
        texts.share(&mut a);
        texts.share(&mut b);
        assert!(Arc::ptr_eq(&a, &b));
        for i in 0..100_000 {
            texts.share(&mut i.to_string().into());
        }
        assert!(texts.values.len() <= FEW, "{}", texts.values.len());
        assert!(texts.values.contains("zone"));
    }
}
