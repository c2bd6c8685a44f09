//! The manifests as last read. Each look at the files yields what changed since the one before;
//! nothing here waits or watches.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::contents::Contents;
use super::{Finding, ManifestError, World, files};
use crate::model::{Event, NodeName};

/// Follows the files of one path.
#[derive(Debug)]
pub(super) struct Tracker {
    path: PathBuf,
    node: NodeName,
    files: BTreeMap<PathBuf, Tracked>,
    /// What was last reported; `None` before the first time.
    world: Option<World>,
    /// Whether files have changed since then.
    stale: bool,
    /// The problems of the last look, so that each is told once.
    problems: BTreeSet<String>,
}

/// A file as last seen.
#[derive(Debug)]
struct Tracked {
    stamp: Option<Stamp>,
    digest: u64,
    /// What it last said; `None` until it could be parsed.
    contents: Option<Contents>,
    /// Whether some of its documents could not be parsed then.
    partial: bool,
}

impl Tracked {
    /// Takes over what the file says now; then these documents of it are broken. With an error it
    /// goes on saying what it said.
    fn take_over(
        &mut self,
        file: &Path,
        bytes: &[u8],
    ) -> Result<Vec<ManifestError>, ManifestError> {
        let had_objects = self.contents.as_ref().is_some_and(|contents| !contents.is_empty());
        let keep = |error: ManifestError| if had_objects { error.keeping_objects() } else { error };
        let (new, mut broken) = super::parse(file, bytes).map_err(keep)?;
        if new.is_empty() && had_objects {
            return Err(ManifestError::Emptied(file.to_owned()));
        }
        if had_objects && new.unfinished {
            return Err(ManifestError::Unfinished(file.to_owned()));
        }
        // As if it were half-written. A file that never was whole has nothing better to keep.
        if had_objects && !self.partial && !broken.is_empty() {
            return Err(keep(broken.swap_remove(0)));
        }
        self.contents = Some(new);
        Ok(broken)
    }
}

/// What a file shows without being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// `None` if the file is gone.
    fn of(file: &Path) -> Option<Self> {
        let seen = fs::metadata(file).ok()?;
        Some(Self {
            device: seen.dev(),
            inode: seen.ino(),
            size: seen.size(),
            modified: (seen.mtime(), seen.mtime_nsec()),
            changed: (seen.ctime(), seen.ctime_nsec()),
        })
    }
}

/// How far to trust that a file whose [`Stamp`] is the same has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Read it: two quick writes may leave the same stamp.
    Closely,
    /// Believe it.
    Briefly,
}

/// What a look has shown.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What changed; at first everything.
    pub(super) events: Vec<Event>,
    /// What could not be used, as far as it is news.
    pub(super) problems: Vec<ManifestError>,
    /// What is wrong with objects, all of it; `None` if nothing changed.
    pub(super) findings: Option<Vec<Finding>>,
    /// Notes on the new state, as far as they are news.
    pub(super) remarks: Vec<String>,
    /// A file changed while it was read: look again soon.
    pub(super) unsettled: bool,
    /// A file was left out because it is being written.
    pub(super) awaited: bool,
}

impl Tracker {
    pub(super) fn new(path: PathBuf, node: NodeName) -> Self {
        Self {
            path,
            node,
            files: BTreeMap::new(),
            world: None,
            stale: true,
            problems: BTreeSet::new(),
        }
    }

    /// Looks at all files, and reads those that changed, but for the `unfinished` ones.
    pub(super) fn look(&mut self, look: Look, unfinished: &HashSet<PathBuf>) -> Seen {
        let mut seen = Seen::default();
        match files::list(&self.path) {
            Ok(listed) => self.look_at_all(&listed, (look, unfinished), &mut seen),
            // Path or mount gone: an accident rather than a wish to lose everything.
            Err(error) => seen.problems.push(error),
        }
        let told = std::mem::take(&mut self.problems);
        self.problems = seen.problems.iter().map(ToString::to_string).collect();
        seen.problems.retain(|problem| !told.contains(&problem.to_string()));
        seen
    }

    fn look_at_all(
        &mut self,
        listed: &[PathBuf],
        (look, unfinished): (Look, &HashSet<PathBuf>),
        seen: &mut Seen,
    ) {
        let known = self.files.len();
        self.files.retain(|file, _| listed.binary_search(file).is_ok());
        self.stale |= self.files.len() != known;
        for file in listed {
            if is_among(unfinished, file) {
                seen.awaited = true;
                continue;
            }
            self.stale |= self.look_at(file, look, seen);
        }
        let first = self.world.is_none();
        let nothing_good =
            !listed.is_empty() && self.files.values().all(|file| file.contents.is_none());
        // Nothing but broken files is no state, rather than an empty one.
        let early = seen.unsettled || seen.awaited || nothing_good;
        if self.stale && !(first && early) {
            self.report(seen);
        }
    }

    /// Whether what the file says is new.
    fn look_at(&mut self, file: &Path, look: Look, seen: &mut Seen) -> bool {
        let stamp = Stamp::of(file);
        let known = self.files.get(file);
        if look == Look::Briefly && known.is_some_and(|k| stamp.is_some() && k.stamp == stamp) {
            return false;
        }
        let bytes = match files::read(file) {
            Ok(bytes) => bytes,
            Err(error) => {
                seen.problems.push(error);
                return false;
            }
        };
        if Stamp::of(file) != stamp {
            seen.unsettled = true;
            return false;
        }
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let digest = hasher.finish();
        let tracked = self.files.entry(file.to_owned());
        let tracked = tracked.or_insert(Tracked {
            stamp: None,
            digest: !digest,
            contents: None,
            partial: false,
        });
        tracked.stamp = stamp;
        if tracked.digest == digest {
            return false;
        }
        tracked.digest = digest;
        match tracked.take_over(file, &bytes) {
            Ok(broken) => {
                tracked.partial = !broken.is_empty();
                seen.problems.extend(broken);
                true
            }
            Err(error) => {
                seen.problems.push(error);
                false
            }
        }
    }

    /// Puts the new state together and says what is different.
    fn report(&mut self, seen: &mut Seen) {
        let contents = self.files.values().filter_map(|tracked| tracked.contents.as_ref());
        let world = World::merge(&self.path, contents);
        seen.events = match &self.world {
            Some(before) => world.changes(before, &self.node),
            None => world.events(&self.node),
        };
        seen.remarks = remarks(&world, self.world.as_ref());
        seen.findings = Some(world.rejections.clone());
        self.world = Some(world);
        self.stale = false;
    }
}

/// Whether `file`, or what it is a link to, is one of `files`.
fn is_among(files: &HashSet<PathBuf>, file: &Path) -> bool {
    !files.is_empty()
        && (files.contains(file) || fs::canonicalize(file).is_ok_and(|real| files.contains(&real)))
}

/// Notes on `world` that were not made on `before`.
fn remarks(world: &World, before: Option<&World>) -> Vec<String> {
    let known = |note: &&String| before.is_some_and(|before| before.notes.contains(note));
    world.notes.iter().filter(|note| !known(note)).cloned().collect()
}
