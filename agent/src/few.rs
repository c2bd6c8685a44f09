//! A sorted set that usually has one member, and then needs no memory of its own.

use smallvec::SmallVec;

/// A small sorted set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Few<T>(SmallVec<[T; 1]>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<T: Ord> Few<T> {
    /// Puts `member` in its place, unless it is there.
    pub fn insert(&mut self, member: T) {
        if let Err(place) = self.0.binary_search(&member) {
            self.0.insert(place, member);
        }
    }

    /// Takes `member` out, if it is there.
    pub fn remove(&mut self, member: &T) {
        if let Ok(place) = self.0.binary_search(member) {
            self.0.remove(place);
        }
    }

    /// Whether `member` is there.
    pub fn contains(&self, member: &T) -> bool {
        self.0.binary_search(member).is_ok()
    }

    /// The least member.
    pub fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// All members, sorted.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a, T: Ord> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u8..8), 0..40)) {
            let (mut few, mut set) = (Few::default(), BTreeSet::new());
            for (insert, number) in steps {
                if insert {
                    few.insert(number);
                    set.insert(number);
                } else {
                    few.remove(&number);
                    set.remove(&number);
                }
                prop_assert!(few.iter().eq(set.iter()));
                prop_assert_eq!(few.first(), set.first());
                prop_assert_eq!(few.contains(&number), set.contains(&number));
                prop_assert_eq!(few.is_empty(), set.is_empty());
            }
        }
    }
}
