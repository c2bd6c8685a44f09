//! Everything that can be typed. Parsed here, validated into a
//! [`Config`](crate::config::Config) there.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::mistake;
use crate::config::Flags;
use crate::config::flags::{SourceFlags, TrafficFlags};
use crate::version;
use crate::view::{Filter, Target, client};

const ROOT_EXAMPLES: &str = "\
Examples:
  sliceproxy demo                                       see it work, without a cluster
  sliceproxy run --manifests cluster.yaml --node-name node-a1
  sliceproxy run --config /var/lib/kube-proxy/config.conf --hostname-override \"$NODE_NAME\"
  sliceproxy explain shop/web                           where its traffic goes, and why
  sliceproxy diff                                       is the kernel what it should be

Exit codes:
  0  all went well
  1  something failed; diff: the kernel differs from what it should be
  2  the command line or the configuration is wrong; diff: something failed";

const RUN_EXAMPLES: &str = "\
A flag wins over the file, the file over the default. kube-proxy's flags are accepted; those
without a meaning here (--proxy-mode, --ipvs-*, ...) are named in one warning.

Examples:
  sliceproxy run --kubeconfig /etc/kubernetes/proxy.conf --cluster-cidr 10.244.0.0/16
  sliceproxy run --config /var/lib/kube-proxy/config.conf --hostname-override \"$NODE_NAME\"
  sliceproxy run --manifests ./objects --node-name node-a1 --feature-gates TopologyRouting=true
  sliceproxy run --config config.yaml --write-config-to -    show the settings in effect

A file that is changed ends the process, to be started again with it; SIGHUP has it look at once.
An unusable one is said and ignored. SIGTERM ends the process and leaves the rules in the kernel;
`sliceproxy cleanup` removes them.";

const DUMP_EXAMPLES: &str = "\
Without --manifests the running agent is asked over its socket.

Examples:
  sliceproxy dump services
  sliceproxy dump slices shop/web
  sliceproxy dump rows -o json | jq '.[] | select(.set == \"backends\")'
  sliceproxy dump topology --manifests cluster.yaml --node-name node-b2
  sliceproxy dump topology --manifests cluster.yaml --all-nodes";

const EXPLAIN_EXAMPLES: &str = "\
Without --manifests the answer is read from this node's kernel, through the running agent. Only
sliceproxy's own tables are followed; chains of others at the same hooks are named.

Examples:
  sliceproxy explain 10.96.0.10:53/udp
  sliceproxy explain '[fd00:10:96::a]:80' --from fd00:10:244:1::7
  sliceproxy explain shop/web:http -o json
  sliceproxy explain shop/web --manifests cluster.yaml --node-name node-b2";

const DIFF_EXAMPLES: &str = "\
Exit code 0 if the kernel is what it should be, 1 if it is not, 2 if that cannot be said, as
diff(1). With --manifests the kernel of this network namespace is read; it is never written. Node
ports are wanted on the node's addresses that this namespace has: elsewhere than on the node, those
that `render` writes show up as unwanted.

Examples:
  sliceproxy diff
  sliceproxy diff --manifests cluster.yaml --node-name node-a1 -o json";

const RENDER_EXAMPLES: &str = "\
Touches no kernel and needs no rights. The script replaces the tables as a whole. Node ports are
on the addresses of the Node object; `diff` wants them only where this namespace has those.
Prefer the script to -o json: nft's loader of JSON loses the types of maps with verdicts, and
nft 1.0.6 may crash when it lists what nft 1.1.3 has loaded from it.

Examples:
  sliceproxy render --manifests cluster.yaml --node-name node-a1 > node-a1.nft
  sliceproxy render --manifests cluster.yaml --node-name node-a1 | nft --check -f -";

const CLEANUP_EXAMPLES: &str = "\
Other tables are left alone; nothing to remove is no error. A running agent would write its tables
again at once: beside one this fails, and --kube-proxy removes kube-proxy's only.

Examples:
  sliceproxy cleanup
  sliceproxy cleanup --kube-proxy       after moving a node from kube-proxy";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  sliceproxy completions bash > /etc/bash_completion.d/sliceproxy
  source <(sliceproxy completions zsh)";

