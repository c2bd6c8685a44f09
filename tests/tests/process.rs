//! The process around the engine: rights, configuration files, signals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe};
use sliceproxy::lab::{Lab, NodeAddresses};
use sliceproxy_tests::agent::{self, Agent, printed};
use sliceproxy_tests::{require_root, shop, wait_for};

const LIMIT: Duration = Duration::from_secs(30);

fn lab() -> Lab {
    require_root();
    let addresses =
        NodeAddresses { v4: "172.18.0.11".parse().unwrap(), v6: "fd00:18::b".parse().unwrap() };
    Lab::new(addresses).unwrap()
}

fn without_net_admin(lab: &Lab, arguments: &[&str]) -> Output {
    let output = lab.node().run(|| {
        Command::new("setpriv")
            .arg("--bounding-set=-net_admin")
            .arg(agent::binary().unwrap())
            .args(arguments)
            .output()
    });
    output.unwrap().expect("setpriv, of util-linux")
}

#[test]
fn without_cap_net_admin_it_says_so_in_one_sentence() {
    let lab = lab();
    let manifests = shop::path();
    let run = [
        "run",
        "--manifests",
        manifests.to_str().unwrap(),
        "--node-name=node-a1",
        "--admin-socket=",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ];
    for arguments in [&run[..], &["cleanup"][..]] {
        let output = without_net_admin(&lab, arguments);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let errors: Vec<_> = text.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{text}");
        assert!(errors[0].contains("CAP_NET_ADMIN"), "{text}");
    }
}

/// The C library learns of it from the environment, so the process begins a second time.
#[test]
fn a_running_agent_has_frugal_memory_settings() {
    let lab = lab();
    let manifests = shop::path();
    let arguments = ["--manifests", manifests.to_str().unwrap(), "--node-name=node-a1"];
    let agent = Agent::start_in_sync(lab.node(), &arguments).unwrap();
    let process = format!("/proc/{}", agent.pid());
    let environment = fs::read_to_string(format!("{process}/environ")).unwrap();
    let settings = environment.split('\0').find(|variable| variable.starts_with("GLIBC_TUNABLES="));
    assert!(settings.is_some_and(|settings| settings.contains("arena_max=1")), "{settings:?}");
    // Under the name and with the arguments that it was given.
    let command = fs::read_to_string(format!("{process}/cmdline")).unwrap();
    let binary = agent::binary().unwrap();
    assert!(command.starts_with(binary.to_str().unwrap()), "{command:?}");
    assert!(command.contains("--node-name=node-a1"), "{command:?}");
    let name = fs::read_to_string(format!("{process}/comm")).unwrap();
    assert_eq!(name.trim_end(), "sliceproxy", "what ps and pgrep call it");
    assert!(agent.stop().unwrap().success());
}

fn write_config(file: &Path, masquerade_all: &str) {
    let text = format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
         clusterCIDR: 10.244.0.0/16\nnftables:\n  masqueradeAll: {masquerade_all}\n"
    );
    // As editors and Kubernetes do: never half a file under its name.
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, file).unwrap();
}

#[test]
fn a_new_configuration_ends_the_process_and_an_unusable_one_does_not() {
    let lab = lab();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    write_config(&file, "false");
    let manifests = shop::path();
    let arguments = [
        "--config",
        file.to_str().unwrap(),
        "--manifests",
        manifests.to_str().unwrap(),
        "--node-name=node-a1",
    ];
    for by_signal in [true, false] {
        write_config(&file, "false");
        let mut agent = Agent::start_in_sync(lab.node(), &arguments).unwrap();
        let pid = Pid::from_raw(i32::try_from(agent.pid()).unwrap());
        let log_says = |agent: &Agent<'_>, text: &str| {
            let found = wait_for(text, LIMIT, || agent.log().contains(text).then_some(()));
            assert!(found.is_ok(), "{text}\n{}", agent.log());
        };
        if by_signal {
            kill(pid, Signal::SIGHUP).unwrap();
            log_says(&agent, "means the same as before");
        }
        write_config(&file, "perhaps");
        if by_signal {
            kill(pid, Signal::SIGHUP).unwrap();
        }
        log_says(&agent, "the configuration file cannot be used; going on as before");
        log_says(&agent, "masqueradeAll");
        write_config(&file, "true");
        if by_signal {
            kill(pid, Signal::SIGHUP).unwrap();
        }
        let status = agent.wait_for_end().unwrap();
        assert_eq!(status.code(), Some(1), "{}", agent.log());
        assert!(agent.log().contains("error: the configuration changed"), "{}", agent.log());
        let tables = lab.node().run(|| Command::new("nft").args(["list", "tables"]).output());
        let tables = printed(&tables.unwrap().unwrap());
        assert!(tables.contains("ip sliceproxy"), "the rules stay: {tables}");
    }
}

#[test]
fn without_a_file_sighup_changes_nothing() {
    let lab = lab();
    let manifests = shop::path();
    let arguments = ["--manifests", manifests.to_str().unwrap(), "--node-name=node-a1"];
    let mut agent = Agent::start_in_sync(lab.node(), &arguments).unwrap();
    kill(Pid::from_raw(i32::try_from(agent.pid()).unwrap()), Signal::SIGHUP).unwrap();
    let text = "there is no configuration file";
    wait_for(text, LIMIT, || agent.log().contains(text).then_some(())).unwrap();
    agent.wait_in_sync().unwrap();
    assert!(agent.stop().unwrap().success());
}

/// A container runtime that hangs, or a terminal that was stopped with Ctrl-S.
#[test]
fn a_log_that_nobody_reads_holds_up_neither_answers_nor_sigterm() {
    let lab = lab();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let socket = socket.to_str().unwrap();
    let (reader, writer) = pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let manifests = shop::path();
    let manifests = manifests.to_str().unwrap();
    let run = ["run", "--manifests", manifests, "--node-name=node-a1", "--v=6"];
    let mut agent = lab
        .node()
        .run(|| {
            Command::new(agent::binary().unwrap())
                .args(run)
                .args(["--admin-socket", socket])
                .stdout(Stdio::null())
                .stderr(writer)
                .spawn()
        })
        .unwrap()
        .unwrap();
    let in_step = || {
        let output = agent::command(lab.node(), &["diff", "--admin-socket", socket]).unwrap();
        output.status.success().then_some(())
    };
    let in_step = wait_for("the agent to be in step", LIMIT, in_step);
    kill(Pid::from_raw(i32::try_from(agent.id()).unwrap()), Signal::SIGTERM).unwrap();
    let end = wait_for("the agent to end", LIMIT, || agent.try_wait().unwrap());
    if end.is_err() {
        agent.kill().unwrap();
    }
    in_step.unwrap();
    assert!(end.unwrap().success());
    let mut log = String::new();
    File::from(reader).read_to_string(&mut log).unwrap();
    assert!(!log.is_empty() && !log.contains("SIGTERM"), "there was room for everything: {log}");
}
