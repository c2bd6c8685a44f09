//! Rules as the kernel's register programs, exactly as `nft` would write them, so that `nft` can
//! list them and load the list again.

use std::net::IpAddr;

use super::expression::{Comparison, Conntrack, Expressions, Header, Meta, Register};
use super::number::{data, family_number, rule as attribute};
use super::wire::Buffer;
use crate::frontend::{Family, Protocol};
use crate::program::{Action, Field, FieldType, Match, Rule};
use crate::rows::SetName;

/// `IP_CT_NEW` as a bit of `ct state`.
const STATE_NEW: u32 = 8;
/// `IPS_DST_NAT`, a bit of `ct status`.
const STATUS_DNAT: u32 = 0x20;
/// `RTN_LOCAL`, what `fib … type` says of this node's own addresses.
const ADDRESS_LOCAL: u32 = 2;
const INTERFACE_NAME_LEN: usize = 16;

/// Anonymous sets that the rule needs: each is made before the rule, with its own number.
pub(super) fn anonymous_sets(rule: &Rule) -> usize {
    rule.matches.iter().filter(|m| matches!(m, Match::ServiceProtocol)).count()
}

/// Writes a rule's list of expressions. `first_set` is the number of its first anonymous set.
pub(super) fn put_rule(out: &mut Buffer, family: Family, rule: &Rule, first_set: u32) {
    let list = out.begin(attribute::EXPRESSIONS);
    let mut compiler = Compiler { to: Expressions { out }, family, next_set: first_set };
    for condition in &rule.matches {
        compiler.condition(condition);
    }
    for action in &rule.actions {
        compiler.action(action);
    }
    out.end(list);
}

struct Compiler<'a> {
    to: Expressions<'a>,
    family: Family,
    next_set: u32,
}

