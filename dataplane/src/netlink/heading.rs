//! A table without what it holds, and who keeps it for himself.

use std::fs;

use super::dump::ask;
use super::layout::comment_in;
use super::number::{family_number, flag, message, table};
use super::socket::{Channel, DumpEnd};
use crate::frontend::Family;
use crate::kernel::KernelError;
use crate::program::TABLE;

/// What a table says of itself.
#[derive(Debug)]
pub(super) struct Heading {
    /// Empty if it has none.
    pub(super) comment: String,
    /// Whether the kernel passes it over.
    pub(super) dormant: bool,
    /// The number of the socket that holds it.
    owner: Option<u32>,
}

/// The heading of our table, if there is one, and how the answer ended.
pub(super) fn read(
    channel: &mut Channel,
    family: Family,
) -> Result<(Option<Heading>, DumpEnd), KernelError> {
    let mut found = None;
    let number = family_number(family);
    let end = ask(
        channel,
        message::GET_TABLE,
        flag::ACK,
        number,
        |out| out.text(table::NAME, TABLE),
        |answer| {
            let attributes = answer.attributes();
            let data = attributes.find(table::USER_DATA);
            let comment = data.and_then(|data| comment_in(data.value)).unwrap_or_default();
            let flags = attributes.find(table::FLAGS).and_then(|flags| flags.number());
            found = Some(Heading {
                comment: comment.to_owned(),
                dormant: flags.is_some_and(|flags| flags & table::DORMANT != 0),
                owner: attributes.find(table::OWNER).and_then(|owner| owner.number()),
            });
        },
    )?;
    Ok((found, end))
}

/// Where the kernel said that we may not: the same is said of missing rights and of a table that
/// somebody holds.
pub(super) fn without_rights(channel: &mut Channel) -> KernelError {
    let held = Family::ALL.into_iter().find_map(|family| {
        let (heading, _) = read(channel, family).ok()?;
        Some(KernelError::Held { family, holder: process_of(heading?.owner?) })
    });
    held.unwrap_or(KernelError::Permission)
}

/// The process behind a netlink socket: the first socket of a process has its number.
fn process_of(socket: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{socket}/comm"));
    name.map_or_else(
        |_| format!("the process behind netlink socket {socket}"),
        |name| format!("process {socket} ({})", name.trim().escape_debug()),
    )
}
