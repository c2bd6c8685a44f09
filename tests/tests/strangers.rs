//! What the agent says of tables, frontends and rights that are not its own, and what it makes of its
//! own tables when the `nft` tool wrote them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sliceproxy::lab::Netns;
use sliceproxy_tests::agent::{Agent, WITHOUT_SERVERS, binary, command, printed};
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::{require_root, shop, wait_for};

const LIMIT: Duration = Duration::from_secs(10);

/// Waits for a line of the log that holds all of `words`.
fn line(agent: &Agent<'_>, words: &[&str]) -> String {
    wait_for(&format!("a line with {words:?}"), LIMIT, || {
        let log = agent.log();
        let found = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
        found.map(ToOwned::to_owned)
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", agent.log()))
}

#[test]
fn what_was_repaired_is_counted_by_what_it_was() {
    require_root();
    let netns = Netns::new().unwrap();
    let nft = Nft::system();
    let agent = Agent::start_in_sync(&netns, &shop::agent_args()).unwrap();
    for (command, counts) in [
        (
            "add element ip sliceproxy services { 10.9.9.9 . icmp . 80 : drop }",
            ["rows_added=0", "rows_deleted=0", "strays_deleted=1", "programs_installed=0"],
        ),
        (
            "add element ip sliceproxy cluster-ips { 9.9.9.9 }",
            ["rows_added=0", "rows_deleted=1", "strays_deleted=0", "programs_installed=0"],
        ),
        (
            "add chain ip6 sliceproxy mine",
            ["rows_deleted=0", "strays_deleted=0", "programs_installed=1", ""],
        ),
    ] {
        nft.run(&netns, &[command]).unwrap();
        line(&agent, &[&["somebody else changed our tables; repaired"], &counts[..]].concat());
    }
}

#[test]
fn a_table_of_our_name_that_is_not_ours_is_replaced_and_named() {
    require_root();
    let netns = Netns::new().unwrap();
    let nft = Nft::system();
    nft.run(&netns, &["add", "table", "ip6", "sliceproxy", "{ chain mine { } ; }"]).unwrap();
    let agent = Agent::start_in_sync(&netns, &shop::agent_args()).unwrap();
    line(&agent, &["WARN", "table ip6 sliceproxy was there and not ours"]);
    assert!(!agent.log().contains("table ip sliceproxy was there"), "{}", agent.log());
    assert!(!nft.run(&netns, &["list", "chains"]).unwrap().contains("mine"));
    agent.stop().unwrap();
    let again = Agent::start_in_sync(&netns, &shop::agent_args()).unwrap();
    assert!(!again.log().contains("not ours"), "{}", again.log());
}

/// An interactive `nft` that holds a table as long as it runs.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_table_that_another_process_holds_is_named_with_its_holder() {
    require_root();
    let netns = Netns::new().unwrap();
    let nft = Nft::system();
    let start =
        || Command::new("nft").arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut holder = Holder(netns.run(start).unwrap().unwrap());
    let input = holder.0.stdin.as_mut().unwrap();
    input.write_all(b"add table ip6 sliceproxy { flags owner; }\n").unwrap();
    input.flush().unwrap();
    wait_for("the table", LIMIT, || {
        nft.run(&netns, &["list", "tables"]).unwrap().contains("sliceproxy").then_some(())
    })
    .unwrap();
    let cleanup = command(&netns, &["cleanup"]).unwrap();
    assert_eq!(cleanup.status.code(), Some(1), "{}", printed(&cleanup));
    assert!(printed(&cleanup).contains("is held by process"), "{}", printed(&cleanup));
    let mut agent = Agent::start(&netns, &shop::agent_args()).unwrap();
    let held = line(&agent, &["table ip6 sliceproxy is held by process"]);
    assert!(held.contains(&format!("process {} (nft)", holder.0.id())), "{held}");
    assert!(held.contains("end it"), "{held}");
    drop(holder);
    agent.wait_in_sync().unwrap();
}

#[test]
fn with_manifests_a_frontend_conflict_is_logged() {
    require_root();
    let folder = tempfile::tempdir().unwrap();
    let service = |name: &str, ip: &str, created: &str| {
        format!(
            "kind: Service\nmetadata: {{name: {name}, namespace: shop, creationTimestamp: \
             '{created}'}}\nspec: {{clusterIP: {ip}, externalIPs: [192.0.2.77], ports: [{{port: \
             80}}]}}\n---\n"
        )
    };
    let both = service("older", "10.96.0.1", "2026-01-01T00:00:00Z")
        + &service("newer", "10.96.0.2", "2026-02-01T00:00:00Z");
    fs::write(folder.path().join("a.yaml"), both).unwrap();
    let netns = Netns::new().unwrap();
    let args = ["--manifests", &folder.path().to_string_lossy(), "--node-name", "n"];
    let args = [&args[..], &WITHOUT_SERVERS[..]].concat();
    let agent = Agent::start_in_sync(&netns, &args).unwrap();
    let said = line(&agent, &["WARN", "Service shop/newer"]);
    assert!(said.contains("192.0.2.77:80/TCP is served for shop/older"), "{said}");
}

#[test]
fn init_only_without_rights_does_not_say_that_settings_are_made() {
    require_root();
    // Where everybody may start it.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = folder.path().join("sliceproxy");
    fs::copy(binary().unwrap(), &own).unwrap();
    let netns = Netns::new().unwrap();
    let run = |flags: &[&str]| {
        let start = || {
            Command::new(&own)
                .args(["run", "--init-only", "--manifests", "/nonexistent", "--node-name", "n"])
                .args(flags)
                .uid(65534)
                .gid(65534)
                .output()
        };
        netns.run(start).unwrap().unwrap()
    };
    let timeouts =
        ["--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0"];
    for flags in [&[][..], &timeouts[..]] {
        let output = run(flags);
        let said = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {said}");
        assert!(!said.contains("settings are made"), "{flags:?}: {said}");
        assert!(said.contains("run privileged") || said.contains("as root"), "{flags:?}: {said}");
    }
    let nothing_to_set = [&timeouts[..], &["--conntrack-max-per-core=0"]].concat();
    let output = run(&nothing_to_set);
    assert!(output.status.success(), "{}", printed(&output));
}

/// nft writes comparisons with a part of an address otherwise where the part is whole bytes.
#[test]
fn what_nft_loads_of_render_is_taken_for_undamaged_whatever_the_prefix() {
    require_root();
    let nft = Nft::newer().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.nft");
    let script = script.to_str().unwrap();
    let mut damaged = Vec::new();
    for (v4, v6) in [
        ("0.0.0.0/0", "::/0"),
        ("10.0.0.0/8", "fd00::/32"),
        ("10.240.0.0/12", "fd00:244::/48"),
        ("10.244.0.0/16", "fd00:244::/64"),
        ("10.244.16.0/20", "fd00:244::/108"),
        ("10.244.7.0/24", "fd00:244::/8"),
        ("10.244.7.7/32", "fd00:244::7/128"),
    ] {
        let netns = Netns::new().unwrap();
        let networks = format!("--cluster-cidr={v4},{v6}");
        let mut args = shop::agent_args();
        // The namespace has none of the node's addresses.
        let no_node_ports = "--nodeport-addresses=203.0.113.0/24";
        args.extend([networks.clone(), no_node_ports.to_owned()]);
        let offline: Vec<&str> = args[..4].iter().map(String::as_str).collect();
        let settings = [&*networks, no_node_ports];
        let words = |command: &'static str| [&[command], &offline[..], &settings].concat();
        let rendered = command(&netns, &words("render")).unwrap();
        assert!(rendered.status.success(), "{}", printed(&rendered));
        fs::write(script, rendered.stdout).unwrap();
        nft.run(&netns, &["-f", script]).unwrap();
        let diff = command(&netns, &words("diff")).unwrap();
        if !diff.status.success() {
            damaged.push(format!("{networks}: {}", printed(&diff)));
            continue;
        }
        let agent = Agent::start_in_sync(&netns, &args).unwrap();
        let ready = line(&agent, &["in step with the cluster"]);
        for nothing in ["added=0", "deleted=0", "programs_installed=0"] {
            assert!(ready.contains(nothing), "{networks}: {ready}");
        }
    }
    assert!(damaged.is_empty(), "{}", damaged.join("\n"));
}