/// Kubernetes node proxy: EndpointSlices in, nftables rows out.
///
/// Runs on every node in place of kube-proxy. The kernel gets one fixed nftables program; everything
/// that Services and EndpointSlices say becomes rows in its maps.
#[derive(Debug, Parser)]
#[command(
    name = "sliceproxy",
    version = version::FULL,
    about,
    after_help = ROOT_EXAMPLES,
    max_term_width = 100,
    propagate_version = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// A subcommand with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep this node's kernel in step with the cluster's Services
    Run(Box<RunArgs>),
    /// Show on this machine, without a cluster, what it does
    Demo(DemoArgs),
    /// Print what the agent knows: Services, slices, rows, kernel, topology
    Dump(Box<DumpArgs>),
    /// Say where a connection would go, and why
    Explain(Box<ExplainArgs>),
    /// Say what the kernel lacks or has too much
    Diff(Box<DiffArgs>),
    /// Print the nft script that a node would run
    Render(Box<RenderArgs>),
    /// Remove our tables from this node's kernel
    Cleanup(CleanupArgs),
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
}

/// `sliceproxy run`
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, args_override_self = true)]
pub struct RunArgs {
    /// Do what needs full root rights (kernel settings), then end; afterwards CAP_NET_ADMIN is
    /// enough
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_default_value = true,
          hide_possible_values = true, action = clap::ArgAction::Set)]
    pub init_only: bool,
    /// Write the settings in effect to this file (- for standard output) and end
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,
    /// kube-proxy's way to ask for `cleanup`.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = clap::ArgAction::Set)]
    cleanup: bool,
    #[command(flatten)]
    pub flags: Flags,
}

/// `sliceproxy demo`
#[derive(Debug, Args)]
#[command(
    after_help = "Needs root or unprivileged user namespaces, and about 20 s. Leaves nothing behind."
)]
pub struct DemoArgs {
    /// How much is logged: 0 for operators, 2 commits, 4 events, 6 rows
    #[arg(short = 'v', long = "v", value_name = "LEVEL", num_args = 0..=1, default_value_t = 0,
          default_missing_value = "2", hide_default_value = true)]
    pub verbosity: u8,
}

/// The settings that decide which rows a node has.
#[derive(Debug, Clone, Args)]
pub struct OfflineFlags {
    #[command(flatten)]
    pub source: SourceFlags,
    #[command(flatten)]
    pub traffic: TrafficFlags,
}

impl OfflineFlags {
    /// Whether to compute from manifests, rather than ask the running agent.
    pub fn is_offline(&self) -> bool {
        self.source.manifests.is_some()
    }

    /// As flags of `run`, the others at default.
    pub fn to_flags(&self) -> Flags {
        Flags { source: self.source.clone(), traffic: self.traffic.clone(), ..Flags::default() }
    }
}

/// `sliceproxy dump`
#[derive(Debug, Args)]
#[command(after_help = DUMP_EXAMPLES, args_override_self = true)]
pub struct DumpArgs {
    /// What to print
    pub what: DumpKind,
    /// Only this Service, or the Services of this namespace
    #[arg(value_name = "NAMESPACE[/SERVICE]")]
    pub filter: Option<Filter>,
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: OutputFormat,
    /// Topology, with --manifests: the share of every endpoint as seen from every node
    #[arg(long)]
    pub all_nodes: bool,
    /// With --all-nodes: warn where an endpoint gets more than this many times its fair share
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0, value_parser = factor)]
    pub overload_factor: f64,
    #[command(flatten)]
    pub offline: OfflineFlags,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().map_err(|error: std::num::ParseFloatError| error.to_string())?;
    if f64::is_finite(factor) && factor > 0.0 {
        Ok(factor)
    } else {
        Err("must be a number above 0".to_owned())
    }
}

/// What `dump` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DumpKind {
    /// Services and their frontends
    Services,
    /// EndpointSlices and their endpoints
    Slices,
    /// Rows as they should be
    Rows,
    /// Rows as the kernel has them
    Kernel,
    /// Which endpoints each Service port uses, and why
    Topology,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// For both
    Yaml,
}

