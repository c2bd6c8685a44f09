//! Everything that one file says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::object::{Meaning, Object, Piece};
use super::{Finding, Place};
use crate::model::ObjectName;

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Objects of the kinds that we know, in the file's order.
    pub(super) entries: Vec<Entry>,
    /// What is wrong with them.
    pub(super) findings: Vec<Finding>,
    /// How many objects of which other kinds.
    pub(super) ignored: BTreeMap<String, usize>,
}

/// An object of a kind that we know.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) name: ObjectName,
    pub(super) object: Object,
}

impl Contents {
    pub(super) fn new(file: &Arc<Path>, pieces: Vec<Piece>) -> Self {
        let mut contents = Self::default();
        for piece in pieces {
            contents.add(file, piece);
        }
        contents
    }

    fn add(&mut self, file: &Arc<Path>, piece: Piece) {
        let place = Place { file: Arc::clone(file), position: piece.position };
        let rejections = piece.rejections.into_iter();
        self.findings
            .extend(rejections.map(|rejection| Finding { place: place.clone(), rejection }));
        match piece.meaning {
            Meaning::Known(name, object) => self.entries.push(Entry { place, name, object }),
            Meaning::Other(kind) => *self.ignored.entry(kind).or_default() += 1,
            Meaning::Unusable | Meaning::Kindless(_) => {}
        }
    }

    /// Whether there was not a single object in the file.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.findings.is_empty() && self.ignored.is_empty()
    }
}
