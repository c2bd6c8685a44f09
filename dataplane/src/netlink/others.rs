//! Chains of others, listed: they see the same packets, and may drop or redirect them.

use std::fmt;

use super::dump::list;
use super::number::{chain, message};
use super::socket::Channel;
use super::wire::{Attributes, Message};
use crate::kernel::KernelError;
use crate::program::TABLE;

/// Attempts to list chains while others change them.
const ATTEMPTS: u32 = 8;

/// A chain in somebody else's table, in a family that sees IP packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherChain {
    /// `ip`, `ip6` or `inet`.
    pub family: &'static str,
    /// The table.
    pub table: String,
    /// The chain.
    pub name: String,
    /// Where it sees packets; `None` if only other chains lead to it.
    pub hook: Option<OtherHook>,
    /// Rules in it, and ways to it.
    pub uses: u32,
}

/// The place of somebody else's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherHook {
    /// Its name, such as `forward`.
    pub point: &'static str,
    /// Order among the chains at that place; lower is earlier.
    pub priority: i32,
    /// Whether it drops what no rule decides.
    pub drops: bool,
}

impl OtherChain {
    /// Whether it sees packets, and can do something to them.
    pub fn may_interfere(&self) -> bool {
        self.hook.is_some_and(|hook| self.uses > 0 || hook.drops)
    }
}

impl fmt::Display for OtherChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, table, name, hook, .. } = self;
        write!(f, "table {family} {}, chain {}", table.escape_debug(), name.escape_debug())?;
        if let Some(OtherHook { point, priority, drops }) = hook {
            let policy = if *drops { ", policy drop" } else { "" };
            write!(f, " ({point}, priority {priority}{policy})")?;
        }
        Ok(())
    }
}

/// The chains of others in the calling thread's network namespace that `wanted` names, in the
/// kernel's order.
///
/// # Errors
/// See [`KernelError`].
pub fn other_chains(wanted: impl Fn(&OtherChain) -> bool) -> Result<Vec<OtherChain>, KernelError> {
    let mut channel = Channel::open()?;
    for _ in 0..ATTEMPTS {
        let mut found = Vec::new();
        let each = |answer: Message<'_>| {
            let chain = answer.family().and_then(|family| parse(family, answer.attributes()));
            found.extend(chain.filter(&wanted));
        };
        if list(&mut channel, message::GET_CHAIN, 0, each)? {
            return Ok(found);
        }
    }
    Err(KernelError::Torn(ATTEMPTS))
}

fn parse(family: u8, attributes: Attributes<'_>) -> Option<OtherChain> {
    let family = match family {
        1 => "inet",
        2 => "ip",
        10 => "ip6",
        _ => return None,
    };
    let text = |kind| attributes.find(kind).and_then(|name| name.text());
    let number = |kind| attributes.find(kind).and_then(|number| number.number());
    let table = text(chain::TABLE).filter(|table| *table != TABLE || family == "inet")?;
    let hook = attributes.find(chain::HOOK).and_then(|hook| {
        let number_in = |kind| hook.nested().find(kind).and_then(|number| number.number());
        Some(OtherHook {
            point: point(number_in(chain::HOOK_NUMBER)?)?,
            priority: number_in(chain::HOOK_PRIORITY)?.cast_signed(),
            drops: number(chain::POLICY) == Some(0),
        })
    });
    Some(OtherChain {
        family,
        table: table.to_owned(),
        name: text(chain::NAME)?.to_owned(),
        hook,
        uses: number(chain::USE).unwrap_or_default(),
    })
}

fn point(hook: u32) -> Option<&'static str> {
    const POINTS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];
    POINTS.get(usize::try_from(hook).ok()?).copied()
}
