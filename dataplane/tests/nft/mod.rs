//! The `nft` tool in network namespaces of the tests' own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

/// Runs `test` in a thread with an empty network namespace, which goes with the thread.
pub(crate) fn in_namespace<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET)
            .expect("these tests make network namespaces: run them as root");
        test()
    });
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// One nft binary.
#[derive(Debug, Clone)]
pub(crate) struct Nft(String);

impl Nft {
    /// The version that our scripts need, beside the system's. May have to be fetched first, so
    /// outside of [`in_namespace`].
    pub(crate) fn new() -> Self {
        let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/nft/install");
        let output = Command::new(&install).output().expect("tests/nft/install runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// The system's own, whatever it is.
    pub(crate) fn of_the_system() -> Self {
        Self("nft".to_owned())
    }

    /// What nft prints for `arguments`.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    /// What nft prints for `arguments` when it reads `input`.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> String {
        let mut child = Command::new(&self.0)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.0));
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "nft {arguments:?}: {}\n{errors}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }
}
