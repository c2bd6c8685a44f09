//! The endpoints of one Service port in one family: gathered from its slices, selected, numbered.
//!
//! A pool takes the difference between two versions of a slice and gives the slots that changed.
//! It looks at endpoints outside that slice only when the choice of scope itself changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use sliceproxy_dataplane::frontend::{Endpoint, Family, Protocol};
use sliceproxy_dataplane::slots::{SlotChanges, Slots};
use smallvec::SmallVec;

use crate::model::{PortName, Slice, SliceEndpoint, SlicePort};
use crate::topology::{
    Choice, Here, LocalScope, Scope, Standing, Tally, Wishes, choose, choose_local,
};

/// Where an endpoint is described: a slice, and the position in it.
#[derive(Debug, Clone)]
struct Source {
    slice: Arc<Slice>,
    position: u32,
}

impl Source {
    fn endpoint(&self) -> Option<&SliceEndpoint> {
        self.slice.endpoints.get(self.position as usize)
    }
}

/// An address and port, with every description of it.
///
/// The same endpoint may stand in several slices, or twice in one; the most useful description
/// counts, so the outcome depends neither on order nor on arrival.
#[derive(Debug, Clone)]
struct Candidate {
    /// Usually one.
    sources: SmallVec<[Source; 1]>,
    standing: Option<Standing>,
}

impl Candidate {
    fn best(&self) -> Option<&SliceEndpoint> {
        self.sources.iter().filter_map(Source::endpoint).max_by_key(|endpoint| {
            let conditions = endpoint.conditions;
            (conditions.ready, !conditions.terminating, conditions.serving, *endpoint)
        })
    }
}

/// Slots that changed, for the two kinds of traffic, and hairpins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an effect of its own")]
pub struct PoolChanges {
    /// Slots of the endpoints for policy Cluster.
    pub cluster: SlotChanges,
    /// Slots of the endpoints for policy Local.
    pub local: SlotChanges,
    /// Whether [`Pool::hairpins`] are other ones now.
    pub hairpins: bool,
    /// Whether [`Pool::local_scope`] is another one now: the same endpoints may be ready instead of
    /// terminating, which changes no slot.
    pub local_scope: bool,
    /// Whether an endpoint that was used for either kind of traffic no longer is.
    pub endpoints_left: bool,
    /// Whether an endpoint, used or not, may no longer answer UDP flows that it has.
    pub stopped_answering: bool,
}

impl PoolChanges {
    /// Whether no slot and no hairpin changed.
    pub fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.local.is_empty() && !self.hairpins
    }

    /// Whether other endpoints on this node may be ready now.
    pub fn concern_checks(&self) -> bool {
        self.local_scope || !self.local.is_empty()
    }
}

/// An endpoint of a pool, for display.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// Address and port.
    pub endpoint: Endpoint,
    /// Its most useful description.
    pub description: &'a SliceEndpoint,
    /// How it stands to this node.
    pub standing: Standing,
    /// The slices that describe it.
    pub slices: Vec<&'a Slice>,
}

/// The endpoints of one Service port in one family.
#[derive(Debug, Clone)]
pub struct Pool {
    name: PortName,
    protocol: Protocol,
    family: Family,
    candidates: FxHashMap<Endpoint, Candidate>,
    tally: Tally,
    /// What the selection was last made for.
    basis: Option<(Arc<Here>, Wishes)>,
    choice: Choice,
    local_scope: LocalScope,
    cluster: Slots,
    local: Slots,
    hairpins: BTreeSet<Endpoint>,
}

impl Pool {
    /// The empty pool of a Service port in `family`.
    pub fn new(name: PortName, protocol: Protocol, family: Family) -> Self {
        Self {
            name,
            protocol,
            family,
            candidates: FxHashMap::default(),
            tally: Tally::default(),
            basis: None,
            choice: Choice { scope: Scope::None, passed_over: Vec::new() },
            local_scope: LocalScope::None,
            cluster: Slots::default(),
            local: Slots::default(),
            hairpins: BTreeSet::new(),
        }
    }

    /// The family of its endpoints.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The endpoints for policy Cluster.
    pub fn cluster(&self) -> &Slots {
        &self.cluster
    }

    /// The endpoints for policy Local.
    pub fn local(&self) -> &Slots {
        &self.local
    }

    /// How many endpoints stand how to this node.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The choice for policy Cluster.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The choice for policy Local.
    pub fn local_scope(&self) -> LocalScope {
        self.local_scope
    }

    /// Number of endpoints, used or not.
    pub fn size(&self) -> usize {
        self.candidates.len()
    }

