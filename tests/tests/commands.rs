//! Commands against a real kernel and a running agent: what they say, what they leave alone, and
//! their exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::Value;
use sliceproxy::lab::Netns;
use sliceproxy_tests::agent::{Agent, binary, command, printed};
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::{require_root, shop};

#[test]
fn objects_come_from_standard_input_too() {
    use std::process::{Command, Stdio};
    let shop = fs::File::open(shop::path()).unwrap();
    let words = ["render", "--manifests", "-", "--node-name", "node-a1"];
    let output = Command::new(sliceproxy_tests::agent::binary().unwrap())
        .args(words)
        .stdin(Stdio::from(shop))
        .output()
        .unwrap();
    let netns = Netns::new().unwrap();
    let path = shop::path().to_string_lossy().into_owned();
    let from_file = run(&netns, &["render", "--manifests", &path, "--node-name", "node-a1"]);
    assert_eq!(stdout(&output), stdout(&from_file));
}

fn run(netns: &Netns, words: &[&str]) -> Output {
    command(netns, words).unwrap()
}

/// `words`, with the manifests in place of an agent.
fn run_offline(netns: &Netns, words: &[&str]) -> Output {
    let offline = shop::offline_args();
    let words: Vec<&str> =
        words.iter().copied().chain(offline.iter().map(String::as_str)).collect();
    run(netns, &words)
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{}", printed(output));
    std::str::from_utf8(&output.stdout).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", printed(output)))
}

