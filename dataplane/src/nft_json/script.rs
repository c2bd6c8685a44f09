//! Program and rows as an nft script, in the form in which nft lists them.

use std::fmt::Write;

use ipnetwork::IpNetwork;

use super::{Contents, Example, PRIORITIES, SLOT_EXAMPLE, is_single, key_examples, merges};
use crate::frontend::{Family, Protocol};
use crate::program::{
    Action, ChainDef, ChainKind, Field, Hook, Match, SERVICE_PROTOCOLS, SetDef, SetValue, TABLE,
};
use crate::rows::{Row, RowKey, RowValue, SetName};

const HEADER: &str = "\
#!/usr/sbin/nft -f
# Kubernetes Services as an nftables program and its rows, rendered by sliceproxy.
# Replaces the tables named here in one transaction. Needs nft 1.1.3 or later.
";

/// One script that replaces all these tables at once.
pub fn script(tables: &[Contents]) -> String {
    let mut out = HEADER.to_owned();
    for contents in tables {
        let table = format!("{} {TABLE}", contents.family().nft_name());
        // Deleting what may not be there needs it to be there.
        line(&mut out, 0, &format!("\nadd table {table}\ndelete table {table}"));
        line(&mut out, 0, &format!("table {table} {{"));
        line(&mut out, 1, &format!("comment \"{}\"", contents.program.comment()));
        for set in contents.program.sets() {
            write_set(&mut out, &set, contents);
        }
        let chains: Vec<ChainDef> = contents.all_chains().collect();
        for (index, chain) in chains.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            write_chain(&mut out, chain, contents.family());
        }
        line(&mut out, 0, "}");
    }
    out
}

fn line(out: &mut String, depth: usize, text: &str) {
    for _ in 0..depth {
        out.push('\t');
    }
    out.push_str(text);
    out.push('\n');
}

fn write_set(out: &mut String, set: &SetDef, contents: &Contents) {
    let ip = contents.family().nft_name();
    let kind = if set.value == SetValue::None { "set" } else { "map" };
    line(out, 1, &format!("{kind} {} {{", set.name));
    let key: Vec<String> = key_examples(set).into_iter().map(|part| example(part, ip)).collect();
    let value = match set.value {
        SetValue::None => String::new(),
        SetValue::Verdict => " : verdict".to_owned(),
        SetValue::Endpoint => format!(" : {ip} daddr . th dport"),
    };
    line(out, 2, &format!("typeof {}{value}", key.join(" . ")));
    if let Some(size) = set.dynamic {
        line(out, 2, &format!("size {size}"));
        line(out, 2, "flags dynamic,timeout");
    }
    if set.interval {
        line(out, 2, "flags interval");
    }
    if merges(set) {
        line(out, 2, "auto-merge");
    }
    write_elements(out, contents.rows_of(set.name));
    line(out, 1, "}\n");
}

fn example(part: Example, ip: &str) -> String {
    match part {
        Example::Source => format!("{ip} saddr"),
        Example::Destination => format!("{ip} daddr"),
        Example::Protocol => "meta l4proto".to_owned(),
        Example::Port => "th dport".to_owned(),
        Example::Slot => format!("numgen random mod {SLOT_EXAMPLE}"),
    }
}

fn write_elements(out: &mut String, rows: &[Row]) {
    let Some((last, others)) = rows.split_last() else { return };
    let mut begin = "\t\telements = { ";
    for row in others {
        out.push_str(begin);
        write_element(out, row);
        out.push_str(",\n");
        begin = "\t\t\t     ";
    }
    out.push_str(begin);
    write_element(out, last);
    out.push_str(" }\n");
}

fn write_element(out: &mut String, row: &Row) {
    // Writing to a string cannot fail.
    let _ = match row.key {
        RowKey::Service(f)
        | RowKey::LocalService(f)
        | RowKey::NoBackends(f)
        | RowKey::MasqueradeFrontend(f)
        | RowKey::LocalFrontend(f)
        | RowKey::RestrictedFrontend(f)
        | RowKey::StickyFrontend(f) => {
            write!(out, "{} . {} . {}", f.address, f.protocol.nft_name(), f.port)
        }
        RowKey::Backend(f, slot) | RowKey::LocalBackend(f, slot) => {
            write!(out, "{} . {} . {} . {slot}", f.address, f.protocol.nft_name(), f.port)
        }
        RowKey::AllowedSource(f, network) => {
            let network = network_text(network);
            write!(out, "{} . {} . {} . {network}", f.address, f.protocol.nft_name(), f.port)
        }
        RowKey::ClusterIp(address) => write!(out, "{address}"),
        RowKey::ServiceCidr(network) => {
            write!(out, "{}", network_text(network))
        }
        RowKey::Hairpin(protocol, e) => {
            write!(out, "{0} . {0} . {1} . {2}", e.address, protocol.nft_name(), e.port)
        }
    };
    let _ = match row.value {
        RowValue::Member => Ok(()),
        RowValue::Verdict(verdict) => write!(out, " : {verdict}"),
        RowValue::Endpoint(e) => write!(out, " : {} . {}", e.address, e.port),
    };
}

