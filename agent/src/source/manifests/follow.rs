//! Follows manifests as they change: notices from the kernel say when to look, a slow clock makes
//! up for those that get lost.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::timeout;
use tracing::{info, warn};

use super::ManifestError;
use super::telling::Telling;
use super::tracker::{Look, Seen, Tracker};
use super::writers::Writers;
use crate::model::{Event, NodeName};

/// Changes come in bursts: look once nothing has happened for so long.
const QUIET: Duration = Duration::from_millis(50);
/// Look at last, even if something goes on happening.
const PATIENCE: Duration = Duration::from_secs(3);
/// Look without any notice: network file systems send none.
const PERIOD: Duration = Duration::from_secs(10);
/// Look again for files that are being written, if no notice says that they are finished.
const AWAITED: Duration = Duration::from_millis(500);
/// Most remarks, and most problems, that one look logs.
const MAX_REMARKS: usize = 100;

/// Sends what the manifests in `path` say, as `node` sees it: first everything, then what changes.
/// Ends when nobody receives any more.
///
/// While a file is being written, or cannot be read or parsed, its objects stay as they were. If no
/// file can be from the start, nothing is sent until one can.
///
/// # Errors
/// If `path` cannot be read at the start. Later errors are logged.
pub async fn follow(
    path: PathBuf,
    node: NodeName,
    events: mpsc::Sender<Event>,
    mut telling: Telling,
) -> Result<(), ManifestError> {
    super::files::list(&path)?;
    let path = std::path::absolute(&path)
        .map_err(|source| ManifestError::Read { path: path.clone(), source })?;
    let (wake, mut woken) = mpsc::channel(1);
    let mut watch = Watch::new(path.clone(), wake);
    let mut tracker = Tracker::new(path, node);
    loop {
        watch.renew();
        let look = if watch.touched.swap(false, Relaxed) { Look::Closely } else { Look::Briefly };
        let unfinished = watch.writers.unfinished(Instant::now());
        let looked = look_elsewhere(tracker, look, unfinished).await;
        let Some((returned, seen)) = looked else { return Ok(()) };
        tracker = returned;
        log(&seen);
        if let Some(findings) = &seen.findings {
            telling.tell(findings);
        }
        for event in seen.events {
            if events.send(event).await.is_err() {
                return Ok(());
            }
        }
        let period = match (seen.unsettled, seen.awaited) {
            (true, _) => QUIET,
            (false, true) => AWAITED,
            (false, false) => PERIOD,
        };
        tokio::select! {
            () = events.closed() => return Ok(()),
            notice = timeout(period, woken.recv()) => if notice.is_ok() {
                wait_for_quiet(&mut woken).await;
            },
        }
    }
}

/// Reading and parsing takes seconds for large files: not on a thread that others wait for.
/// `None` if the runtime ends.
async fn look_elsewhere(
    mut tracker: Tracker,
    look: Look,
    unfinished: HashSet<PathBuf>,
) -> Option<(Tracker, Seen)> {
    let looking = tokio::task::spawn_blocking(move || {
        let seen = tracker.look(look, &unfinished);
        (tracker, seen)
    });
    match looking.await.map_err(JoinError::try_into_panic) {
        Ok(looked) => Some(looked),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_cancelled)) => None,
    }
}

async fn wait_for_quiet(woken: &mut mpsc::Receiver<()>) {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        match timeout(QUIET, woken.recv()).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

fn log(seen: &Seen) {
    for problem in seen.problems.iter().take(MAX_REMARKS) {
        warn!("{problem}");
    }
    if seen.problems.len() > MAX_REMARKS {
        warn!("and {} more problems with the manifests", seen.problems.len() - MAX_REMARKS);
    }
    for remark in seen.remarks.iter().take(MAX_REMARKS) {
        warn!("{remark}");
    }
    if seen.remarks.len() > MAX_REMARKS {
        warn!("and {} more remarks on the manifests", seen.remarks.len() - MAX_REMARKS);
    }
    if !seen.events.is_empty() {
        info!(events = seen.events.len(), "manifests read");
    }
}

/// The folders in which changes are noticed.
struct Watch {
    path: PathBuf,
    /// Keeps the channel open, also without a watcher.
    _wake: mpsc::Sender<()>,
    /// `None` if the kernel has no watch left for us.
    watcher: Option<RecommendedWatcher>,
    /// Whether there were notices of the manifests themselves, not only of what is around them.
    touched: Arc<AtomicBool>,
    /// Files that are being written.
    writers: Arc<Writers>,
    /// With device and inode: a folder of the same name may be another one.
    watched: BTreeMap<PathBuf, (u64, u64)>,
}

impl Watch {
    fn new(path: PathBuf, wake: mpsc::Sender<()>) -> Self {
        let touched = Arc::new(AtomicBool::new(false));
        let writers = Arc::new(Writers::default());
        let watcher = notify::recommended_watcher({
            let (path, touched, wake) = (path.clone(), Arc::clone(&touched), wake.clone());
            let writers = Arc::clone(&writers);
            move |notice: notify::Result<notify::Event>| {
                let Ok(notice) = notice else { return };
                if !is_change(notice.kind) {
                    return;
                }
                writers.notice(&notice, Instant::now());
                if notice.paths.iter().any(|changed| changed.starts_with(&path)) {
                    touched.store(true, Relaxed);
                }
                // A full channel already holds a notice.
                let _ = wake.try_send(());
            }
        });
        let watcher = watcher.inspect_err(|error| cannot_watch(&path, error)).ok();
        Self { path, _wake: wake, watcher, touched, writers, watched: BTreeMap::new() }
    }

    /// Watches the folders that matter now. Those that cannot be are left to the clock.
    fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = folders(&self.path);
        self.watched.retain(|folder, id| {
            let keep = wanted.get(folder) == Some(id);
            if !keep {
                // Fails for a folder that is gone, and its watch with it.
                let _ = watcher.unwatch(folder);
            }
            keep
        });
        for (folder, id) in wanted {
            if let Entry::Vacant(new) = self.watched.entry(folder) {
                if let Err(error) = watcher.watch(new.key(), RecursiveMode::NonRecursive) {
                    cannot_watch(new.key(), &error);
                }
                new.insert(id);
            }
        }
    }
}

fn cannot_watch(path: &Path, error: &notify::Error) {
    warn!(
        "{}: cannot be watched, so changes are only noticed every {} s: {error}",
        path.display(),
        PERIOD.as_secs()
    );
}

/// Folders in which a change may concern the manifests: of the path and of what links lead to.
fn folders(path: &Path) -> BTreeMap<PathBuf, (u64, u64)> {
    let mut folders = BTreeMap::new();
    let mut add = |folder: &Path| {
        if let Ok(seen) = fs::metadata(folder)
            && seen.is_dir()
        {
            folders.insert(folder.to_owned(), (seen.dev(), seen.ino()));
        }
    };
    add(path);
    path.parent().into_iter().for_each(&mut add);
    let files = super::files::list(path).unwrap_or_default();
    for file in files.iter().map(PathBuf::as_path).chain([path]).filter(|file| file.is_symlink()) {
        let real = fs::canonicalize(file).ok();
        real.as_deref().and_then(Path::parent).into_iter().for_each(&mut add);
    }
    folders
}

/// Not our own reading.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
