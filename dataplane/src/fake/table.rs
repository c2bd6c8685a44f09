//! One table of the fake kernel, with the checks that the real one makes for each element.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ipnetwork::{IpNetwork, Ipv4Network};
use nix::libc::{EBUSY, EEXIST, EINVAL, ENFILE, ENOENT};
use rustc_hash::FxHashMap;

use crate::cidr;
use crate::frontend::{Endpoint, Family, Frontend};
use crate::kernel::TableState;
use crate::program::{Action, ChainDef, Program};
use crate::rows::{AffinityRow, Chain, Row, RowKey, RowValue, SetName, Verdict};
use crate::transaction::Stray;
use crate::walk::Rows;

#[derive(Debug)]
pub(super) struct Table {
    pub(super) program: Program,
    pub(super) identity: Option<String>,
    pub(super) damage: Vec<String>,
    pub(super) rows: BTreeMap<RowKey, RowValue>,
    pub(super) clients: BTreeMap<(Frontend, IpAddr), AffinityRow>,
    pub(super) strays: BTreeSet<Stray>,
    /// The chains made on demand.
    chains: BTreeMap<Chain, ChainDef>,
    /// How many rows and rules point at a chain.
    uses: FxHashMap<Chain, usize>,
}

impl Table {
    pub(super) fn new(program: Program) -> Self {
        let identity = Some(program.identity());
        Self {
            program,
            identity,
            damage: Vec::new(),
            rows: BTreeMap::new(),
            clients: BTreeMap::new(),
            strays: BTreeSet::new(),
            chains: BTreeMap::new(),
            uses: FxHashMap::default(),
        }
    }

    pub(super) fn state(&self) -> TableState {
        TableState {
            identity: self.identity.clone(),
            damage: self.damage.clone(),
            chains: self.chains.keys().copied().collect(),
            rows: self.rows.iter().map(|(&key, &value)| Row { key, value }).collect(),
            strays: self.strays.iter().cloned().collect(),
        }
    }

    /// Names that rows cannot point at are not accepted: nothing but the program may use others.
    pub(super) fn add_chain(&mut self, def: &ChainDef) -> Result<Chain, i32> {
        let chain = Chain::parse(&def.name).ok_or(EINVAL)?;
        if self.has_chain(chain) {
            return Err(EEXIST);
        }
        if !targets(def).all(|target| self.has_chain(target)) {
            return Err(ENOENT);
        }
        self.put_chain(def.clone());
        Ok(chain)
    }

    pub(super) fn remove_chain(&mut self, chain: Chain) -> Result<ChainDef, i32> {
        // The fixed program's own rules use it.
        if chain == Chain::RejectNow || self.uses.get(&chain).is_some_and(|&uses| uses > 0) {
            return Err(EBUSY);
        }
        let def = self.chains.get(&chain).cloned().ok_or(ENOENT)?;
        self.take_chain(chain);
        Ok(def)
    }

    pub(super) fn put_chain(&mut self, def: ChainDef) {
        if let Some(chain) = Chain::parse(&def.name) {
            targets(&def).for_each(|target| self.point_at(target));
            self.chains.insert(chain, def);
        }
    }

    pub(super) fn take_chain(&mut self, chain: Chain) {
        if let Some(def) = self.chains.remove(&chain) {
            targets(&def).for_each(|target| self.point_away(target));
        }
    }

    fn has_chain(&self, chain: Chain) -> bool {
        chain == Chain::RejectNow || self.chains.contains_key(&chain)
    }

    fn point_at(&mut self, chain: Chain) {
        *self.uses.entry(chain).or_default() += 1;
    }

    fn point_away(&mut self, chain: Chain) {
        if let Some(uses) = self.uses.get_mut(&chain) {
            *uses = uses.saturating_sub(1);
        }
    }

    pub(super) fn add_row(&mut self, row: Row) -> Result<(), i32> {
        if !is_well_formed(&row) {
            return Err(EINVAL);
        }
        if let RowValue::Verdict(Verdict::Goto(chain)) = row.value
            && !self.has_chain(chain)
        {
            return Err(ENOENT);
        }
        if self.rows.contains_key(&row.key) || self.overlaps(&row.key) {
            return Err(EEXIST);
        }
        self.put_row(row);
        Ok(())
    }

