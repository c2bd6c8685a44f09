//! The `nft` tool, as an operator runs it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// An `nft` program.
#[derive(Debug, Clone)]
pub(super) struct Nft {
    program: String,
    /// Major, minor and patch version.
    pub(super) version: (u32, u32, u32),
}

impl Nft {
    fn new(program: String) -> Self {
        let output = Command::new(&program).arg("--version").output().expect("nft is installed");
        let text = String::from_utf8(output.stdout).unwrap();
        let version = text.split_whitespace().find_map(|word| word.strip_prefix('v')).unwrap();
        let mut numbers = version.split('.').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Self { program, version: (next(), next(), next()) }
    }

    /// Whether it understands what the program does with affinity, in text and JSON.
    pub(super) fn is_recent(&self) -> bool {
        self.version >= (1, 1, 3)
    }

    /// What it prints; it must succeed.
    pub(super) fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    /// What it lists as JSON. Older ones warn about what they have no JSON for.
    pub(super) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = Command::new(&self.program).arg("-j").args(arguments).output().unwrap();
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{self:?} {arguments:?}: {}{warnings}", output.status);
        assert!(warnings.is_empty() || !self.is_recent(), "{self:?} {arguments:?}: {warnings}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Like [`Nft::run`], with standard input.
    pub(super) fn run_with(&self, arguments: &[&str], input: &str) -> String {
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{} {arguments:?}: {}\n{}",
            self.program,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The system's `nft`, and the one that can do all that the program needs: `SLICEPROXY_NEWER_NFT`, or
/// what `tests/nft/install` puts beside the system's. To be called outside of a test's namespace,
/// since that may have to fetch it.
pub(super) fn all() -> Vec<Nft> {
    vec![system(), Nft::new(newer())]
}

/// The system's `nft`.
pub(super) fn system() -> Nft {
    Nft::new("nft".to_owned())
}

fn newer() -> String {
    if let Ok(path) = std::env::var("SLICEPROXY_NEWER_NFT") {
        return path;
    }
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/nft/install");
    let output = Command::new(install).output().expect("tests/nft/install runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
