//! Tables of others, removed on request: what another proxy left behind.

use nix::libc::ENOENT;

use super::NetlinkKernel;
use super::number::{SUBSYSTEM, family_number, flag, message, table};
use super::socket::DumpEnd;
use super::wire::Buffer;
use crate::frontend::Family;
use crate::kernel::KernelError;

impl NetlinkKernel {
    /// Removes the table of that name with all that it holds; says whether there was one.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn remove_table(&mut self, family: Family, name: &str) -> Result<bool, KernelError> {
        let sequence = self.channel.next_sequence();
        let mut batch = Buffer::default();
        // One sequence number for all: whatever is refused, it is this removal.
        let frame = |batch: &mut Buffer, kind| {
            let start = batch.begin_message(kind, flag::REQUEST, sequence, 0, SUBSYSTEM);
            batch.end_message(start);
        };
        frame(&mut batch, message::BATCH_BEGIN);
        let start = batch.begin_message(
            SUBSYSTEM << 8 | message::DELETE_TABLE,
            flag::REQUEST | flag::ACK,
            sequence,
            family_number(family),
            0,
        );
        batch.text(table::NAME, name);
        batch.end_message(start);
        frame(&mut batch, message::BATCH_END);
        match self.channel.ask(&batch, |_| Ok(()))? {
            DumpEnd::Whole => Ok(true),
            DumpEnd::Refused(ENOENT) => Ok(false),
            DumpEnd::Refused(errno) => Err(std::io::Error::from_raw_os_error(errno).into()),
            DumpEnd::Interrupted => {
                Err(KernelError::Protocol("the removal of a table was interrupted".into()))
            }
        }
    }
}
