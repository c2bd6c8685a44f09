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
    /// How many faults there are beyond those.
    pub(super) untold: usize,
    /// How many objects of which other kinds.
    pub(super) ignored: BTreeMap<String, usize>,
    /// Whether the last object seems to be half-written.
    pub(super) unfinished: bool,
}

/// Most faults of a file that are kept.
const MAX_FINDINGS: usize = 1_000;

/// Most other kinds that are told apart.
const MAX_KINDS: usize = 100;

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
        for fault in piece.faults {
            if self.findings.len() == MAX_FINDINGS {
                self.untold += 1;
                continue;
            }
            let place = Place { position: fault.position.or(piece.position), ..place.clone() };
            self.findings.push(Finding { place, rejection: fault.rejection });
        }
        match piece.meaning {
            Meaning::Known(name, object) => self.entries.push(Entry { place, name, object }),
            Meaning::Other(kind) => self.ignore(kind),
            Meaning::Unusable | Meaning::Kindless(_) => {}
        }
    }

    fn ignore(&mut self, kind: String) {
        let full = self.ignored.len() >= MAX_KINDS && !self.ignored.contains_key(&kind);
        let kind = if full { "others".to_owned() } else { kind };
        *self.ignored.entry(kind).or_default() += 1;
    }

    /// Whether the file holds nothing that we could use.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
