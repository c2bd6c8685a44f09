//! A child process that lives as long as the test wants it and never longer than the test
//! process. Not for commands that run to an end: those are `std::process::Command::output`.
//!
//! `PR_SET_PDEATHSIG` would bind the child to one *thread* of the test, and setting it needs
//! unsafe code. Instead each child leads a process group, and a small shell beside it waits on a
//! pipe that only the test process holds: when that process ends, by whatever signal, the pipe
//! closes and the shell kills the group.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::wait_for;

/// `$1`: process group to kill, `$2`: folder to remove, when standard input closes.
const REAPER: &str = r#"read -r _; kill -s KILL -- "-$1"; rm -rf -- "$2""#;

/// How long a signal may take on a busy machine.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A running child with its output in a file. Dropping it kills it and what it started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    reaper: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` in the network namespace of the calling thread, with its output in
    /// `<folder>/<name>.log`. `folder` is removed with the process should the test die; while the
    /// test lives, it is the caller's.
    pub fn spawn(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!("cannot start {name} ({})", command.get_program().display())
            })?;
        let reaper = Command::new("sh")
            .args(["-c", REAPER, "reaper", &child.id().to_string()])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match reaper {
            Ok(reaper) => Ok(Self { name: name.to_owned(), child, reaper, log }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error).with_context(|| format!("cannot start the reaper of {name}"))
            }
        }
    }

    /// The process id, which is the id of its group too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its standard output and error go.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its output, for messages.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// As [`memory_of`].
    pub fn memory(&self) -> Result<(u64, u64)> {
        memory_of(self.pid())
    }

    /// An error with the end of its log if it is not running any more.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                bail!("{} has ended with {status}; its log ends:\n{}", self.name, self.log_tail())
            }
        }
    }

    /// Sends `signal` to the process group.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        killpg(self.group()?, signal)
            .with_context(|| format!("cannot send {signal} to {}", self.name))
    }

    /// Stops it from running, with its connections open, until the guard is dropped: a process
    /// that hangs, or a machine that is far too slow.
    pub fn freeze(&self) -> Result<Frozen> {
        self.signal(Signal::SIGSTOP)?;
        let frozen = Frozen { group: self.group()? };
        // A thread that runs at this moment may still do some work.
        wait_for(&format!("all threads of {} to stop", self.name), STOP_LIMIT, || {
            self.is_stopped().unwrap_or_default().then_some(())
        })?;
        Ok(frozen)
    }

    fn is_stopped(&self) -> Result<bool> {
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let stat = fs::read_to_string(thread?.path().join("stat"))?;
            // The state follows the name, which is in parentheses and may hold any character.
            let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
            if !state.is_some_and(|rest| rest.starts_with('T')) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks it to end, and waits for that.
    pub fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        let what = format!("{} to end after SIGTERM", self.name);
        Ok(wait_for(&what, limit, || self.child.try_wait().transpose())??)
    }

    fn group(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.pid())?))
    }
}

/// Resident memory of a process in bytes now, and its highest so far.
pub fn memory_of(pid: u32) -> Result<(u64, u64)> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let field = |name: &str| -> Result<u64> {
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_suffix(" kB"))
            .with_context(|| format!("{path} has no {name}"))?;
        Ok(kib.trim().parse::<u64>()? * 1024)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// From now on the highest memory of a process is counted anew.
pub fn forget_peak_memory(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        // The reaper goes first, while the child's id cannot have been given to anything else:
        // nobody has waited for the child yet. Errors mean that it is gone already.
        let _ = self.reaper.kill();
        let _ = self.reaper.wait();
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.signal(Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Keeps a process from running until it is dropped.
#[derive(Debug)]
#[must_use = "the process runs on as soon as this is dropped"]
pub struct Frozen {
    group: Pid,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = killpg(self.group, Signal::SIGCONT);
    }
}