    pub(super) fn put_row(&mut self, row: Row) {
        if let RowValue::Verdict(Verdict::Goto(chain)) = row.value {
            self.point_at(chain);
        }
        self.rows.insert(row.key, row.value);
    }

    pub(super) fn take_row(&mut self, key: &RowKey) -> Option<RowValue> {
        let value = self.rows.remove(key)?;
        if let RowValue::Verdict(Verdict::Goto(chain)) = value {
            self.point_away(chain);
        }
        Some(value)
    }

    /// Whether an interval of the same set, and of the same frontend, shares an address with it.
    fn overlaps(&self, key: &RowKey) -> bool {
        let first = lowest();
        let share = |a: &IpNetwork, b: &IpNetwork| cidr::contains(a, b) || cidr::contains(b, a);
        match key {
            RowKey::ServiceCidr(network) => self
                .rows
                .range(RowKey::ServiceCidr(first)..)
                .map_while(|(key, _)| match key {
                    RowKey::ServiceCidr(other) => Some(other),
                    _ => None,
                })
                .any(|other| share(network, other)),
            RowKey::AllowedSource(frontend, network) => self
                .rows
                .range(RowKey::AllowedSource(*frontend, first)..)
                .map_while(|(key, _)| match key {
                    RowKey::AllowedSource(of, other) if of == frontend => Some(other),
                    _ => None,
                })
                .any(|other| share(network, other)),
            _ => false,
        }
    }

    pub(super) fn remember(&mut self, row: AffinityRow) -> Result<(), i32> {
        let key = (row.frontend, row.client);
        let family = row.frontend.family();
        if Family::of(row.client) != family || Family::of(row.endpoint.address) != family {
            return Err(EINVAL);
        }
        if self.clients.contains_key(&key) {
            return Err(EEXIST);
        }
        if self.clients.len() >= usize::try_from(self.program.affinity_rows()).unwrap_or(usize::MAX)
        {
            return Err(ENFILE);
        }
        self.clients.insert(key, row);
        Ok(())
    }
}

/// The network that sorts before all others.
fn lowest() -> IpNetwork {
    let address = Ipv4Addr::UNSPECIFIED;
    IpNetwork::V4(Ipv4Network::new_checked(address, 0).unwrap_or_else(|| address.into()))
}

/// The chains that a chain's rules go to.
fn targets(def: &ChainDef) -> impl Iterator<Item = Chain> {
    def.rules.iter().flat_map(|rule| &rule.actions).filter_map(|action| match action {
        Action::Goto(name) => Chain::parse(name),
        _ => None,
    })
}

/// Whether the value is of the set's kind, of the key's family, and networks have no host bits.
fn is_well_formed(row: &Row) -> bool {
    let family = row.key.family();
    let set = row.key.set();
    let kind = match row.value {
        RowValue::Verdict(_) => matches!(
            set,
            SetName::Services
                | SetName::LocalServices
                | SetName::NoBackends
                | SetName::StickyFrontends
        ),
        RowValue::Endpoint(endpoint) => {
            matches!(set, SetName::Backends | SetName::LocalBackends)
                && Family::of(endpoint.address) == family
        }
        RowValue::Member => matches!(
            set,
            SetName::MasqueradeFrontends
                | SetName::LocalFrontends
                | SetName::ClusterIps
                | SetName::ServiceCidrs
                | SetName::RestrictedFrontends
                | SetName::AllowedSources
                | SetName::Hairpins
        ),
    };
    kind && match row.key {
        RowKey::ServiceCidr(network) => cidr::canonical(network) == network,
        RowKey::AllowedSource(_, network) => {
            cidr::canonical(network) == network && Family::of(network.ip()) == family
        }
        _ => true,
    }
}

impl Rows for Table {
    fn row(&self, key: &RowKey) -> Option<RowValue> {
        self.rows.get(key).copied()
    }

    fn remembered(&self, frontend: Frontend, client: IpAddr) -> Option<Endpoint> {
        self.clients.get(&(frontend, client)).map(|row| row.endpoint)
    }

    fn chain(&self, program: &Program, chain: Chain) -> Option<ChainDef> {
        if chain == Chain::RejectNow {
            return Some(program.row_chain(chain, None));
        }
        self.chains.get(&chain).cloned()
    }
}
