//! A packet on its way, and the rule it is at.

use std::net::IpAddr;

use super::{Event, Fate, KeyPart, MasqueradedFor, Packet, RefusedBy, Step};
use crate::frontend::Endpoint;
use crate::program::{Field, HookPoint};
use crate::rows::Slot;

/// The packet as it is now, and what conntrack knows of it.
#[derive(Clone)]
pub(super) struct Traveller<'a> {
    pub(super) original: &'a Packet,
    pub(super) destination: IpAddr,
    pub(super) port: u16,
    pub(super) mark: u32,
    pub(super) translated: bool,
    pub(super) unmarked: bool,
    pub(super) masqueraded: Option<MasqueradedFor>,
    /// Endpoints drawn so far by the NAT chain it is in.
    pub(super) draws: Vec<Draw>,
    /// Shares that have not found an endpoint yet.
    pub(super) undrawn: u32,
    pub(super) hook: HookPoint,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone)]
pub(super) struct Draw {
    pub(super) slot: Option<Slot>,
    pub(super) endpoint: Endpoint,
    pub(super) share: u32,
}

/// A rule in a chain, with the packet that is at it.
pub(super) struct At<'t, 'p> {
    pub(super) chain: &'t str,
    pub(super) rule: usize,
    pub(super) traveller: &'t mut Traveller<'p>,
}

impl At<'_, '_> {
    pub(super) fn note(&mut self, event: Event) {
        let hook = self.traveller.hook;
        let chain = self.chain.to_owned();
        self.traveller.steps.push(Step::Rule { hook, chain, rule: self.rule, event });
    }

    pub(super) fn refuse(&mut self, by: RefusedBy) -> Fate {
        self.note(Event::Refused(by));
        Fate::Refused { by, chain: self.chain.to_owned() }
    }
}

impl<'a> Traveller<'a> {
    /// The packet as it enters its first hook.
    pub(super) fn new(original: &'a Packet, hook: HookPoint) -> Self {
        Self {
            original,
            destination: original.destination,
            port: original.port,
            mark: 0,
            translated: false,
            unmarked: false,
            masqueraded: None,
            draws: Vec::new(),
            undrawn: 1,
            hook,
            steps: Vec::new(),
        }
    }

    pub(super) fn key(&self, fields: &[Field]) -> Vec<KeyPart> {
        let packet = self.original;
        let part = |field: &Field| match field {
            Field::Source | Field::OriginalSource => KeyPart::Address(packet.source),
            Field::Destination => KeyPart::Address(self.destination),
            Field::OriginalDestination => KeyPart::Address(packet.destination),
            Field::Protocol => KeyPart::Protocol(packet.protocol),
            Field::Port => KeyPart::Port(self.port),
            Field::OriginalPort => KeyPart::Port(packet.port),
            Field::Random(modulus) => KeyPart::Random(*modulus),
            Field::FrontendAddress(frontend) => KeyPart::Address(frontend.address),
            Field::FrontendPort(frontend) => KeyPart::Port(frontend.port),
        };
        fields.iter().map(part).collect()
    }
}
