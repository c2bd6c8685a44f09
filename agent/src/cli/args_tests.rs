#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;

fn parsed(line: &str) -> Result<Invocation, String> {
    let words = line.split_whitespace();
    parse_from(std::iter::once("sliceproxy").chain(words)).map_err(|e| e.to_string())
}

#[test]
fn the_definition_is_consistent() {
    definition().debug_assert();
}

#[test]
fn what_people_type() {
    for line in [
        "run",
        "run --manifests x --node-name n -v --masquerade-all",
        "run --config=/c --hostname-override=n --v=2 --proxy-mode=nftables",
        "run --kubeconfig /k --node-name n --cluster-cidr 10.0.0.0/8,fd00::/8",
        "run --init-only --write-config-to -",
        "demo",
        "demo -v",
        "dump services",
        "dump topology --manifests x --all-nodes --overload-factor 1.5 -o yaml",
        "explain 10.0.0.1:80/udp --from 10.0.0.9 -o json",
        "explain shop/web --manifests x --node-name n --feature-gates TopologyRouting=true",
        "diff -ojson",
        "render --manifests x -o json",
        "cleanup --kube-proxy",
        "completions bash",
    ] {
        assert!(parsed(line).is_ok(), "{line}: {}", parsed(line).unwrap_err());
    }
    let cleanup = parsed("run --cleanup --config /c").unwrap().command;
    assert!(matches!(cleanup, Command::Cleanup(_)), "kube-proxy --cleanup");
}

#[test]
fn mistakes_are_answered_with_what_was_meant() {
    for (line, message) in [
        ("rendr", "'render'"),
        ("run --manifest x", "'--manifests'"),
        ("run --node-nmae x", "'--node-name'"),
        ("dump service", "'services'"),
        ("dump", "<WHAT>"),
        ("dump rows -o jsn", "'json'"),
        ("explain", "<TARGET>"),
        ("explain web", "must be ADDRESS:PORT[/PROTO] or NAMESPACE/SERVICE[:PORT]"),
        ("dump topology --overload-factor 0", "must be a number above 0"),
        ("dump topology --overload-factor inf", "must be a number above 0"),
        ("dump topology --overload-factor NaN", "must be a number above 0"),
        ("dump topology --overload-factor x", "invalid float"),
        ("run --masquerade-bit x", "invalid digit"),
        ("run extra", "unexpected argument 'extra'"),
    ] {
        let error = parsed(line).unwrap_err();
        assert!(error.contains(message), "{line}: {error}");
    }
}

#[test]
fn flags_that_a_running_agent_would_ignore_are_refused() {
    for (line, flags) in [
        ("explain shop/web --node-name n", "--node-name"),
        ("explain shop/web --hostname-override n", "--node-name"),
        ("explain shop/web --feature-gates TopologyRouting=true", "--feature-gates"),
        ("dump services --zone-regions a=b --masquerade-all", "--zone-regions, --masquerade-all"),
        ("diff --nodeport-addresses primary", "--nodeport-addresses"),
    ] {
        let words = line.split(' ');
        let error = parse_from(std::iter::once("sliceproxy").chain(words)).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        let message = error.to_string();
        let expected = format!("{flags} can only be used with --manifests PATH");
        assert!(message.contains(&expected), "{line}: {message}");
        parsed(&format!("{line} --manifests x")).unwrap();
    }
    parsed("explain shop/web --admin-socket /s --config /c --from 10.0.0.1 -o json").unwrap();
}

#[test]
fn the_flags_that_were_given_are_known() {
    let given =
        parsed("run --cluster-cidr=10.0.0.0/8 --nodeport-addresses a,b --v=3").unwrap().given;
    let given: Vec<_> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(given, ["cluster-cidr=10.0.0.0/8", "nodeport-addresses=a,b", "verbosity=3"]);
}

#[test]
fn help_fits_its_width_and_has_examples() {
    let mut root = definition();
    root.build();
    for command in root.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        let help = command.render_help().to_string();
        let widest = help.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
        assert!(widest.chars().count() <= 100, "{}: {widest}", command.get_name());
    }
}

#[test]
fn the_help_warns_of_what_surprised_people() {
    for (name, sentence) in [
        ("diff", "addresses that this namespace has"),
        ("render", "only where this namespace has"),
        ("render", "Prefer the script"),
    ] {
        let mut root = definition();
        let help = root.find_subcommand_mut(name).unwrap().render_help().to_string();
        assert!(help.contains(sentence), "{help}");
    }
}

#[test]
fn every_command_has_the_name_and_version_of_the_program() {
    for line in ["-V", "run -V", "explain -V"] {
        let words = line.split(' ');
        let version = parse_from(std::iter::once("sliceproxy").chain(words)).unwrap_err();
        assert_eq!(version.to_string(), format!("sliceproxy {}\n", version::FULL), "{line}");
    }
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in Shell::value_variants() {
        let script = CompletionsArgs { shell: *shell }.script();
        assert!(script.contains("explain"), "{shell}");
    }
}

/// All flags of kube-proxy 1.36 on Linux, each with a value that it takes.
const KUBE_PROXY_FLAGS: &str = "\
    --bind-address=0.0.0.0 --bind-address-hard-fail=true --cluster-cidr=10.0.0.0/8 --config=/c \
    --config-sync-period=15m --conntrack-max-per-core=1 --conntrack-min=1 \
    --conntrack-tcp-be-liberal --conntrack-tcp-timeout-close-wait=1h \
    --conntrack-tcp-timeout-established=24h --conntrack-udp-timeout=0s \
    --conntrack-udp-timeout-stream=0s --detect-local-mode=NodeCIDR --feature-gates=AllAlpha=true \
    --healthz-bind-address=0.0.0.0:10256 --healthz-port=10256 --hostname-override=n \
    --init-only=false --iptables-localhost-nodeports=true --iptables-masquerade-bit=14 \
    --iptables-min-sync-period=1s --iptables-sync-period=30s --ipvs-exclude-cidrs=10.0.0.0/8 \
    --ipvs-min-sync-period=0s --ipvs-scheduler=rr --ipvs-strict-arp --ipvs-sync-period=30s \
    --ipvs-tcp-timeout=0s --ipvs-tcpfin-timeout=0s --ipvs-udp-timeout=0s --kube-api-burst=10 \
    --kube-api-content-type=application/json --kube-api-qps=5 --kubeconfig=/k \
    --log-flush-frequency=5s --log-json-info-buffer-size=0 --log-json-split-stream \
    --log-text-info-buffer-size=0 --log-text-split-stream --logging-format=json \
    --masquerade-all --master=https://h:6443 --metrics-bind-address=127.0.0.1:10249 \
    --metrics-port=10249 --nodeport-addresses=10.0.0.0/8 --oom-score-adj=-999 \
    --pod-bridge-interface=cni0 --pod-interface-name-prefix=veth --profiling \
    --proxy-mode=nftables --show-hidden-metrics-for-version=1.35 -v=2 --vmodule=a=1 \
    --write-config-to=/w --cleanup=false";

#[test]
fn every_flag_of_kube_proxy_is_taken() {
    assert!(parsed(&format!("run {KUBE_PROXY_FLAGS}")).is_ok());
    for flag in KUBE_PROXY_FLAGS.split_whitespace() {
        assert!(parsed(&format!("run {flag}")).is_ok(), "{flag}");
    }
}
