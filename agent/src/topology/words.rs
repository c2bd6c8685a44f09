//! Selections in words, for `dump topology` and `explain`. Pure; says what [`choose`](super::choose)
//! and [`Scope::admits`] decided, and decides nothing itself.

use super::{Choice, Here, Level, LocalScope, PassedOver, Scope, Standing, Tally, Why, Wishes};
use crate::model::{SliceEndpoint, TopologyKey};

/// A level's name, as `dump topology` and JSON show it.
pub fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::None => "none",
        Scope::Refused => "refused",
        Scope::Terminating => "terminating",
        Scope::Within(Level::HintedNode) => "hinted-node",
        Scope::Within(Level::HintedZone) => "hinted-zone",
        Scope::Within(Level::Node) => "node",
        Scope::Within(Level::Zone) => "zone",
        Scope::Within(Level::Region) => "region",
        Scope::Anywhere => "anywhere",
    }
}

/// The same for policy Local.
pub fn local_scope_name(scope: LocalScope) -> &'static str {
    match scope {
        LocalScope::None => "none",
        LocalScope::Ready => "local",
        LocalScope::Terminating => "local-terminating",
    }
}

/// Why these endpoints are used for traffic with policy Cluster: one line, the decision first.
pub fn choice(choice: &Choice, tally: &Tally, here: &Here, wishes: &Wishes) -> String {
    let decision = match choice.scope {
        Scope::None if tally.all == 0 => "there is no endpoint".to_owned(),
        Scope::None => format!("{} ready", none_of(tally.all)),
        Scope::Refused => format!("refused: {} allows no ready endpoint", keys(wishes)),
        Scope::Terminating => format!("nothing is ready: {}", still_serving(tally.terminating, "")),
        Scope::Within(level) => format!("{} {}", are(count_at(tally, level)), at(level, here)),
        Scope::Anywhere if choice.passed_over.is_empty() => everything(tally, wishes),
        Scope::Anywhere => all_ready(tally.ready),
    };
    let passed: Vec<String> =
        choice.passed_over.iter().map(|passed| passed_over(passed, here)).collect();
    if passed.is_empty() { decision } else { format!("{decision}; {}", passed.join("; ")) }
}

fn everything(tally: &Tally, wishes: &Wishes) -> String {
    let all = all_ready(tally.ready);
    match (&wishes.keys, wishes.nearest_first) {
        (Some(_), _) => format!("{all}, as {} asks", keys(wishes)),
        (None, true) => all,
        (None, false) => format!("{all}: no hints, TopologyRouting is off"),
    }
}

/// Why a level that would have come first was not chosen.
pub fn passed_over(passed: &PassedOver, here: &Here) -> String {
    let level = level_name(passed.level);
    match passed.why {
        Why::NodeUnlabelled => {
            let label = if passed.level == Level::Region { "region" } else { "zone" };
            format!("not {level}: the {label} of node {} is not known", here.node)
        }
        Why::TooFew { ready: 0, .. } => format!("not {level}: no ready endpoint is there"),
        Why::TooFew { ready, needed } => format!(
            "not {level}: {} there, {} needed (sliceproxy.io/topology-min-endpoints)",
            are_ready(ready),
            numeral(needed)
        ),
        Why::HintsMissing { without, ready } => format!(
            "{level} do not count: {} of {} without",
            numeral(without),
            counted(ready, "ready endpoint")
        ),
        Why::HintedElsewhere => format!("{level} name other places than this one"),
    }
}

/// Why these endpoints are used for traffic with policy Local.
pub fn local_choice(scope: LocalScope, tally: &Tally, here: &Here) -> String {
    match scope {
        LocalScope::Ready => format!("{} on this node {}", are(tally.same_node), here.node),
        LocalScope::Terminating => format!(
            "nothing is ready on this node {}: {}",
            here.node,
            still_serving(tally.local_terminating, " there")
        ),
        LocalScope::None if tally.any_usable() => {
            format!("dropped: no ready endpoint is on this node {}, others are", here.node)
        }
        LocalScope::None => "refused: there is no usable endpoint anywhere".to_owned(),
    }
}

/// One endpoint under a choice for policy Cluster: what it is, whether it is used, and why.
pub fn endpoint(
    standing: Standing,
    description: &SliceEndpoint,
    scope: Scope,
    tally: &Tally,
    here: &Here,
) -> String {
    let what = what_it_is(standing, description, here);
    if scope.admits(standing) {
        let why = match scope {
            Scope::Within(level) => at(level, here),
            Scope::Terminating => "nothing is ready and it still serves".to_owned(),
            _ => return format!("{what}, used"),
        };
        return format!("{what}, used: {why}");
    }
    let why = if standing.ready {
        match scope {
            Scope::Within(level) => format!("{} {}", are(count_at(tally, level)), at(level, here)),
            Scope::Refused => "the Service's topology keys do not allow it".to_owned(),
            Scope::None | Scope::Terminating | Scope::Anywhere => {
                return format!("{what}, not used");
            }
        }
    } else {
        not_ready(standing, tally.ready)
    };
    format!("{what}, not used: {why}")
}