impl Compiler<'_> {
    fn condition(&mut self, condition: &Match) {
        match condition {
            Match::InSet { key, set, negated } => {
                self.load_key(key);
                self.to.lookup(*set, *negated);
            }
            Match::SourceIn { network, negated } => {
                self.source_in(network.network(), network.prefix(), comparison(*negated));
            }
            Match::InputInterface { name, prefix, negated } => {
                self.to.meta(Meta::InputInterface, Register::FIRST);
                self.to.compare(comparison(*negated), &interface_bytes(name, *prefix));
            }
            Match::SourceIsLocal { negated } => {
                self.to.source_kind(Register::FIRST);
                self.to.compare(comparison(*negated), &ADDRESS_LOCAL.to_ne_bytes());
            }
            Match::StateNew => self.conntrack_bit(Conntrack::State, STATE_NEW),
            Match::Translated => self.conntrack_bit(Conntrack::Status, STATUS_DNAT),
            Match::ServiceProtocol => {
                self.to.meta(Meta::Protocol, Register::FIRST);
                self.to.lookup_anonymous(self.next_set);
                self.next_set += 1;
            }
            Match::Tcp => {
                self.to.meta(Meta::Protocol, Register::FIRST);
                self.to.compare(Comparison::Equal, &[Protocol::Tcp.number()]);
            }
            Match::Mark(mask) => {
                self.to.meta(Meta::Mark, Register::FIRST);
                self.any_bit(*mask);
            }
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::SetMark(mask) => self.change_mark(!mask, *mask),
            Action::FlipMark(mask) => self.change_mark(u32::MAX, *mask),
            Action::VerdictMap { key, map } => {
                self.load_key(key);
                self.to.lookup_verdict(*map);
            }
            Action::Dnat { key, map } => {
                self.load_key(key);
                self.to.lookup_value(*map);
                self.to.dnat(family_number(self.family), Register(self.address_words()));
            }
            Action::Masquerade => self.to.masquerade(),
            Action::Learn { key, timeout } => {
                let value = self.load_key(key);
                self.load(Field::Destination, value);
                self.load(Field::Port, Register(value.0 + self.address_words()));
                self.to.update(SetName::Affinity, value, u64::from(*timeout) * 1000);
            }
            Action::Goto(chain) => self.to.verdict(data::GOTO, Some(chain)),
            Action::RejectTcpReset => self.to.reject_tcp(),
            // Port unreachable, in ICMP's numbers or in ICMPv6's.
            Action::Reject => self.to.reject(match self.family {
                Family::V4 => 3,
                Family::V6 => 4,
            }),
            Action::Drop => self.to.verdict(data::DROP, None),
        }
    }

    /// Registers of 32 bits that an address takes.
    fn address_words(&self) -> u32 {
        match self.family {
            Family::V4 => 1,
            Family::V6 => 4,
        }
    }

    /// Loads the fields one behind the other; returns the first free register.
    fn load_key(&mut self, key: &[Field]) -> Register {
        let mut to = Register::FIRST;
        for &field in key {
            self.load(field, to);
            to.0 += match field.field_type() {
                FieldType::Address => self.address_words(),
                FieldType::Protocol | FieldType::Port | FieldType::Slot => 1,
            };
        }
        to
    }

    fn load(&mut self, field: Field, to: Register) {
        let length = 4 * self.address_words();
        let (source, destination) = address_offsets(self.family);
        let (original_source, original_destination) = match self.family {
            Family::V4 => (Conntrack::SourceV4, Conntrack::DestinationV4),
            Family::V6 => (Conntrack::SourceV6, Conntrack::DestinationV6),
        };
        match field {
            Field::Source => self.to.payload(Header::Network, source, length, to),
            Field::Destination => self.to.payload(Header::Network, destination, length, to),
            Field::Protocol => self.to.meta(Meta::Protocol, to),
            Field::Port => self.to.payload(Header::Transport, 2, 2, to),
            Field::Random(modulus) => self.to.random(modulus, to),
            Field::OriginalSource => self.to.original(original_source, to),
            Field::OriginalDestination => self.to.original(original_destination, to),
            Field::OriginalPort => self.to.original(Conntrack::DestinationPort, to),
            Field::FrontendAddress(frontend) => self.to.immediate(&octets(frontend.address), to),
            Field::FrontendPort(frontend) => self.to.immediate(&frontend.port.to_be_bytes(), to),
        }
    }

    fn conntrack_bit(&mut self, what: Conntrack, bit: u32) {
        self.to.conntrack(what, Register::FIRST);
        self.any_bit(bit);
    }

    /// Goes on only if the first register has one of the bits.
    fn any_bit(&mut self, mask: u32) {
        self.to.bitwise(&mask.to_ne_bytes(), &[0; 4]);
        self.to.compare(Comparison::NotEqual, &[0; 4]);
    }

    /// `mark = (mark & keep) ^ flip`
    fn change_mark(&mut self, keep: u32, flip: u32) {
        self.to.meta(Meta::Mark, Register::FIRST);
        self.to.bitwise(&keep.to_ne_bytes(), &flip.to_ne_bytes());
        self.to.set_meta(Meta::Mark);
    }

    /// Like `nft`, compares whole bytes where the prefix ends at one, and masked ones elsewhere.
    fn source_in(&mut self, network: IpAddr, prefix: u8, comparison: Comparison) {
        let address = octets(network);
        let whole_bytes = usize::from(prefix / 8);
        if prefix.is_multiple_of(8) && (1..=address.len()).contains(&whole_bytes) {
            let (source, _) = address_offsets(self.family);
            self.to.payload(Header::Network, source, u32::from(prefix / 8), Register::FIRST);
            return self.to.compare(comparison, address.get(..whole_bytes).unwrap_or_default());
        }
        self.load(Field::Source, Register::FIRST);
        self.to.bitwise(&mask(prefix, address.len()), &vec![0; address.len()]);
        self.to.compare(comparison, &address);
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// `prefix` ones in `length` bytes.
fn mask(prefix: u8, length: usize) -> Vec<u8> {
    let ones = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
    ones.to_be_bytes().into_iter().take(length).collect()
}

/// Where source and destination are in the network header.
fn address_offsets(family: Family) -> (u32, u32) {
    match family {
        Family::V4 => (12, 16),
        Family::V6 => (8, 24),
    }
}

fn comparison(negated: bool) -> Comparison {
    if negated { Comparison::NotEqual } else { Comparison::Equal }
}

/// A whole name is compared with the zeros behind it, the beginning of one without.
fn interface_bytes(name: &str, prefix: bool) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    if !prefix {
        bytes.resize(INTERFACE_NAME_LEN, 0);
    }
    bytes
}
