//! Which Services go without a frontend because another one has it, as far as it is news: for the
//! log and for Events.

use std::collections::BTreeMap;

use sliceproxy_dataplane::frontend::Frontend;
use sliceproxy_dataplane::kernel::Kernel;

use crate::engine::Engine;
use crate::model::ServiceName;

/// What was said before.
#[derive(Debug, Default)]
pub struct Conflicts {
    disputes: u64,
    /// Services that go without a frontend, and what was said of each.
    losers: BTreeMap<ServiceName, String>,
}

impl Conflicts {
    /// What is new since the last look: a sentence about each Service that has lost a frontend.
    pub fn news<K: Kernel>(&mut self, engine: &Engine<K>) -> Vec<(ServiceName, String)> {
        let disputes = engine.claims().disputes();
        if disputes == self.disputes {
            return Vec::new();
        }
        self.disputes = disputes;
        let losers = losers(engine);
        let new = losers.iter().filter(|(service, note)| self.losers.get(*service) != Some(*note));
        let news = new.map(|(service, note)| (service.clone(), note.clone())).collect();
        self.losers = losers;
        news
    }
}

/// One sentence for each Service that goes without a frontend.
fn losers<K: Kernel>(engine: &Engine<K>) -> BTreeMap<ServiceName, String> {
    let mut lost: BTreeMap<&ServiceName, Vec<Frontend>> = BTreeMap::new();
    for (frontend, losers) in engine.claims().conflicts() {
        for loser in losers {
            lost.entry(&loser.service).or_default().push(*frontend);
        }
    }
    let sentence = |(service, mut frontends): (&ServiceName, Vec<Frontend>)| {
        frontends.sort_unstable();
        frontends.dedup();
        let first = frontends.first()?;
        let winner = engine.claims().owner(first).map_or_else(
            || format!("{} is the cluster IP of another Service", first.address),
            |owner| format!("{first} is served for {owner}, which has the better claim"),
        );
        let more = match frontends.len() {
            1 => String::new(),
            more => format!("; the same goes for {} more frontends", more - 1),
        };
        Some((service.clone(), winner + &more))
    };
    lost.into_iter().filter_map(sentence).collect()
}
