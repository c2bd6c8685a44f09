//! Tells the binary which commit it was built from: `SLICEPROXY_COMMIT` from the environment (an
//! image build without history sets it), else what git says, else "unknown".

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=SLICEPROXY_COMMIT");
    let commit = std::env::var("SLICEPROXY_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = commit.or_else(from_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=SLICEPROXY_COMMIT={commit}");
}

fn from_git() -> Option<String> {
    // The log of HEAD changes with every commit and every checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