/// `sliceproxy explain`
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES, args_override_self = true)]
pub struct ExplainArgs {
    /// What is explained.
    #[arg(
        help = "ADDRESS:PORT[/PROTO] or NAMESPACE/SERVICE[:PORT]; the protocol is tcp unless given"
    )]
    pub target: Target,
    /// The client's address
    #[arg(long, value_name = "IP", value_parser = client)]
    pub from: Option<IpAddr>,
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: OutputFormat,
    #[command(flatten)]
    pub offline: OfflineFlags,
}

/// `sliceproxy diff`
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES, args_override_self = true)]
pub struct DiffArgs {
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: OutputFormat,
    #[command(flatten)]
    pub offline: OfflineFlags,
}

/// `sliceproxy render`
#[derive(Debug, Args)]
#[command(after_help = RENDER_EXAMPLES, args_override_self = true)]
pub struct RenderArgs {
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "nft")]
    pub output: RenderFormat,
    #[command(flatten)]
    pub offline: OfflineFlags,
}

/// Form of a rendered program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RenderFormat {
    /// For nft -f
    Nft,
    /// For programs; nft -j -f loses the types of maps with verdicts
    Json,
}

/// `sliceproxy cleanup`
#[derive(Debug, Args)]
#[command(after_help = CLEANUP_EXAMPLES)]
pub struct CleanupArgs {
    /// Also remove what kube-proxy left: its nftables tables, and its chains of iptables-nft
    #[arg(long)]
    pub kube_proxy: bool,
}

/// `sliceproxy completions`
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// A parsed command line.
#[derive(Debug)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// The flags that were given, with their values, for `/flagz`.
    pub given: BTreeMap<String, String>,
}

/// Everything that can be typed. The version is the program's, whichever command is asked for it.
fn definition() -> clap::Command {
    Cli::command().mut_subcommands(|command| command.display_name("sliceproxy"))
}

/// Parses the process's command line; on a mistake, or when asked for help, prints and ends.
pub fn parse() -> Invocation {
    let checked = |matches| from_matches(&matches).map_err(|e| e.format(&mut definition()));
    let parsed = definition().try_get_matches().and_then(checked);
    parsed.unwrap_or_else(|error| mistake::end(&error))
}

/// Parses a given command line, program name first.
///
/// # Errors
/// clap's, help and version included.
pub fn parse_from<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Invocation, clap::Error> {
    from_matches(&definition().try_get_matches_from(words)?)
}

fn from_matches(matches: &ArgMatches) -> Result<Invocation, clap::Error> {
    let command = match Cli::from_arg_matches(matches)?.command {
        Command::Run(run) if run.cleanup => Command::Cleanup(CleanupArgs { kube_proxy: false }),
        command => command,
    };
    let given = matches.subcommand().map(|(_, matches)| given_flags(matches)).unwrap_or_default();
    if let Command::Dump(_) | Command::Explain(_) | Command::Diff(_) = command {
        check_offline_flags(&given)?;
    }
    Ok(Invocation { command, given })
}

fn given_flags(matches: &ArgMatches) -> BTreeMap<String, String> {
    let on_command_line = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let text = |id: &str| {
        let values = matches.try_get_raw(id).ok().flatten()?;
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        Some((id.replace('_', "-"), values.join(",")))
    };
    // A group has the values of its members; it begins with a capital, as the struct it is made of.
    let is_flag = |id: &&str| id.starts_with(|c: char| c.is_ascii_lowercase());
    let ids = matches.ids().map(clap::Id::as_str);
    ids.filter(is_flag).filter(on_command_line).filter_map(text).collect()
}

/// The running agent has its own node and settings: flags that say others would be ignored.
fn check_offline_flags(given: &BTreeMap<String, String>) -> Result<(), clap::Error> {
    if given.contains_key("manifests") {
        return Ok(());
    }
    // Where the agent is found.
    let asking = ["config", "admin-socket"];
    let offline = OfflineFlags::augment_args(clap::Command::new("offline"));
    let lacking: Vec<String> = offline
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .filter(|name| given.contains_key(*name) && !asking.contains(name))
        .map(|name| format!("--{name}"))
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} can only be used with --manifests PATH: without it, the running agent answers for its \
         own node and with its own settings",
        lacking.join(", ")
    );
    Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, message))
}

impl CompletionsArgs {
    /// The script.
    pub fn script(&self) -> String {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut definition(), "sliceproxy", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