#[test]
fn diff_compares_without_writing_and_exits_like_diff() {
    require_root();
    let netns = Netns::new().unwrap();
    let nft = Nft::system();
    let output = run_offline(&netns, &["diff", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert_eq!(json(&output)["equal"], false);
    assert_eq!(nft.run(&netns, &["list", "tables"]).unwrap(), "", "nothing was written");

    let agent = Agent::start_in_sync(&netns, &shop::agent_args()).unwrap();
    assert!(stdout(&agent.ask(&["diff"]).unwrap()).starts_with("no difference"));
    // Without the agent, so that it does not repair what is shown.
    assert!(agent.stop().unwrap().success());
    nft.run(&netns, &["add", "element", "ip", "sliceproxy", "cluster-ips", "{ 9.9.9.9 }"]).unwrap();
    let gone = ["delete", "element", "ip", "sliceproxy", "cluster-ips", "{ 10.102.5.156 }"];
    nft.run(&netns, &gone).unwrap();
    let output = run_offline(&netns, &["diff", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let diff = json(&output);
    let keys = |list: &str| -> Vec<String> {
        let rows = diff[list].as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["set"], row["key"]).replace('"', "")).collect()
    };
    assert_eq!(keys("surplus"), ["cluster-ips 9.9.9.9"]);
    assert!(keys("missing").contains(&"cluster-ips 10.102.5.156".to_owned()), "{diff}");

    let output = run(&netns, &["diff", "--admin-socket", "/nonexistent/admin.sock"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("no agent answers at /nonexistent/admin.sock"), "{message}");
    assert!(message.contains("--manifests"), "{message}");
}

#[test]
fn a_running_agent_answers_everything() {
    require_root();
    let netns = Netns::new().unwrap();
    let agent = Agent::start_in_sync(&netns, &shop::agent_args()).unwrap();
    for (words, expected) in [
        (vec!["dump", "services", "shop/web"], "10.97.65.144:80 ClusterIP"),
        (vec!["dump", "slices", "shop/web"], "10.244.1.10"),
        (vec!["dump", "rows", "shop/web"], "in the kernel"),
        (vec!["dump", "kernel", "shop/web"], "goto pick-6"),
        (vec!["dump", "topology", "shop/web"], "all six ready endpoints are used"),
        (vec!["dump", "services", "shop/web", "-o", "yaml"], "service: shop/web"),
        (vec!["explain", "shop/web:http"], "DNAT to one of 6 endpoints, 16.7 % each"),
        (vec!["explain", "[fd00:10:96::d:fa5b]:80", "--from", "fd00:244:1::7"], "DNAT to one of 6"),
        (vec!["explain", "10.97.65.144:81"], "refused by TCP reset"),
    ] {
        let output = agent.ask(&words).unwrap();
        assert!(stdout(&output).contains(expected), "{words:?}: {}", printed(&output));
    }
    for (words, expected) in [
        (vec!["explain", "shop/wbe"], "there is no Service shop/wbe"),
        (vec!["explain", "10.97.65.144:80", "--from", "fd00::1"], "no packet goes from one"),
    ] {
        let output = agent.ask(&words).unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
        assert!(printed(&output).contains(expected), "{words:?}: {}", printed(&output));
    }
}

#[test]
fn one_agent_for_each_socket_and_none_left_behind() {
    require_root();
    let netns = Netns::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let taken = format!("--admin-socket={}", socket.display());
    let own: Vec<String> = shop::agent_args().into_iter().chain([taken.clone()]).collect();
    let mut first = netns
        .run(|| {
            let binary = sliceproxy_tests::agent::binary().unwrap();
            std::process::Command::new(binary).arg("run").args(&own).spawn().unwrap()
        })
        .unwrap();
    let answers = || run(&netns, &["diff", &taken]).status.success().then_some(());
    let limit = std::time::Duration::from_secs(10);
    sliceproxy_tests::wait_for("the dead agent's socket to be replaced", limit, answers).unwrap();
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let words: Vec<&str> = std::iter::once("run").chain(own.iter().map(String::as_str)).collect();
    let second = run(&netns, &words);
    assert_eq!(second.status.code(), Some(1), "{}", printed(&second));
    let named = format!("another sliceproxy (process {}) is at work", first.id());
    assert!(printed(&second).contains(&named), "{}", printed(&second));
    // In a namespace of its own it may be at work, but not with the first one's socket.
    let elsewhere = run(&Netns::new().unwrap(), &words);
    assert_eq!(elsewhere.status.code(), Some(1), "{}", printed(&elsewhere));
    assert!(printed(&elsewhere).contains("another agent answers at"), "{}", printed(&elsewhere));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(first.id()).unwrap()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    assert!(first.wait().unwrap().success());
    assert!(!socket.exists(), "removed at the end");
}

#[test]
fn cleanup_removes_our_tables_and_no_others() {
    require_root();
    let netns = Netns::new().unwrap();
    let nft = Nft::system();
    let agent = Agent::start_in_sync(&netns, &shop::agent_args()).unwrap();
    assert!(agent.stop().unwrap().success());
    for table in ["ip other", "ip kube-proxy", "ip6 kube-proxy"] {
        let words: Vec<&str> = ["add", "table"].into_iter().chain(table.split(' ')).collect();
        nft.run(&netns, &words).unwrap();
    }
    let output = run(&netns, &["cleanup"]);
    assert_eq!(stdout(&output), "removed: table ip sliceproxy, table ip6 sliceproxy\n");
    let output = run(&netns, &["cleanup"]);
    assert_eq!(stdout(&output), "nothing to remove\n");
    let output = run(&netns, &["cleanup", "--kube-proxy"]);
    assert_eq!(stdout(&output), "removed: table ip kube-proxy, table ip6 kube-proxy\n");
    assert_eq!(nft.run(&netns, &["list", "tables"]).unwrap(), "table ip other\n");
}

#[test]
fn cleanup_beside_a_running_agent_does_not_cut_its_traffic() {
    require_root();
    let netns = Netns::new().unwrap();
    let nft = Nft::system();
    let agent = Agent::start_in_sync(&netns, &shop::agent_args()).unwrap();
    nft.run(&netns, &["add", "table", "ip", "kube-proxy"]).unwrap();
    let process = format!("sliceproxy (process {}) is at work", agent.pid());

    let output = run(&netns, &["cleanup"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with(&format!("error: {process}")), "{error}");
    assert!(error.contains("stop it first"), "{error}");
    let tables = nft.run(&netns, &["list", "tables"]).unwrap();
    assert!(tables.contains("ip kube-proxy"), "nothing was removed: {tables}");

    // What one does after moving a node from kube-proxy, and then the agent is at work.
    let output = run(&netns, &["cleanup", "--kube-proxy"]);
    assert_eq!(stdout(&output), "removed: table ip kube-proxy\n");
    let note = String::from_utf8_lossy(&output.stderr);
    assert!(note.starts_with(&format!("note: {process}")), "{note}");
    assert!(!agent.log().contains("somebody else changed our tables"), "{}", agent.log());
    assert!(stdout(&agent.ask(&["diff"]).unwrap()).starts_with("no difference"));
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_no_panic() {
    for words in [
        &["completions", "bash"][..],
        &["run", "--node-name=n", "--write-config-to=-"],
        &["render", "--node-name=node-a1", "--manifests", &shop::path().to_string_lossy()],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(binary().unwrap()).args(words).stdout(full).output().unwrap();
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.starts_with("error: cannot write to standard output: "), "{words:?}: {text}");
    }
}

#[test]
fn a_command_line_that_makes_no_sense_exits_with_2() {
    let netns = Netns::new().unwrap();
    for words in [
        &["render"][..],
        &["dump", "topology", "--all-nodes"],
        &["dump", "services", "--all-nodes", "--manifests", "/nonexistent"],
        &["render", "--manifests", "/nonexistent", "--cluster-cidr", "10.0.0.0/99"],
        &["render", "--no-such-flag"],
    ] {
        let output = run(&netns, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", printed(&output));
        assert!(printed(&output).starts_with("error: "), "{words:?}: {}", printed(&output));
    }
    let output = run(&netns, &["render", "--manifests", "/nonexistent", "--node-name", "n"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
}
