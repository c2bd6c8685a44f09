//! The thread that reads the kernel, so that the engine's never has to wait for that. One reading at a
//! time: the kernel would not be faster with more.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use sliceproxy_dataplane::kernel::Reader;

/// Something that takes a look at the kernel.
pub(super) type Job = Box<dyn FnOnce(&mut dyn Reader) + Send>;

/// Starts the thread. It ends when the sender is gone.
pub(super) fn start(mut reader: Box<dyn Reader>) -> io::Result<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    let work = move || jobs.into_iter().for_each(|job| job(&mut *reader));
    thread::Builder::new().name("reader".to_owned()).spawn(work)?;
    Ok(sender)
}
