//! `sliceproxy demo`, as somebody runs it who has just built it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sliceproxy_tests::agent::{binary, printed};
use sliceproxy_tests::require_root;

/// `nobody`.
const UNPRIVILEGED: u32 = 65_534;

/// A name for the binary under which its process can be told from all others.
struct Alias {
    folder: tempfile::TempDir,
}

impl Alias {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn linked(&self) -> Command {
        let path = self.folder.path().join("sliceproxy");
        symlink(binary().unwrap(), &path).unwrap();
        let mut command = Command::new(path);
        command.arg("demo").stdin(Stdio::null());
        command
    }

    /// A copy, for users that may not enter the folder where it was built.
    fn copied(&self) -> Command {
        let path = self.folder.path().join("sliceproxy");
        fs::copy(binary().unwrap(), &path).unwrap();
        let mut command = Command::new(path);
        command.arg("demo").stdin(Stdio::null());
        command
    }

    /// Processes that were started by this name.
    fn running(&self) -> BTreeSet<String> {
        let name = self.folder.path().to_str().unwrap().to_owned();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|process| {
                let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(&name)
            })
            .map(|process| process.file_name().to_string_lossy().into_owned())
            .collect()
    }
}

fn own_tables() -> String {
    let output = Command::new("nft").args(["list", "tables"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_shows_everything_within_twenty_seconds_and_leaves_nothing() {
    require_root();
    let alias = Alias::new();
    let tables = own_tables();
    let started = Instant::now();
    let output = alias.linked().output().unwrap();
    let took = started.elapsed();
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    for shown in ["web-a", "web-b", "search-u", "refused", "goto pick-2", "committed in", "median"]
    {
        assert!(text.contains(shown), "no {shown} in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours although this is no terminal");
    assert_eq!(own_tables(), tables);
    assert_eq!(alias.running(), BTreeSet::new());
}

#[test]
fn it_runs_without_root_where_user_namespaces_allow_or_says_what_it_needs() {
    require_root();
    let alias = Alias::new();
    let output = alias.copied().uid(UNPRIVILEGED).gid(UNPRIVILEGED).output().unwrap();
    let text = printed(&output);
    let allowed = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "true"])
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success();
    if allowed {
        assert!(output.status.success(), "{text}");
        assert!(text.contains("without root"), "{text}");
    } else {
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("user namespaces"), "{text}");
    }
}

#[test]
fn it_ends_at_once_on_ctrl_c_in_the_middle() {
    require_root();
    let alias = Alias::new();
    let tables = own_tables();
    let mut demo = alias.linked().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    // The picture: namespaces exist now.
    assert!(lines.any(|line| line.unwrap().contains("programmed by sliceproxy")));
    kill(Pid::from_raw(demo.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let started = Instant::now();
    // Not reading on would block a demo that does not end.
    lines.for_each(drop);
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", printed(&output));
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(own_tables(), tables);
    assert_eq!(alias.running(), BTreeSet::new());
}