/// One endpoint under a choice for policy Local.
pub fn local_endpoint(
    standing: Standing,
    description: &SliceEndpoint,
    scope: LocalScope,
    tally: &Tally,
    here: &Here,
) -> String {
    let what = what_it_is(standing, description, here);
    if scope.admits(standing) {
        return format!("{what}, used: it is on this node {}", here.node);
    }
    if !standing.same_node {
        return format!("{what}, not used: policy Local, and it is not on this node {}", here.node);
    }
    format!("{what}, not used: {}", not_ready(standing, tally.same_node))
}

fn not_ready(standing: Standing, ready: u32) -> String {
    if standing.is_fallback() && ready > 0 {
        are_ready(ready)
    } else if standing.terminating {
        "it no longer serves".to_owned()
    } else {
        "it takes no new connections".to_owned()
    }
}

fn what_it_is(standing: Standing, description: &SliceEndpoint, here: &Here) -> String {
    let condition = match (standing.ready, standing.terminating, standing.serving) {
        (true, false, _) => "ready",
        (true, true, _) => "ready though terminating",
        (false, true, true) => "terminating, still serving",
        (false, true, false) => "terminating",
        (false, false, _) => "not ready",
    };
    let place = match (&description.zone, &description.node) {
        (Some(zone), _) => format!("zone {zone}"),
        (None, Some(node)) if *node == here.node => "on this node".to_owned(),
        (None, Some(node)) => format!("node {node}, zone not known"),
        (None, None) => "place not known".to_owned(),
    };
    format!("{condition}, {place}")
}

/// Where a level is, seen from here.
fn at(level: Level, here: &Here) -> String {
    let named = |what: &str, name: Option<String>| match name {
        Some(name) => format!("in this node's {what} {name}"),
        None => format!("in this node's {what}"),
    };
    match level {
        Level::HintedNode => format!("hinted for this node {}", here.node),
        Level::HintedZone => match &here.zone {
            Some(zone) => format!("hinted for this node's zone {zone}"),
            None => "hinted for this node's zone".to_owned(),
        },
        Level::Node => format!("on this node {}", here.node),
        Level::Zone => named("zone", here.zone.as_ref().map(ToString::to_string)),
        Level::Region => named("region", here.region.as_ref().map(ToString::to_string)),
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::HintedNode => "node hints",
        Level::HintedZone => "zone hints",
        Level::Node => "same node",
        Level::Zone => "same zone",
        Level::Region => "same region",
    }
}

fn count_at(tally: &Tally, level: Level) -> u32 {
    match level {
        Level::HintedNode => tally.hinted_for_node,
        Level::HintedZone => tally.hinted_for_zone,
        Level::Node => tally.same_node,
        Level::Zone => tally.same_zone,
        Level::Region => tally.same_region,
    }
}

fn keys(wishes: &Wishes) -> String {
    let names: Vec<&str> = wishes.keys.iter().flatten().copied().map(key_name).collect();
    format!("sliceproxy.io/topology-keys ({})", names.join(", "))
}

fn key_name(key: TopologyKey) -> &'static str {
    match key {
        TopologyKey::Hostname => "kubernetes.io/hostname",
        TopologyKey::Zone => "topology.kubernetes.io/zone",
        TopologyKey::Region => "topology.kubernetes.io/region",
        TopologyKey::Any => "*",
    }
}

/// Small numbers read better as words.
fn numeral(number: u32) -> String {
    const WORDS: [&str; 11] =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let word = usize::try_from(number).ok().and_then(|number| WORDS.get(number));
    word.map_or_else(|| number.to_string(), ToString::to_string)
}

fn counted(number: u32, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", numeral(number))
}

fn all_ready(number: u32) -> String {
    match number {
        1 => "the only ready endpoint is used".to_owned(),
        2 => "both ready endpoints are used".to_owned(),
        number => format!("all {} are used", counted(number, "ready endpoint")),
    }
}

fn still_serving(number: u32, place: &str) -> String {
    match number {
        1 => format!("the one endpoint{place} that terminates but still serves is used"),
        number => format!(
            "the {}{place} that terminate but still serve are used",
            counted(number, "endpoint")
        ),
    }
}

fn are(number: u32) -> String {
    format!("{} {}", counted(number, "endpoint"), if number == 1 { "is" } else { "are" })
}

fn are_ready(number: u32) -> String {
    format!("{} ready", are(number))
}

fn none_of(number: u32) -> String {
    match number {
        1 => "the only endpoint is not".to_owned(),
        number => format!("none of {} is", counted(number, "endpoint")),
    }
}

#[cfg(test)]
mod tests;
