//! The `sliceproxy` binary, run inside a namespace.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sliceproxy::lab::Netns;

use crate::wait_for;

/// How long an agent may take to program an empty kernel, or to end, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Flags of an agent that serves neither health nor metrics.
pub const WITHOUT_SERVERS: [&str; 2] = ["--healthz-bind-address=", "--metrics-bind-address="];

/// The binary under test: `SLICEPROXY_BIN`, else the one that cargo built beside this test.
///
/// # Errors
/// When there is none, with how to build it.
pub fn binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os("SLICEPROXY_BIN") {
        let path = PathBuf::from(path);
        anyhow::ensure!(path.is_file(), "SLICEPROXY_BIN={}: no such file", path.display());
        return Ok(path);
    }
    // target/<profile>/deps/<test> → target/<profile>/sliceproxy
    let test = env::current_exe().context("where is this test?")?;
    let profile = test.parent().and_then(Path::parent).context("this test has no target folder")?;
    let path = profile.join("sliceproxy");
    if !path.is_file() {
        bail!(
            "{} is missing: build it with `cargo build -p sliceproxy`, or name another one in \
             SLICEPROXY_BIN",
            path.display()
        );
    }
    Ok(path)
}

/// Gives a process `$1` as its service account, where no other process of the machine sees it.
const POD: &str = r#"
set -e
mount -t tmpfs tmpfs /var/run
mkdir -p /var/run/secrets/kubernetes.io
ln -s "$1" /var/run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"#;

/// What the agent logs after its first sync.
const READY: &str = "in step with the cluster";

/// Runs a command of `sliceproxy` inside `netns` to its end.
///
/// # Errors
/// When it cannot be started; its own failure is in the [`Output`].
pub fn command(netns: &Netns, args: &[impl AsRef<OsStr> + Sync]) -> anyhow::Result<Output> {
    let binary = binary()?;
    let output = netns.run(|| Command::new(&binary).args(args).stdin(Stdio::null()).output())?;
    output.with_context(|| format!("cannot run {}", binary.display()))
}

/// A running `sliceproxy run`. Dropping it kills the process.
#[derive(Debug)]
pub struct Agent<'a> {
    netns: &'a Netns,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    socket_folder: tempfile::TempDir,
}

impl<'a> Agent<'a> {
    /// Starts `sliceproxy run` with `args` in `netns`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(netns: &'a Netns, args: &[impl AsRef<OsStr> + Sync]) -> anyhow::Result<Self> {
        Self::spawn(netns, Command::new(binary()?), args)
    }

    /// Starts it with nothing but what a Pod has: the folder of its service account, and the API
    /// server's address in the environment.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_in_pod(
        netns: &'a Netns,
        account: &Path,
        server: SocketAddr,
        args: &[impl AsRef<OsStr> + Sync],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", POD, "pod"])
            .arg(account)
            .arg(binary()?)
            .env("KUBERNETES_SERVICE_HOST", server.ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", server.port().to_string());
        Self::spawn(netns, command, args)
    }

    fn spawn(
        netns: &'a Netns,
        mut command: Command,
        args: &[impl AsRef<OsStr> + Sync],
    ) -> anyhow::Result<Self> {
        let socket_folder = tempfile::tempdir()?;
        let socket = socket_folder.path().join("admin.sock");
        let child = netns.run(|| {
            command
                .arg("run")
                .args(args)
                .arg("--admin-socket")
                .arg(&socket)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        })?;
        let mut child = child.context("cannot start the agent")?;
        let log = Arc::default();
        if let Some(stdout) = child.stdout.take() {
            collect(stdout, &log);
        }
        if let Some(stderr) = child.stderr.take() {
            collect(stderr, &log);
        }
        Ok(Self { netns, child, log, socket_folder })
    }

    /// Starts it and waits until the kernel holds what it wants.
    ///
    /// # Errors
    /// As [`Agent::start`] and [`Agent::wait_in_sync`].
    pub fn start_in_sync(
        netns: &'a Netns,
        args: &[impl AsRef<OsStr> + Sync],
    ) -> anyhow::Result<Self> {
        let mut agent = Self::start(netns, args)?;
        agent.wait_in_sync()?;
        Ok(agent)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    /// Runs a command such as `dump rows` against it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn ask(&self, args: &[&str]) -> anyhow::Result<Output> {
        let socket = self.socket_folder.path().join("admin.sock");
        let mut all: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        all.extend([OsStr::new("--admin-socket"), socket.as_os_str()]);
        command(self.netns, &all)
    }

    /// Waits until it says that the kernel holds what the cluster wants.
    ///
    /// # Errors
    /// When that takes too long or the agent has ended; with its log.
    pub fn wait_in_sync(&mut self) -> anyhow::Result<()> {
        self.wait_in_sync_for(LIMIT)
    }

    /// As [`Agent::wait_in_sync`], for as long as a large cluster takes.
    ///
    /// # Errors
    /// As [`Agent::wait_in_sync`].
    pub fn wait_in_sync_for(&mut self, limit: Duration) -> anyhow::Result<()> {
        let mut ended = None;
        let done = wait_for("the agent to be in step with the cluster", limit, || {
            ended = self.child.try_wait().ok().flatten();
            (ended.is_some() || self.log().contains(READY)).then_some(())
        });
        if let Some(status) = ended {
            bail!("the agent ended ({status}); it logged:\n{}", self.log());
        }
        done.with_context(|| format!("the agent logged:\n{}", self.log()))
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it does not end in time; with its log.
    pub fn wait_for_end(&mut self) -> anyhow::Result<ExitStatus> {
        wait_for("the agent to end", LIMIT, || self.child.try_wait().ok().flatten())
            .with_context(|| format!("the agent logged:\n{}", self.log()))
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// When it does not end in time; with its log.
    pub fn stop(mut self) -> anyhow::Result<ExitStatus> {
        kill(Pid::from_raw(i32::try_from(self.pid())?), Signal::SIGTERM)?;
        self.wait_for_end()
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the agent ---\n{}\n---", self.log());
        }
    }
}

/// What a command printed, for messages.
pub fn printed(output: &Output) -> String {
    format!(
        "{}{}({})",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status
    )
}

/// Keeps reading, so that the agent never blocks on a full pipe. The thread ends with the pipe.
fn collect(pipe: impl Read + Send + 'static, log: &Arc<Mutex<Vec<String>>>) {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    });
}
