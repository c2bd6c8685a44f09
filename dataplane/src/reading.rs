//! Reading the kernel beside commits, so that these never wait for it.
//!
//! Such a reading is not of one moment. Three things make it as good as if it were:
//!
//! - While it goes on, the [ledger](crate::ledger) notes what is committed. In what was read, those
//!   rows and chains are replaced by what is known of them: then it is a picture of now.
//! - The kernel goes through a set by counting. When a row before the place that it has reached
//!   comes or goes, it gives another row twice, or leaves one out, although nobody touched that row.
//!   So a pass may lack something, but never has what was never there. Passes are merged.
//! - Enough is read when the picture is what the kernel is known to hold. That is a comparison of two
//!   sums. Or when a pass is exact: then what differs is somebody else's work.
//!
//! In the quiet, or where only values change, one pass does.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::kernel::{KernelError, KernelState, Pass, Reader};
use crate::known::Notes;
use crate::picture::Picture;
use crate::program::Program;
use crate::rows::{Chain, Row};

/// Beside a thousand commits each second, a pass over a hundred thousand rows leaves out some hundred. That
/// the same row is left out of all passes happens in one reading of a million.
const PASSES: u32 = 4;
/// Doubled with each pass: a hash table that grows after a bulk load takes a while.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// A reading that has begun; ends when it is dropped.
#[derive(Debug, Clone)]
pub struct Reading {
    programs: Vec<Program>,
    notes: Arc<Notes>,
}

/// What a [check](Reading::check) has come to.
#[derive(Debug)]
pub enum Finding {
    /// The kernel holds what it is known to hold.
    AsKnown,
    /// It certainly holds something else, namely this.
    Other(Box<Picture>),
    /// It holds something else, or not all of it was found.
    Unsure,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsKnown => "it holds what it should",
            Self::Other(_) => "it holds something else than was written",
            Self::Unsure => "it seems to hold something else than was written",
        })
    }
}

enum Found {
    /// In one pass, as it mostly is: not indexed yet.
    AtOnce(KernelState),
    Merged(Picture),
    Other(Picture),
    Unsure,
}

impl Reading {
    pub(crate) fn new(programs: Vec<Program>, notes: Arc<Notes>) -> Self {
        Self { programs, notes }
    }

    /// Whether the kernel holds what it is known to hold. Takes its time: not for the thread that
    /// commits.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn check(&self, reader: &mut dyn Reader) -> Result<Finding, KernelError> {
        Ok(match self.look(reader)? {
            Found::AtOnce(_) | Found::Merged(_) => Finding::AsKnown,
            Found::Other(picture) => Finding::Other(Box::new(picture)),
            Found::Unsure => Finding::Unsure,
        })
    }

    /// What the kernel holds; nothing if commits come too thick to be sure. Takes its time as well.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn picture(&self, reader: &mut dyn Reader) -> Result<Option<Picture>, KernelError> {
        Ok(match self.look(reader)? {
            Found::AtOnce(state) => Some(state.into()),
            Found::Merged(picture) | Found::Other(picture) => Some(picture),
            Found::Unsure => None,
        })
    }

    /// Goes over the tables until there is no doubt, or often enough.
    fn look(&self, reader: &mut dyn Reader) -> Result<Found, KernelError> {
        reader.expect(&self.programs);
        let first = reader.pass()?;
        if self.is_known(&first.state, first.state.rows().copied()) {
            return Ok(Found::AtOnce(first.state));
        }
        let mut picture = Picture::from(first.state);
        let mut exact = first.exact;
        let mut pause = FIRST_PAUSE;
        for _ in 1..PASSES {
            if exact {
                return Ok(Found::Other(picture));
            }
            thread::sleep(pause);
            pause *= 2;
            let Pass { state, exact: is_exact } = reader.pass()?;
            exact = is_exact;
            if exact {
                picture = state.into();
            } else {
                picture.merge(state);
            }
            if self.is_known(picture.tables(), picture.rows()) {
                return Ok(Found::Merged(picture));
            }
        }
        Ok(if exact { Found::Other(picture) } else { Found::Unsure })
    }

    /// Makes `picture`, which this reading has found, one of now. Cheap; for the thread that commits.
    pub fn amend(&self, picture: &mut Picture) {
        self.notes.lock().amend(picture);
    }

    /// Whether the ledger has read the kernel back since this reading began.
    pub fn is_overtaken(&self) -> bool {
        self.notes.lock().read_back
    }

    /// Whether these tables and rows, amended, are what the kernel is known to hold.
    fn is_known(&self, tables: &KernelState, rows: impl Iterator<Item = Row>) -> bool {
        // Commits do not wait while we count.
        let meanwhile = self.notes.lock().clone();
        let mut sum = meanwhile.sum.empty();
        let untouched = |family| !meanwhile.installed.contains_key(&family);
        for program in &self.programs {
            let family = program.family();
            if !untouched(family) {
                continue;
            }
            let Some(table) = tables.table(family) else { return false };
            let strange = table.strays.iter().any(|stray| !meanwhile.strays.contains(stray));
            if strange || !table.is_whole(program) {
                return false;
            }
            let chains = table.chains.iter().filter(|chain| **chain != Chain::RejectNow);
            let chains = chains.map(|chain| (family, *chain));
            chains.filter(|c| !meanwhile.chains.contains_key(c)).for_each(|c| sum.add(&c));
        }
        let ours = |family| self.programs.iter().any(|program| program.family() == family);
        rows.filter(|row| ours(row.key.family()) && untouched(row.key.family()))
            .filter(|row| !meanwhile.rows.contains_key(&row.key))
            .for_each(|row| sum.add(&row));
        let written =
            meanwhile.rows.iter().filter_map(|(key, v)| Some(Row { key: *key, value: (*v)? }));
        written.for_each(|row| sum.add(&row));
        let made = meanwhile.chains.iter().filter(|(_, exists)| **exists);
        made.for_each(|(chain, _)| sum.add(chain));
        sum.equals(&meanwhile.sum)
    }
}

#[cfg(test)]
mod tests;
