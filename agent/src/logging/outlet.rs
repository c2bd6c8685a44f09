//! Between the program and a reader of its log that may be slow, or have stopped reading: whoever
//! has a line to say never waits. What the reader is too slow for is lost, and counted.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Bytes that may wait for the reader; as much again may be on its way to it.
const ROOM: usize = 1024 * 1024;

/// Pause where the other end takes nothing now and does not let us wait for it: somebody who shares
/// it has made it so.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes lines, which a thread of its own writes. Clones are the same outlet.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    room: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Lines that found no room since the thread last took those that wait.
    lost: u64,
    /// Whether the thread is writing what it took.
    writing: bool,
}

impl Outlet {
    /// Lines go to `out`. `tell_lost` is called with the number of lost lines, and may log.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        tell_lost: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        Self::with_room(ROOM, out, tell_lost)
    }

    fn with_room(
        room: usize,
        mut out: impl Write + Send + 'static,
        tell_lost: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), room };
        let outlet = Self { shared: Arc::new(shared) };
        let its = outlet.clone();
        // It ends with the process, which does not wait for a reader that has stopped reading.
        thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                let (lines, lost) = its.take();
                // There is room now, and what follows in the log comes after it.
                if lost > 0 {
                    tell_lost(lost);
                }
                write_all(&mut out, &lines);
                its.lock().writing = false;
                its.shared.changed.notify_all();
            }
        })?;
        Ok(outlet)
    }

    /// One line with its end. It is lost if there is no room for it, and after another lost one.
    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.lost > 0 || state.waiting.len() + line.len() > self.shared.room {
            state.lost += 1;
        } else {
            state.waiting.extend_from_slice(line);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// A line that is not lost, whether or not there is room.
    pub(super) fn push_last(&self, line: &str) {
        let mut state = self.lock();
        state.waiting.extend_from_slice(line.as_bytes());
        state.waiting.push(b'\n');
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until everything is written, for `limit` at most.
    pub(super) fn flush(&self, limit: Duration) {
        let pending =
            |state: &mut State| state.writing || state.lost > 0 || !state.waiting.is_empty();
        let waited = self.shared.changed.wait_timeout_while(self.lock(), limit, pending);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn take(&self) -> (Vec<u8>, u64) {
        let nothing = |state: &mut State| state.lost == 0 && state.waiting.is_empty();
        let state = self.shared.changed.wait_while(self.lock(), nothing);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.writing = true;
        (mem::take(&mut state.waiting), mem::take(&mut state.lost))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What cannot be written, because there is no reader any more, is dropped.
fn write_all(out: &mut impl Write, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(count) if count > 0 => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Ok(_) | Err(_) => return,
        }
    }
}

/// The log's formatter writes one event in one call.
impl Write for &Outlet {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Outlet {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

    use super::*;

    /// Enough for any machine; reached only by a failing test.
    const LIMIT: Duration = Duration::from_secs(30);

    /// A reader that takes nothing unless asked to.
    struct Pipe {
        blocked: SyncSender<()>,
        permits: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Both ends go when the test ends.
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            self.blocked.send(()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.permits.recv().map_err(gone)?;
            self.written.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Scene {
        outlet: Outlet,
        blocked: Receiver<()>,
        permits: Sender<()>,
        written: Receiver<Vec<u8>>,
        lost: Receiver<u64>,
    }

    fn scene(room: usize) -> Scene {
        let (blocked_sender, blocked) = sync_channel(100);
        let (permits, permits_receiver) = channel();
        let (written_sender, written) = channel();
        let (lost_sender, lost) = channel();
        let pipe =
            Pipe { blocked: blocked_sender, permits: permits_receiver, written: written_sender };
        let tell_lost = move |count| lost_sender.send(count).unwrap_or_default();
        let outlet = Outlet::with_room(room, pipe, tell_lost).unwrap();
        Scene { outlet, blocked, permits, written, lost }
    }

    #[test]
    fn a_reader_that_has_stopped_reading_costs_lines_and_no_time() {
        let scene = scene(10);
        scene.outlet.push(b"one\n");
        scene.blocked.recv_timeout(LIMIT).unwrap();
        // The thread waits for the reader; these calls come back all the same.
        scene.outlet.push(b"two\n");
        scene.outlet.push(b"three\n");
        scene.outlet.push(b"too long\n");
        scene.outlet.push(b"4\n");
        scene.outlet.push_last("error: last words");
        // Nor is this waited for beyond the limit.
        scene.outlet.flush(Duration::from_millis(1));
        assert!(scene.written.try_recv().is_err(), "nothing was read yet");

        for _ in 0..2 {
            scene.permits.send(()).unwrap();
        }
        assert_eq!(scene.written.recv_timeout(LIMIT).unwrap(), b"one\n");
        assert_eq!(scene.written.recv_timeout(LIMIT).unwrap(), b"two\nthree\nerror: last words\n");
        assert_eq!(scene.lost.recv_timeout(LIMIT).unwrap(), 2, "also one that would have had room");
        // From here on nothing is lost any more.
        scene.permits.send(()).unwrap();
        scene.outlet.push(b"five\n");
        scene.outlet.flush(LIMIT);
        assert_eq!(scene.written.try_recv().unwrap(), b"five\n", "written when flush is back");
        assert!(scene.lost.try_recv().is_err());
    }

    /// Takes one byte a time, and says between two bytes that it takes none.
    struct Shy {
        ready: bool,
        written: Sender<u8>,
    }

    impl Write for Shy {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.ready = !self.ready;
            if !self.ready {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.written.send(bytes[0]).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_whose_end_does_not_block_gets_every_byte() {
        let (written, bytes) = channel();
        let outlet = Outlet::start(Shy { ready: false, written }, |_| ()).unwrap();
        outlet.push(b"line\n");
        outlet.flush(LIMIT);
        assert_eq!(bytes.try_iter().collect::<Vec<_>>(), b"line\n");
    }
}
