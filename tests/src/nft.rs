//! The `nft` tool inside a namespace: an observer that shares no code with us.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use sliceproxy::lab::Netns;

use crate::wait_for;

/// One version of the tool.
#[derive(Debug, Clone)]
pub struct Nft {
    program: PathBuf,
}

impl Nft {
    /// The system's own.
    pub fn system() -> Self {
        Self { program: "nft".into() }
    }

    /// The newer one that `tests/nft/install` unpacks and whose path it prints last.
    ///
    /// # Errors
    /// When the script fails.
    pub fn newer() -> anyhow::Result<Self> {
        if let Some(path) = env::var_os("SLICEPROXY_NEWER_NFT") {
            return Ok(Self { program: path.into() });
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("nft/install");
        let output = Command::new(&script)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", script.display()))?;
        anyhow::ensure!(output.status.success(), "{} failed: {}", script.display(), output.status);
        let text = String::from_utf8(output.stdout)?;
        let path = text.lines().last().context("the script printed no path")?;
        Ok(Self { program: path.trim().into() })
    }

    /// What is started; a name to look up in `PATH` for the system's.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs it in `netns` and returns what it printed.
    ///
    /// # Errors
    /// When it fails, crashes included; with its messages.
    pub fn run(&self, netns: &Netns, args: &[&str]) -> anyhow::Result<String> {
        let output = netns
            .run(|| Command::new(&self.program).args(args).stdin(Stdio::null()).output())?
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        if !output.status.success() {
            bail!(
                "nft {} failed ({}): {}",
                args.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Starts watching what changes in `netns`; what happens from now on is seen.
    ///
    /// # Errors
    /// When `nft monitor` cannot be started.
    pub fn monitor<'a>(&self, netns: &'a Netns) -> anyhow::Result<Monitor<'a>> {
        let mut child = netns
            .run(|| {
                Command::new(&self.program)
                    .arg("monitor")
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .spawn()
            })?
            .context("cannot start `nft monitor`")?;
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let stdout = child.stdout.take().context("`nft monitor` has no output")?;
        let sink = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let mut monitor = Monitor { nft: self.clone(), netns, child, lines, flags: 0 };
        monitor.flush()?;
        monitor.lines().clear();
        Ok(monitor)
    }
}

/// A running `nft monitor`.
#[derive(Debug)]
pub struct Monitor<'a> {
    nft: Nft,
    netns: &'a Netns,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    flags: u32,
}

impl Monitor<'_> {
    /// Lines about elements, chains and rules of our tables since the last call.
    ///
    /// # Errors
    /// When the monitor has died.
    pub fn changes(&mut self) -> anyhow::Result<Vec<String>> {
        self.flush()?;
        let lines = std::mem::take(&mut *self.lines());
        Ok(lines.into_iter().filter(|line| line.contains(" sliceproxy")).collect())
    }

    /// Makes a change of our own and waits until the monitor has reported it: then all that came
    /// before has been reported too.
    fn flush(&mut self) -> anyhow::Result<()> {
        wait_for("`nft monitor` to report a change", Duration::from_secs(5), || {
            self.flags += 1;
            let flag = format!("flag-{}", self.flags);
            self.nft.run(self.netns, &["add", "table", "ip", &flag]).ok()?;
            self.nft.run(self.netns, &["delete", "table", "ip", &flag]).ok()?;
            let deleted = format!("delete table ip {flag}");
            // The very first ones may come before the monitor listens.
            wait_for("it", Duration::from_millis(200), || {
                self.lines().contains(&deleted).then_some(())
            })
            .ok()
        })
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Monitor<'_> {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
