//! One Service port in one family: its pool, the frontends it owns, and what it has in the ledger.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sliceproxy_dataplane::frontend::{Endpoint, Frontend};
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::rows::{Row, RowKey, Slot};
use sliceproxy_dataplane::slots::{SlotChanges, Slots};
use smallvec::SmallVec;

use crate::claims::Claims;
use crate::desired::{Feeds, FrontendKind, Head, Situation, head};
use crate::model::{Service, ServicePort, ServicePortName};
use crate::pool::{Pool, PoolChanges};

/// What the ledger holds for a Service port.
#[derive(Debug, Clone, Default)]
struct Rendered {
    /// Sorted.
    frontends: SmallVec<[(Frontend, Feeds); 1]>,
    cluster: u32,
    local: u32,
    head: Head,
    hairpins: BTreeSet<Endpoint>,
    /// Endpoints, and how many of them get connections, where a limit keeps some out.
    rounded: Option<(u32, u32)>,
}

impl Rendered {
    /// Where `frontend` is, or has to be put.
    fn place(&self, frontend: &Frontend) -> Result<usize, usize> {
        self.frontends.binary_search_by_key(frontend, |(frontend, _)| *frontend)
    }

    /// What `frontend` reads, if it is there.
    fn feeds(&self, frontend: &Frontend) -> Option<Feeds> {
        self.place(frontend).ok().map(|place| self.frontends[place].1)
    }
}

/// What holds for every Service port of a node.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Its own addresses.
    pub node_addresses: &'a [IpAddr],
    /// Most different numbers of endpoints.
    pub endpoint_counts: u32,
}

/// A Service port in one family.
#[derive(Debug, Clone)]
pub struct Port {
    /// Its name.
    pub name: ServicePortName,
    /// Its ports, as the Service says.
    pub spec: ServicePort,
    /// Its endpoints.
    pub pool: Pool,
    /// The frontends that it asks for, sorted.
    pub claimed: Vec<(Frontend, FrontendKind)>,
    /// How many of them it may have.
    allowance: usize,
    rendered: Rendered,
}

/// Which of the two maps of slots.
type SlotKey = fn(Frontend, Slot) -> RowKey;

impl Port {
    /// A Service port without frontends yet.
    pub fn new(name: ServicePortName, spec: ServicePort, pool: Pool) -> Self {
        let (claimed, rendered) = (Vec::new(), Rendered::default());
        Self { name, spec, pool, claimed, allowance: usize::MAX, rendered }
    }

    /// It may have so many frontends. Whether that is news.
    pub fn allow(&mut self, frontends: usize) -> bool {
        std::mem::replace(&mut self.allowance, frontends) != frontends
    }

    /// Frontends that it may not have.
    pub fn unserved(&self) -> usize {
        self.claimed.len().saturating_sub(self.allowance)
    }

    /// Endpoints, and how many of them get connections, where a limit keeps some out.
    pub fn rounded(&self) -> Option<(u32, u32)> {
        self.rendered.rounded
    }

    /// The frontends that it claims, may have, and no other Service port has a better claim to;
    /// sorted.
    pub fn entitled(&self, claims: &Claims) -> Vec<(Frontend, FrontendKind)> {
        let is_owner = |frontend: &Frontend| claims.owner(frontend) == Some(&self.name);
        let mut owned: Vec<_> =
            self.claimed.iter().filter(|(frontend, _)| is_owner(frontend)).copied().collect();
        if owned.len() > self.allowance {
            owned.sort_unstable_by_key(|(frontend, kind)| (*kind, *frontend));
            owned.truncate(self.allowance);
            owned.sort_unstable();
        }
        owned
    }

    /// The frontends that it owns.
    pub fn owned(&self) -> impl Iterator<Item = &Frontend> {
        self.rendered.frontends.iter().map(|(frontend, _)| frontend)
    }

    /// Whether `endpoint` may serve connections of this Service port.
    pub fn serves(&self, endpoint: &Endpoint) -> bool {
        self.pool.cluster().contains(endpoint) || self.pool.local().contains(endpoint)
    }

    /// Whether a connection to `frontend` may be given `endpoint`. `inside`: from a pod or this node,
    /// as opposed to a client outside.
    pub fn gives(&self, frontend: &Frontend, endpoint: &Endpoint, inside: bool) -> bool {
        let Some(feeds) = self.rendered.feeds(frontend) else { return false };
        let slots = if feeds.cluster && (inside || !feeds.local) {
            self.pool.cluster()
        } else {
            self.pool.local()
        };
        slots.contains(endpoint)
    }

    /// Takes the rows of frontends that are not in `owned` out of the ledger, and gives these
    /// frontends. Done for every Service port concerned before any of them is rendered, so that a
    /// frontend can change hands.
    pub fn retract(
        &mut self,
        owned: &[(Frontend, FrontendKind)],
        ledger: &mut Ledger,
    ) -> Vec<Frontend> {
        let kept =
            |frontend: &Frontend| owned.binary_search_by_key(frontend, |(owned, _)| *owned).is_ok();
        let lost: Vec<Frontend> =
            self.owned().filter(|frontend| !kept(frontend)).copied().collect();
        for frontend in &lost {
            if let Ok(place) = self.rendered.place(frontend) {
                let (_, feeds) = self.rendered.frontends.remove(place);
                self.clear_slots(*frontend, feeds, ledger);
            }
        }
        if !lost.is_empty() {
            let is_lost = |frontend| lost.binary_search(&frontend).is_ok();
            self.rendered.head.own.retain(|row| {
                let gone = row.key.frontend().is_some_and(is_lost);
                if gone {
                    ledger.remove(row.key);
                }
                !gone
            });
        }
        lost
    }

