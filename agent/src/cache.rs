//! The incremental cache: every slice as it was last seen, and which slices each Service has.
//!
//! It knows nothing of selection or rows. An event replaces exactly one slice; what comes out is the
//! old and the new one, so that whoever uses them can do the difference, also when a slice moves
//! from one Service to another.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::model::{Service, ServiceName, Slice, SliceName};

/// A slice before and after an event; at least one is there.
#[derive(Debug, Clone)]
pub struct SliceChange {
    /// As it was.
    pub old: Option<Arc<Slice>>,
    /// As it is.
    pub new: Option<Arc<Slice>>,
}

impl SliceChange {
    /// The Services concerned: one, or two if the slice moved.
    pub fn services(&self) -> impl Iterator<Item = &ServiceName> {
        let old = self.old.as_ref().map(|slice| &slice.service);
        let new = self.new.as_ref().map(|slice| &slice.service);
        old.into_iter().chain(new.filter(|new| old != Some(*new)))
    }
}

/// Services and slices as last seen.
#[derive(Debug, Default)]
pub struct Cache {
    services: FxHashMap<ServiceName, Arc<Service>>,
    slices: FxHashMap<SliceName, Arc<Slice>>,
    /// Sorted by name.
    by_service: FxHashMap<ServiceName, SmallVec<[Arc<Slice>; 1]>>,
}

impl Cache {
    /// Takes `new` for the slice of its name. `None` if that changes nothing.
    pub fn put_slice(&mut self, new: Arc<Slice>) -> Option<SliceChange> {
        let old = self.slices.get(&new.name).cloned();
        if old.as_ref() == Some(&new) {
            return None;
        }
        if let Some(old) = old.as_ref().filter(|old| old.service != new.service) {
            self.detach(old);
        }
        self.slices.insert(new.name.clone(), Arc::clone(&new));
        let slices = self.by_service.entry(new.service.clone()).or_default();
        match place(slices, &new.name) {
            Ok(place) => slices[place] = Arc::clone(&new),
            Err(place) => slices.insert(place, Arc::clone(&new)),
        }
        Some(SliceChange { old, new: Some(new) })
    }

    /// Forgets the slice of that name. `None` if it was not known.
    pub fn remove_slice(&mut self, name: &SliceName) -> Option<SliceChange> {
        let old = self.slices.remove(name)?;
        self.detach(&old);
        Some(SliceChange { old: Some(old), new: None })
    }

    fn detach(&mut self, slice: &Slice) {
        if let Some(slices) = self.by_service.get_mut(&slice.service) {
            if let Ok(place) = place(slices, &slice.name) {
                slices.remove(place);
            }
            if slices.is_empty() {
                self.by_service.remove(&slice.service);
            }
        }
    }

    /// Names of known slices that are not in `listed`.
    pub fn slices_missing_in(&self, listed: &[Arc<Slice>]) -> Vec<SliceName> {
        let listed: FxHashSet<&SliceName> = listed.iter().map(|slice| &slice.name).collect();
        self.slices.keys().filter(|name| !listed.contains(name)).cloned().collect()
    }

    /// Takes `new` for the Service of its name, and gives the old one. `Err` if nothing changed.
    pub fn put_service(&mut self, new: Arc<Service>) -> Result<Option<Arc<Service>>, Unchanged> {
        if self.services.get(&new.name) == Some(&new) {
            return Err(Unchanged);
        }
        Ok(self.services.insert(new.name.clone(), new))
    }

    /// Forgets the Service of that name; its slices stay known.
    pub fn remove_service(&mut self, name: &ServiceName) -> Option<Arc<Service>> {
        self.services.remove(name)
    }

    /// Names of known Services that are not in `listed`.
    pub fn services_missing_in(&self, listed: &[Arc<Service>]) -> Vec<ServiceName> {
        let listed: FxHashSet<&ServiceName> = listed.iter().map(|service| &service.name).collect();
        self.services.keys().filter(|name| !listed.contains(name)).cloned().collect()
    }

    /// The Service of that name.
    pub fn service(&self, name: &ServiceName) -> Option<&Arc<Service>> {
        self.services.get(name)
    }

    /// All Services, in no order.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.values()
    }

    /// All slices, in no order.
    pub fn slices(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.slices.values()
    }

    /// The slices of a Service, by name; also of one that is not known (yet).
    pub fn slices_of(&self, service: &ServiceName) -> impl Iterator<Item = &Arc<Slice>> {
        self.by_service.get(service).into_iter().flatten()
    }
}

/// Where the slice of that name is, or has to be put.
fn place(slices: &[Arc<Slice>], name: &SliceName) -> Result<usize, usize> {
    slices.binary_search_by(|slice| slice.name.cmp(name))
}

/// An object was delivered again as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unchanged;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use sliceproxy_dataplane::frontend::Family;

    use super::*;
    use crate::model::ObjectName;

    fn slice(name: &str, service: &str) -> Arc<Slice> {
        Arc::new(Slice {
            name: ObjectName::new("shop", name),
            service: ObjectName::new("shop", service),
            family: Family::V4,
            ports: vec![],
            endpoints: vec![],
            trigger_time: None,
        })
    }

    fn names(cache: &Cache, service: &str) -> Vec<String> {
        let service = ObjectName::new("shop", service);
        cache.slices_of(&service).map(|slice| slice.name.to_string()).collect()
    }

    #[test]
    fn a_slice_whose_label_moves_leaves_its_old_service() {
        let mut cache = Cache::default();
        cache.put_slice(slice("s1", "a"));
        let change = cache.put_slice(slice("s1", "b")).unwrap();
        assert_eq!(change.services().count(), 2);
        assert!(names(&cache, "a").is_empty());
        assert_eq!(names(&cache, "b"), ["shop/s1"]);
    }

    #[test]
    fn deleting_one_of_several_slices_keeps_the_others() {
        let mut cache = Cache::default();
        for name in ["s1", "s2", "s3"] {
            cache.put_slice(slice(name, "a"));
        }
        assert!(cache.remove_slice(&ObjectName::new("shop", "s2")).is_some());
        assert!(cache.remove_slice(&ObjectName::new("shop", "s2")).is_none());
        assert_eq!(names(&cache, "a"), ["shop/s1", "shop/s3"]);
    }

    #[test]
    fn an_identical_slice_is_no_change() {
        let mut cache = Cache::default();
        assert!(cache.put_slice(slice("s1", "a")).is_some());
        assert!(cache.put_slice(slice("s1", "a")).is_none());
    }
}
