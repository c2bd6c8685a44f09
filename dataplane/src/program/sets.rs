//! The sets and maps of the program.

use crate::rows::SetName;

/// The type of one part of a set's key or of a map's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// `ipv4_addr` or `ipv6_addr`
    Address,
    /// `inet_proto`
    Protocol,
    /// `inet_service`
    Port,
    /// a 32-bit host-endian integer (`numgen`)
    Slot,
}

/// What a set maps its keys to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetValue {
    /// Nothing: a plain set.
    None,
    /// A verdict.
    Verdict,
    /// `address . port`
    Endpoint,
}

/// A set or map of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetDef {
    /// Its name.
    pub name: SetName,
    /// The parts of its key.
    pub key: &'static [FieldType],
    /// What it maps to.
    pub value: SetValue,
    /// `flags interval`
    pub interval: bool,
    /// `flags dynamic,timeout` with that many elements at most
    pub dynamic: Option<u32>,
}

/// Clients that one family may remember unless the configuration says otherwise.
pub const AFFINITY_LIMIT: u32 = 1_048_576;

/// The sets of the program, the same in both families.
pub fn sets() -> Vec<SetDef> {
    use FieldType::{Address, Port, Protocol, Slot};
    const FRONTEND: &[FieldType] = &[Address, Protocol, Port];
    const FRONTEND_SLOT: &[FieldType] = &[Address, Protocol, Port, Slot];
    const FRONTEND_SOURCE: &[FieldType] = &[Address, Protocol, Port, Address];
    const PAIR: &[FieldType] = &[Address, Address, Protocol, Port];
    const ADDRESS: &[FieldType] = &[Address];
    SetName::ALL
        .into_iter()
        .map(|name| {
            let (key, value) = match name {
                SetName::Services
                | SetName::LocalServices
                | SetName::NoBackends
                | SetName::StickyFrontends => (FRONTEND, SetValue::Verdict),
                SetName::Backends | SetName::LocalBackends => (FRONTEND_SLOT, SetValue::Endpoint),
                SetName::MasqueradeFrontends
                | SetName::LocalFrontends
                | SetName::RestrictedFrontends => (FRONTEND, SetValue::None),
                SetName::ClusterIps | SetName::ServiceCidrs => (ADDRESS, SetValue::None),
                SetName::AllowedSources => (FRONTEND_SOURCE, SetValue::None),
                SetName::Hairpins => (PAIR, SetValue::None),
                SetName::Affinity => (FRONTEND_SOURCE, SetValue::Endpoint),
            };
            SetDef {
                name,
                key,
                value,
                interval: matches!(name, SetName::ServiceCidrs | SetName::AllowedSources),
                dynamic: (name == SetName::Affinity).then_some(AFFINITY_LIMIT),
            }
        })
        .collect()
}