fn write_chain(out: &mut String, chain: &ChainDef, family: Family) {
    line(out, 1, &format!("chain {} {{", chain.name));
    if let Some(hook) = chain.hook {
        line(out, 2, &hook_text(hook));
    }
    for rule in &chain.rules {
        let conditions = rule.matches.iter().map(|condition| match_text(condition, family));
        let actions = rule.actions.iter().map(|action| action_text(action, family));
        let parts: Vec<String> = conditions.chain(actions).collect();
        line(out, 2, &parts.join(" "));
    }
    line(out, 1, "}");
}

fn hook_text(hook: Hook) -> String {
    let kind = match hook.kind {
        ChainKind::Filter => "filter",
        ChainKind::Nat => "nat",
    };
    let near = PRIORITIES.into_iter().find(|(_, base)| (hook.priority - base).abs() <= 10);
    let priority = match near.map(|(name, base)| (name, hook.priority - base)) {
        None => hook.priority.to_string(),
        Some((name, 0)) => name.to_owned(),
        Some((name, above @ 1..)) => format!("{name} + {above}"),
        Some((name, below)) => format!("{name} - {}", -below),
    };
    format!("type {kind} hook {} priority {priority}; policy accept;", hook.point)
}

fn match_text(condition: &Match, family: Family) -> String {
    let ip = family.nft_name();
    let not = |negated: &bool| if *negated { "!= " } else { "" };
    match condition {
        Match::InSet { key, set, negated } => {
            format!("{} {}@{set}", key_text(key, family), not(negated))
        }
        Match::SourceIn { network, negated } => format!("{ip} saddr {}{network}", not(negated)),
        // Checked when the contents were put together.
        Match::InputInterface { name, prefix, negated } => {
            let star = if *prefix { "*" } else { "" };
            format!("iifname {}\"{name}{star}\"", not(negated))
        }
        Match::SourceIsLocal { negated } => format!("fib saddr type {}local", not(negated)),
        Match::StateNew => "ct state new".to_owned(),
        Match::Translated => "ct status dnat".to_owned(),
        Match::ServiceProtocol => {
            let names = SERVICE_PROTOCOLS.map(Protocol::nft_name);
            format!("meta l4proto {{ {} }}", names.join(", "))
        }
        Match::Tcp => "meta l4proto tcp".to_owned(),
        Match::Mark(mask) => format!("meta mark & {mask:#010x} != 0x00000000"),
    }
}

fn action_text(action: &Action, family: Family) -> String {
    let ip = family.nft_name();
    match action {
        Action::SetMark(mask) => format!("meta mark set meta mark | {mask:#010x}"),
        Action::FlipMark(mask) => format!("meta mark set meta mark ^ {mask:#010x}"),
        Action::VerdictMap { key, map } => format!("{} vmap @{map}", key_text(key, family)),
        Action::Dnat { key, map } => {
            format!("dnat {ip} to {} map @{map}", key_text(key, family))
        }
        Action::Masquerade => "masquerade fully-random".to_owned(),
        Action::Learn { key, timeout } => format!(
            "update @{} {{ {} timeout {} : {ip} daddr . th dport }}",
            SetName::Affinity,
            key_text(key, family),
            duration(*timeout)
        ),
        Action::Goto(chain) => format!("goto {chain}"),
        Action::RejectTcpReset => "reject with tcp reset".to_owned(),
        Action::Reject => "reject".to_owned(),
        Action::Drop => "drop".to_owned(),
    }
}

fn key_text(key: &[Field], family: Family) -> String {
    let ip = family.nft_name();
    let part = |field: &Field| match field {
        Field::Source => format!("{ip} saddr"),
        Field::Destination => format!("{ip} daddr"),
        Field::Protocol => "meta l4proto".to_owned(),
        Field::Port => "th dport".to_owned(),
        Field::Random(modulus) => format!("numgen random mod {modulus}"),
        Field::OriginalSource => format!("ct original {ip} saddr"),
        Field::OriginalDestination => format!("ct original {ip} daddr"),
        Field::OriginalPort => "ct original proto-dst".to_owned(),
        Field::FrontendAddress(frontend) => frontend.address.to_string(),
        Field::FrontendPort(frontend) => frontend.port.to_string(),
    };
    key.iter().map(part).collect::<Vec<_>>().join(" . ")
}

/// A network as nft writes it: a single address without its length.
fn network_text(network: IpNetwork) -> String {
    if is_single(network) { network.ip().to_string() } else { network.to_string() }
}

/// Seconds in nft's units, as in `3h` or `1d30s`.
fn duration(seconds: u32) -> String {
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let text: Vec<String> = parts.map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text.concat() }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_written_as_nft_lists_them() {
        for (seconds, text) in
            [(10_800, "3h"), (600, "10m"), (1, "1s"), (0, "0s"), (90_061, "1d1h1m1s")]
        {
            assert_eq!(duration(seconds), text);
        }
    }
}
