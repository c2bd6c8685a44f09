//! Reading back: what there is in the kernel, not what we wrote. Dumps are taken again until they
//! are of a single moment; those that are taken beside commits are only graded.

use std::io;
use std::thread;
use std::time::Duration;

use nix::libc::ENOENT;

use super::dump::{Clients, Reading, ask, current_generation, each_element};
use super::element as elements;
use super::number::{element, family_number, flag, message};
use super::socket::{Channel, DumpEnd};
use super::wire::Buffer;
use crate::frontend::Family;
use crate::kernel::{KernelError, KernelState, Pass, TableState};
use crate::program::{Program, TABLE};
use crate::rows::{AffinityRow, RowKey, RowValue};

const ATTEMPTS: u32 = 8;
/// How often clients are read beside commits.
const CLIENT_PASSES: u32 = 2;
/// Doubled with each attempt: a hash table that grows after a bulk load takes a while.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Both tables.
pub(super) fn state(
    channel: &mut Channel,
    programs: &[Program; 2],
) -> Result<KernelState, KernelError> {
    until_whole(channel, KernelState::eq, |reading| reading.tables(programs))
}

/// Both tables in a single pass, whatever is committed meanwhile.
pub(super) fn pass(channel: &mut Channel, programs: &[Program; 2]) -> Result<Pass, KernelError> {
    let (state, grade) = attempt(channel, |reading| reading.tables(programs))?;
    Ok(Pass { state, exact: grade.is_exact() })
}

/// The remembered clients of one table; none if there is no table.
pub(super) fn affinity(
    channel: &mut Channel,
    family: Family,
) -> Result<Vec<AffinityRow>, KernelError> {
    // Only their time runs on.
    let is_same = |before: &Vec<AffinityRow>, now: &Vec<AffinityRow>| {
        let without_time = |row: &AffinityRow| AffinityRow { expires_ms: 0, ..*row };
        before.iter().map(without_time).eq(now.iter().map(without_time))
    };
    until_whole(channel, is_same, |reading| Ok(reading.clients(family)?.into_values().collect()))
}

/// The same beside commits. Who is passed over once is hardly so again: the passes are taken together.
pub(super) fn affinity_beside(
    channel: &mut Channel,
    family: Family,
) -> Result<Vec<AffinityRow>, KernelError> {
    let mut rows = Clients::new();
    for _ in 0..CLIENT_PASSES {
        let (found, grade) = attempt(channel, |reading| reading.clients(family))?;
        rows.extend(found);
        if grade.is_exact() {
            break;
        }
    }
    Ok(rows.into_values().collect())
}

/// The value of a single row, or `None`.
pub(super) fn single(channel: &mut Channel, key: &RowKey) -> Result<Option<RowValue>, KernelError> {
    let family = key.family();
    if let RowKey::ServiceCidr(_) = key {
        // The kernel answers with whatever network holds the address; there are only a few.
        let state = until_whole(channel, TableState::eq, |reading| {
            let mut state = TableState::default();
            reading.networks(family, &mut state)?;
            Ok(state)
        })?;
        return Ok(state.rows.iter().find(|row| row.key == *key).map(|row| row.value));
    }
    let mut found = None;
    let write = |out: &mut Buffer| {
        out.text(element::LIST_TABLE, TABLE);
        out.text(element::LIST_SET, key.set());
        let list = out.begin(element::LIST_ELEMENTS);
        elements::put_row_key(out, key);
        out.end(list);
    };
    let number = family_number(family);
    let end = ask(channel, message::GET_ELEMENTS, flag::ACK, number, write, |answer| {
        each_element(answer.attributes(), |received| {
            let row = received.row(family, key.set()).filter(|row| row.key == *key);
            found = row.map(|row| row.value);
        });
    })?;
    match end {
        DumpEnd::Refused(ENOENT) => Ok(None),
        DumpEnd::Refused(errno) => Err(io::Error::from_raw_os_error(errno).into()),
        DumpEnd::Whole | DumpEnd::Interrupted => Ok(found),
    }
}

/// Reads until nothing changed meanwhile, or until two readings in a row say the same: on a node where
/// something else commits all the time, that has to be good enough.
///
/// That the kernel does not call a dump interrupted is no proof: it looks only between the datagrams
/// of a dump, each of which holds hundreds of elements.
fn until_whole<T>(
    channel: &mut Channel,
    is_same: impl Fn(&T, &T) -> bool,
    mut read: impl FnMut(&mut Reading<'_>) -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let mut pause = FIRST_PAUSE;
    let mut before = None;
    for number in 1..=ATTEMPTS {
        let (result, grade) = attempt(channel, &mut read)?;
        let again = before.as_ref().is_some_and(|before| is_same(before, &result));
        // A count that stays wrong is the kernel's way of counting, not ours.
        let is_settled = again && (!grade.doubtful || number == ATTEMPTS);
        if grade.is_exact() || !grade.torn && is_settled {
            return Ok(result);
        }
        tracing::debug!(attempt = number, ?grade, "reading the tables once more");
        before = Some(result).filter(|_| !grade.torn);
        thread::sleep(pause);
        pause *= 2;
    }
    Err(KernelError::Torn(ATTEMPTS))
}

/// How far one attempt can be trusted.
#[derive(Debug, Clone, Copy)]
struct Grade {
    /// It is of more than one moment.
    torn: bool,
    /// The kernel counts otherwise than we do.
    doubtful: bool,
    /// Nobody committed anything meanwhile.
    undisturbed: bool,
}

impl Grade {
    fn is_exact(self) -> bool {
        self.undisturbed && !self.torn && !self.doubtful
    }
}

fn attempt<T>(
    channel: &mut Channel,
    read: impl FnOnce(&mut Reading<'_>) -> Result<T, KernelError>,
) -> Result<(T, Grade), KernelError> {
    let generation = current_generation(channel)?;
    let mut reading = Reading { channel: &mut *channel, torn: false, doubtful: false };
    let result = read(&mut reading)?;
    let Reading { torn, doubtful, .. } = reading;
    let undisturbed = generation == current_generation(channel)?;
    Ok((result, Grade { torn, doubtful, undisturbed }))
}
