//! Walks in words.

use std::fmt;
use std::mem::Discriminant;

use super::{
    Choice, Event, Fate, KeyPart, Masquerade, MasqueradedFor, Outcome, RefusedBy, Step, Walk,
};
use crate::frontend::{Family, Protocol};
use crate::program::{HookPoint, Match};
use crate::rows::RowValue;

/// What two endpoints' steps have in common if they differ in nothing but the endpoint.
pub(super) type Shape = (String, usize, Option<Discriminant<Event>>, bool);

impl Step {
    pub(super) fn shape(&self) -> Shape {
        match self {
            Self::Rule { chain, rule, event, .. } => {
                let yes = match event {
                    Event::Condition { holds, .. } => *holds,
                    Event::LookedUp { found, .. } => found.is_some(),
                    Event::Drawn { found, .. } => *found > 0,
                    _ => true,
                };
                (chain.clone(), *rule, Some(std::mem::discriminant(event)), yes)
            }
            Self::Routed { local, .. } => (String::new(), 0, None, *local),
            Self::Choices { .. } => (String::new(), 1, None, true),
        }
    }
}

impl Masquerade {
    /// What holds for all of `choices`.
    pub(super) fn over(choices: &[Choice]) -> Self {
        let any = |why| choices.iter().any(|choice| choice.masqueraded == Some(why));
        if any(MasqueradedFor::Mark) {
            Self::Always
        } else if any(MasqueradedFor::Hairpin) {
            Self::HairpinOnly
        } else {
            Self::Never
        }
    }
}

/// A condition as nft writes it.
pub(super) fn condition(what: &Match, family: Family) -> String {
    let ip = family.nft_name();
    let not = |negated: &bool| if *negated { "!= " } else { "" };
    match what {
        Match::InSet { set, negated, .. } => format!("{}@{set}", not(negated)),
        Match::SourceIn { network, negated } => format!("{ip} saddr {}{network}", not(negated)),
        Match::InputInterface { name, prefix, negated } => {
            let star = if *prefix { "*" } else { "" };
            format!("iifname {}\"{}{star}\"", not(negated), name.escape_default())
        }
        Match::SourceIsLocal { negated } => format!("fib saddr type {}local", not(negated)),
        Match::StateNew => "ct state new".to_owned(),
        Match::Translated => "ct status dnat".to_owned(),
        Match::ServiceProtocol => "meta l4proto { tcp, udp, sctp }".to_owned(),
        Match::Tcp => "meta l4proto tcp".to_owned(),
        Match::Mark(mask) => format!("meta mark & {mask:#010x} != 0"),
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        })
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Protocol(number) => match Protocol::from_number(*number) {
                Some(protocol) => f.write_str(protocol.nft_name()),
                None => write!(f, "protocol {number}"),
            },
            Self::Port(port) => port.fmt(f),
            Self::Random(0 | 1) => f.write_str("0"),
            Self::Random(modulus) => write!(f, "0..{}", modulus - 1),
        }
    }
}

/// A key with its parts as nft separates them.
struct Key<'a>(&'a [KeyPart]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { " . " };
            write!(f, "{separator}{part}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RefusedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TcpReset => "TCP reset",
            Self::Icmp => "ICMP port unreachable",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition { text, holds } => {
                write!(f, "{text}: {}", if *holds { "yes" } else { "no" })
            }
            Self::LookedUp { set, key, found } => {
                write!(f, "{set} {{ {} }}: ", Key(key))?;
                match found {
                    None => f.write_str("not there"),
                    Some(RowValue::Member) => f.write_str("there"),
                    Some(value) => value.fmt(f),
                }
            }
            Self::Drawn { map, key, found } => {
                write!(f, "{map} {{ {} }}: one at random, {found} there", Key(key))
            }
            Self::Marked => f.write_str("marked for masquerading"),
            Self::Unmarked => f.write_str("mark taken off"),
            Self::Masqueraded => f.write_str("source address becomes the node's"),
            Self::WentTo(chain) => write!(f, "goto {chain}"),
            Self::Learned { key, endpoint, seconds } => {
                write!(f, "remembers {} -> {endpoint} for {seconds} s", Key(key))
            }
            Self::LearnedForGroup => {
                f.write_str("remembers the client for all frontends of the Service port")
            }
            Self::ChainMissing(chain) => write!(f, "chain {chain} does not exist"),
            Self::Refused(by) => write!(f, "refused by {by}"),
            Self::Dropped => f.write_str("dropped"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { hook, chain, rule: 0, event } => write!(f, "{hook} {chain}: {event}"),
            Self::Rule { hook, chain, rule, event } => write!(f, "{hook} {chain}[{rule}]: {event}"),
            Self::Routed { destination, local: true } => {
                write!(f, "routing: {destination} is this node")
            }
            Self::Routed { destination, local: false } => {
                write!(f, "routing: {destination} is elsewhere")
            }
            Self::Choices { endpoint, others: 0 } => write!(f, "to {endpoint}:"),
            Self::Choices { endpoint, others } => write!(f, "to {endpoint} and {others} more:"),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered => f.write_str("delivered"),
            Self::Refused { by, chain } => write!(f, "refused by {by} in {chain}"),
            Self::Dropped { chain } => write!(f, "dropped in {chain}"),
        }
    }
}

impl fmt::Display for Masquerade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "the endpoint sees the sender's address",
            Self::Always => "the endpoint sees the node's address",
            Self::HairpinOnly => "the sender's own endpoint sees the node's address",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passes untouched"),
            Self::Refused { by, chain } => write!(f, "refused by {by} in {chain}"),
            Self::Dropped { chain } => write!(f, "dropped in {chain}"),
            Self::Translated { choices, lost, masquerade } => {
                let total =
                    choices.iter().fold(u64::from(*lost), |sum, c| sum + u64::from(c.share));
                write!(f, "translated; {masquerade}")?;
                for Choice { slot, endpoint, share, fate, .. } in choices {
                    match slot {
                        Some(slot) => write!(f, "\n  slot {slot}: {endpoint}, {share} in {total}")?,
                        None => write!(f, "\n  remembered: {endpoint}")?,
                    }
                    if *fate != Fate::Delivered {
                        write!(f, ", {fate}")?;
                    }
                }
                match lost {
                    0 => Ok(()),
                    lost => write!(f, "\n  no endpoint found: {lost} in {total}"),
                }
            }
        }
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        self.outcome.fmt(f)
    }
}
