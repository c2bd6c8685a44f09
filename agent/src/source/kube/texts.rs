//! Texts that many objects share: names of nodes, zones, namespaces, ports. 100,000 endpoints name
//! a few thousand nodes; each is kept once.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::model::{Slice, SliceEndpoint};

/// Texts are not looked through for unused ones before there are this many.
const FEW: usize = 4_096;

/// Every text in use, once.
#[derive(Debug)]
pub(super) struct Texts {
    known: FxHashSet<Arc<str>>,
    sweep_at: usize,
}

impl Default for Texts {
    fn default() -> Self {
        Self { known: FxHashSet::default(), sweep_at: FEW }
    }
}

impl Texts {
    /// Lets a slice share what it has in common with others.
    pub(super) fn share_in(&mut self, slice: &mut Slice) {
        self.share(&mut slice.name.namespace);
        slice.service.namespace = Arc::clone(&slice.name.namespace);
        self.share(&mut slice.service.name);
        for port in &mut slice.ports {
            self.share(&mut port.name);
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
        nodes.chain(zones).chain(regions).for_each(|text| self.share(text));
        if let Some(hints) = hints {
            let nodes = hints.nodes.iter_mut().map(|node| &mut node.0);
            let zones = hints.zones.iter_mut().map(|zone| &mut zone.0);
            nodes.chain(zones).for_each(|text| self.share(text));
        }
    }

    fn share(&mut self, text: &mut Arc<str>) {
        if let Some(known) = self.known.get(&**text) {
            *text = Arc::clone(known);
            return;
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = (self.known.len() * 2).max(FEW);
        }
        self.known.insert(Arc::clone(text));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn equal_texts_become_one_and_unused_ones_go() {
        let mut texts = Texts::default();
        let (mut a, mut b): (Arc<str>, Arc<str>) = ("zone".into(), "zone".into());
        texts.share(&mut a);
        texts.share(&mut b);
        assert!(Arc::ptr_eq(&a, &b));
        for i in 0..100_000 {
            texts.share(&mut i.to_string().into());
        }
        assert!(texts.known.len() <= FEW, "{}", texts.known.len());
        assert!(texts.known.contains("zone"));
    }
}
