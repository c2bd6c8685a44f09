//! `sliceproxy demo`: a cluster made of network namespaces, real connections through it, and what
//! a change costs. Needs no cluster, leaves nothing behind.

mod cluster;
mod figures;
mod interrupt;
mod measure;
mod page;
mod picture;
mod story;
mod words;

use std::io;

use sliceproxy_dataplane::frontend::Frontend;
use sliceproxy_dataplane::kernel::KernelError;

use crate::engine::SyncError;
use crate::lab::{self, LabError, Privilege};
use page::Page;

/// Why the demo did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The namespaces could not be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The kernel could not be opened.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel would not take the rows.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// Something was reached that should not have been, or was not.
    #[error("connections to {frontend} of {service}: expected {expected}, got {got}")]
    Astray {
        /// The Service.
        service: &'static str,
        /// Where the connections went.
        frontend: Frontend,
        /// Which pods should have answered.
        expected: String,
        /// Which ones did.
        got: String,
    },
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Runs the demo to its end.
///
/// Must be called before the process starts threads: without root it enters a user namespace,
/// which only a process with a single thread may do.
///
/// # Errors
/// See [`DemoError`]. A reader that has gone away is no error.
pub fn run() -> Result<(), DemoError> {
    let privilege = lab::obtain_privilege()?;
    interrupt::end_on_signals()?;
    let mut page = Page::stdout();
    match story::tell(&mut page, privilege == Privilege::Root) {
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