    /// All endpoints, used or not, sorted.
    pub fn members(&self) -> Vec<Member<'_>> {
        let mut members: Vec<Member<'_>> = self
            .candidates
            .iter()
            .filter_map(|(endpoint, candidate)| {
                Some(Member {
                    endpoint: *endpoint,
                    description: candidate.best()?,
                    standing: candidate.standing?,
                    slices: candidate.sources.iter().map(|source| &*source.slice).collect(),
                })
            })
            .collect();
        members.sort_unstable_by_key(|member| member.endpoint);
        members
    }

    /// Fills an empty pool from all slices of the Service. `cluster` and `local` are what an earlier
    /// run wrote into the kernel, in the order of its slots: whoever is still used stays there.
    pub fn fill<'a>(
        &mut self,
        slices: impl IntoIterator<Item = &'a Arc<Slice>>,
        cluster: Vec<Endpoint>,
        local: Vec<Endpoint>,
        here: &Arc<Here>,
        wishes: &Wishes,
    ) {
        // One by one: within one update newcomers are sorted.
        for endpoint in cluster {
            self.cluster.update([], [endpoint]);
        }
        for endpoint in local {
            self.local.update([], [endpoint]);
        }
        for slice in slices {
            self.gather(None, Some(slice), |_| {});
        }
        self.reselect(here, wishes);
    }

    /// Replaces what `old` said by what `new` says, two versions of the same slice. `here` and
    /// `wishes` are those of the last selection; [`Pool::reselect`] takes in others.
    pub fn replace(
        &mut self,
        old: Option<&Arc<Slice>>,
        new: Option<&Arc<Slice>>,
        here: &Arc<Here>,
        wishes: &Wishes,
    ) -> PoolChanges {
        let answering = self.answering(old);
        let mut touched: FxHashSet<Endpoint> = FxHashSet::default();
        self.gather(old, new, |endpoint| {
            touched.insert(endpoint);
        });
        let before: FxHashMap<Endpoint, Standing> = touched
            .iter()
            .filter_map(|endpoint| Some((*endpoint, self.standing(endpoint)?)))
            .collect();
        for endpoint in &touched {
            self.restand(*endpoint, here);
        }
        let stopped_answering = answering.iter().any(|endpoint| !self.may_answer(endpoint));
        // What did not change its standing cannot change the outcome.
        touched.retain(|endpoint| before.get(endpoint).copied() != self.standing(endpoint));
        PoolChanges { stopped_answering, ..self.select(touched, here, wishes) }
    }

    /// The slice's endpoints that may answer flows; only UDP keeps flows that nobody answers.
    fn answering(&self, slice: Option<&Arc<Slice>>) -> Vec<Endpoint> {
        let slice = slice.filter(|_| self.protocol == Protocol::Udp);
        let endpoints = self.sources(slice).into_iter().map(|(endpoint, _)| endpoint);
        endpoints.filter(|endpoint| self.may_answer(endpoint)).collect()
    }

    /// Whether any description of the endpoint says that it may answer flows.
    fn may_answer(&self, endpoint: &Endpoint) -> bool {
        let sources = self.candidates.get(endpoint).map(|candidate| candidate.sources.as_slice());
        let mut described = sources.unwrap_or_default().iter().filter_map(Source::endpoint);
        described.any(|endpoint| endpoint.conditions.may_answer())
    }

    /// Notes what the slice says, and passes on the endpoints that it speaks of.
    fn gather(
        &mut self,
        old: Option<&Arc<Slice>>,
        new: Option<&Arc<Slice>>,
        mut touch: impl FnMut(Endpoint),
    ) {
        for (endpoint, source) in self.sources(old) {
            if let Some(candidate) = self.candidates.get_mut(&endpoint) {
                candidate.sources.retain(|known| known.slice.name != source.slice.name);
                touch(endpoint);
            }
        }
        for (endpoint, source) in self.sources(new) {
            self.candidates
                .entry(endpoint)
                .or_insert_with(|| Candidate { sources: SmallVec::new(), standing: None })
                .sources
                .push(source);
            touch(endpoint);
        }
    }

    /// Looks at every endpoint again, if the node's place or the Service's wishes changed.
    pub fn reselect(&mut self, here: &Arc<Here>, wishes: &Wishes) -> PoolChanges {
        let unchanged = self
            .basis
            .as_ref()
            .is_some_and(|(place, wanted)| Arc::ptr_eq(place, here) && wanted == wishes);
        if unchanged {
            return PoolChanges::default();
        }
        self.basis = Some((Arc::clone(here), wishes.clone()));
        // Adopted slots may hold endpoints that no slice describes.
        let slots = self.cluster.iter().chain(self.local.iter()).map(|(_, endpoint)| endpoint);
        let all: FxHashSet<Endpoint> = self.candidates.keys().copied().chain(slots).collect();
        for endpoint in &all {
            self.restand(*endpoint, here);
        }
        self.select(all, here, wishes)
    }

    /// The slice's descriptions of endpoints of this port.
    fn sources(&self, slice: Option<&Arc<Slice>>) -> Vec<(Endpoint, Source)> {
        let Some(slice) = slice.filter(|slice| slice.family == self.family) else {
            return Vec::new();
        };
        let mine = |port: &&SlicePort| port.name == self.name && port.protocol == self.protocol;
        slice
            .ports
            .iter()
            .filter(mine)
            .flat_map(|port| slice.targets(port).zip(0u32..))
            .map(|((endpoint, _), position)| {
                (endpoint, Source { slice: Arc::clone(slice), position })
            })
            .collect()
    }

    fn standing(&self, endpoint: &Endpoint) -> Option<Standing> {
        self.candidates.get(endpoint).and_then(|candidate| candidate.standing)
    }

    /// Determines anew how an endpoint stands, and counts it accordingly.
    fn restand(&mut self, endpoint: Endpoint, here: &Here) {
        let Some(candidate) = self.candidates.get_mut(&endpoint) else { return };
        if let Some(standing) = candidate.standing.take() {
            self.tally.remove(standing);
        }
        match candidate.best().map(|best| Standing::of(best, here)) {
            Some(standing) => {
                self.tally.add(standing);
                candidate.standing = Some(standing);
            }
            None => {
                self.candidates.remove(&endpoint);
            }
        }
    }

    /// Brings both selections up to date, given the endpoints whose standing may have changed.
    fn select(
        &mut self,
        touched: FxHashSet<Endpoint>,
        here: &Here,
        wishes: &Wishes,
    ) -> PoolChanges {
        let choice = choose(&self.tally, here, wishes);
        let local_scope = choose_local(&self.tally);
        let other_local_scope = local_scope != self.local_scope;
        let same = choice.scope == self.choice.scope && !other_local_scope;
        (self.choice, self.local_scope) = (choice, local_scope);
        let suspects: Vec<Endpoint> = if same {
            touched.into_iter().collect()
        } else {
            let all: FxHashSet<Endpoint> = self.candidates.keys().copied().chain(touched).collect();
            all.into_iter().collect()
        };
        let scope = self.choice.scope;
        let standings: Vec<(Endpoint, Option<Standing>)> =
            suspects.into_iter().map(|endpoint| (endpoint, self.standing(&endpoint))).collect();
        let endpoints_left = standings.iter().any(|(endpoint, standing)| {
            (self.cluster.contains(endpoint) && !standing.is_some_and(|s| scope.admits(s)))
                || (self.local.contains(endpoint)
                    && !standing.is_some_and(|s| local_scope.admits(s)))
        });
        let cluster = refill(&mut self.cluster, &standings, |standing| scope.admits(standing));
        let local = refill(&mut self.local, &standings, |standing| local_scope.admits(standing));
        let hairpins = self.update_hairpins(&standings);
        PoolChanges {
            cluster,
            local,
            hairpins,
            local_scope: other_local_scope,
            endpoints_left,
            stopped_answering: false,
        }
    }

    fn update_hairpins(&mut self, suspects: &[(Endpoint, Option<Standing>)]) -> bool {
        let mut changed = false;
        for (endpoint, standing) in suspects {
            let used = self.cluster.contains(endpoint) || self.local.contains(endpoint);
            changed |= if used && standing.is_some_and(|standing| standing.hairpin) {
                self.hairpins.insert(*endpoint)
            } else {
                self.hairpins.remove(endpoint)
            };
        }
        changed
    }

    /// The used endpoints on this node: they may meet themselves through the Service.
    pub fn hairpins(&self) -> &BTreeSet<Endpoint> {
        &self.hairpins
    }
}

fn refill(
    slots: &mut Slots,
    suspects: &[(Endpoint, Option<Standing>)],
    admits: impl Fn(Standing) -> bool,
) -> SlotChanges {
    let (come, gone): (Vec<_>, Vec<_>) =
        suspects.iter().partition(|(_, standing)| standing.is_some_and(&admits));
    let endpoint = |(endpoint, _): (Endpoint, _)| endpoint;
    slots.update(gone.into_iter().map(endpoint), come.into_iter().map(endpoint))
}