    /// Takes everything out of the ledger, and gives the frontends that it had.
    pub fn withdraw(&mut self, ledger: &mut Ledger) -> Vec<Frontend> {
        let lost = self.retract(&[], ledger);
        for row in std::mem::take(&mut self.rendered.head.shared) {
            ledger.release(row.key);
        }
        for endpoint in std::mem::take(&mut self.rendered.hairpins) {
            ledger.release(RowKey::Hairpin(self.name.protocol, endpoint));
        }
        lost
    }

    /// Brings the ledger up to date: the head rows, the `changes` of slots for the frontends that
    /// were there before, and all slots of new ones. Gives the new ones.
    pub fn render(
        &mut self,
        service: &Service,
        owned: &[(Frontend, FrontendKind)],
        changes: &PoolChanges,
        terms: Terms<'_>,
        ledger: &mut Ledger,
    ) -> Vec<Frontend> {
        let mut gained = Vec::new();
        for &(frontend, kind) in owned {
            let feeds = Feeds::of(service, kind);
            match self.rendered.place(&frontend) {
                Ok(place) if self.rendered.frontends[place].1 == feeds => {
                    self.change_slots(frontend, feeds, changes, ledger);
                }
                Ok(place) => {
                    let before = std::mem::replace(&mut self.rendered.frontends[place].1, feeds);
                    self.clear_slots(frontend, before, ledger);
                    self.fill_slots(frontend, feeds, ledger);
                }
                Err(place) => {
                    self.rendered.frontends.insert(place, (frontend, feeds));
                    gained.push(frontend);
                    self.fill_slots(frontend, feeds, ledger);
                }
            }
        }
        self.replace_hairpins(ledger);
        self.rendered.cluster = self.pool.cluster().len();
        self.rendered.local = self.pool.local().len();
        let family = self.pool.family();
        let affordable = |n| ledger.affordable(family, n, terms.endpoint_counts);
        let (cluster, local) = (affordable(self.rendered.cluster), affordable(self.rendered.local));
        self.rendered.rounded = [(self.rendered.cluster, cluster), (self.rendered.local, local)]
            .into_iter()
            .find(|(wanted, used)| !owned.is_empty() && used < wanted);
        let head = head(&Situation {
            service,
            frontends: owned,
            cluster,
            local,
            any_usable: self.pool.tally().any_usable(),
            node_addresses: terms.node_addresses,
        });
        self.replace_head(head, ledger);
        gained
    }

    fn replace_hairpins(&mut self, ledger: &mut Ledger) {
        let key = |endpoint: &Endpoint| RowKey::Hairpin(self.name.protocol, *endpoint);
        let (old, new) = (&self.rendered.hairpins, self.pool.hairpins());
        if old != new {
            new.difference(old).for_each(|endpoint| ledger.hold(Row::member(key(endpoint))));
            old.difference(new).for_each(|endpoint| ledger.release(key(endpoint)));
            self.rendered.hairpins.clone_from(new);
        }
    }

    fn replace_head(&mut self, new: Head, ledger: &mut Ledger) {
        if new == self.rendered.head {
            return;
        }
        let old = std::mem::replace(&mut self.rendered.head, new);
        let new = &self.rendered.head;
        for group in &new.groups {
            ledger.learn_chain(group.clone());
        }
        for row in &new.own {
            if old.own.binary_search(row).is_err() {
                ledger.put(*row);
            }
        }
        for row in &old.own {
            if !new.own.iter().any(|kept| kept.key == row.key) {
                ledger.remove(row.key);
            }
        }
        for row in new.shared.iter().filter(|row| !old.shared.contains(row)) {
            ledger.hold(*row);
        }
        for row in old.shared.iter().filter(|row| !new.shared.contains(row)) {
            ledger.release(row.key);
        }
    }

    fn maps(&self, feeds: Feeds) -> [(bool, SlotKey, &Slots, u32); 2] {
        [
            (feeds.cluster, RowKey::Backend, self.pool.cluster(), self.rendered.cluster),
            (feeds.local, RowKey::LocalBackend, self.pool.local(), self.rendered.local),
        ]
    }

    fn fill_slots(&self, frontend: Frontend, feeds: Feeds, ledger: &mut Ledger) {
        for (_, key, slots, _) in self.maps(feeds).into_iter().filter(|map| map.0) {
            for (slot, endpoint) in slots.iter() {
                ledger.put(Row::endpoint(key(frontend, slot), endpoint));
            }
        }
    }

    fn clear_slots(&self, frontend: Frontend, feeds: Feeds, ledger: &mut Ledger) {
        for (_, key, _, rendered) in self.maps(feeds).into_iter().filter(|map| map.0) {
            for slot in 0..rendered {
                ledger.remove(key(frontend, slot));
            }
        }
    }

    fn change_slots(
        &self,
        frontend: Frontend,
        feeds: Feeds,
        changes: &PoolChanges,
        ledger: &mut Ledger,
    ) {
        let [cluster, local] = self.maps(feeds);
        for ((used, key, ..), changes) in [(cluster, &changes.cluster), (local, &changes.local)] {
            let changes: &SlotChanges = changes;
            for (slot, endpoint) in changes.iter().filter(|_| used) {
                match endpoint {
                    Some(endpoint) => ledger.put(Row::endpoint(key(frontend, *slot), *endpoint)),
                    None => ledger.remove(key(frontend, *slot)),
                }
            }
        }
    }
}
