//! Rules as the kernel's register programs, exactly as `nft` would write them, so that `nft` can
//! list them and load the list again.

use std::net::IpAddr;

use super::number::{data, element, message, rule as attribute, set};
use super::wire::Buffer;
use crate::frontend::Family;
use crate::program::{Action, Field, FieldType, Match, Rule, SERVICE_PROTOCOLS};
use crate::rows::SetName;

const DIRECTION_ORIGINAL: u8 = 0;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const CT_STATE: u32 = 0;
const CT_STATUS: u32 = 2;
const CT_DESTINATION_PORT: u32 = 12;
/// `IP_CT_NEW` as a bit of `ct state`.
const STATE_NEW: u32 = 8;
/// `IPS_DST_NAT`, a bit of `ct status`.
const STATUS_DNAT: u32 = 0x20;
const META_MARK: u32 = 3;
const META_INPUT_INTERFACE: u32 = 6;
const META_PROTOCOL: u32 = 16;
const INTERFACE_NAME_LEN: usize = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// `RTN_LOCAL`, what `fib … type` says of this node's own addresses.
const ADDRESS_LOCAL: u32 = 2;
/// `NF_NAT_RANGE_PROTO_RANDOM_FULLY`
const FULLY_RANDOM: u32 = 0x10;
/// `NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED`
const ADDRESS_AND_PORT: u32 = 3;
/// The register that verdicts go to.
const VERDICT: u32 = 0;
/// The name under which a batch refers to a set that has none.
pub(super) const ANONYMOUS_SET: &str = "__set%d";

/// The attribute numbers of the expressions, by expression.
mod number {
    pub(super) const META: [u16; 3] = [1, 2, 3]; // DREG, KEY, SREG
    pub(super) const CT: [u16; 3] = [1, 2, 3]; // DREG, KEY, DIRECTION
    pub(super) const PAYLOAD: [u16; 4] = [1, 2, 3, 4]; // DREG, BASE, OFFSET, LEN
    pub(super) const COMPARE: [u16; 3] = [1, 2, 3]; // SREG, OP, DATA
    pub(super) const BITWISE: [u16; 5] = [1, 2, 3, 4, 5]; // SREG, DREG, LEN, MASK, XOR
    pub(super) const LOOKUP: [u16; 5] = [1, 2, 3, 4, 5]; // SET, SREG, DREG, SET_ID, FLAGS
    pub(super) const IMMEDIATE: [u16; 2] = [1, 2]; // DREG, DATA
    pub(super) const NAT: [u16; 7] = [1, 2, 3, 4, 5, 6, 7]; // TYPE, FAMILY, ADDR_MIN/MAX, PROTO_MIN/MAX, FLAGS
    pub(super) const NUMGEN: [u16; 4] = [1, 2, 3, 4]; // DREG, MODULUS, TYPE, OFFSET
    pub(super) const FIB: [u16; 3] = [1, 2, 3]; // DREG, RESULT, FLAGS
    pub(super) const DYNSET: [u16; 6] = [1, 2, 3, 4, 5, 6]; // SET_NAME, SET_ID, OP, SREG_KEY, SREG_DATA, TIMEOUT
    pub(super) const REJECT: [u16; 2] = [1, 2]; // TYPE, ICMP_CODE
    pub(super) const MASQUERADE_FLAGS: u16 = 1;
}

/// The `index`th register of 32 bits, by the number that the kernel itself uses in dumps: every
/// fourth is the beginning of a register of 128 bits and goes by that one's name.
fn register(index: usize) -> u32 {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    if index.is_multiple_of(4) { 1 + index / 4 } else { 8 + index }
}

/// Registers of 32 bits that a value takes.
fn words(field: Field, family: Family) -> usize {
    match field.field_type() {
        FieldType::Address => family.address_len() / 4,
        FieldType::Protocol | FieldType::Port | FieldType::Slot => 1,
    }
}

/// The address family's number (`NFPROTO_…`).
pub(super) fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// Anonymous sets that the rule needs: each is made before the rule, with its own number.
pub(super) fn anonymous_sets(rule: &Rule) -> usize {
    rule.matches.iter().filter(|m| matches!(m, Match::ServiceProtocol)).count()
}

/// Writes the attributes of the anonymous set `{ tcp, udp, sctp }`, for a new-set message.
pub(super) fn put_protocol_set(out: &mut Buffer, id: u32) {
    out.text(set::NAME, ANONYMOUS_SET);
    out.number(set::FLAGS, set::ANONYMOUS | set::CONSTANT);
    out.number(set::KEY_TYPE, super::layout::type_number(FieldType::Protocol, Family::V4));
    out.number(set::KEY_LEN, 1);
    out.number(set::ID, id);
    out.attribute(set::USER_DATA, &super::layout::protocol_set_user_data());
}

/// Writes the attributes of its elements, for a new-elements message.
pub(super) fn put_protocol_elements(out: &mut Buffer, id: u32) {
    out.text(element::LIST_SET, ANONYMOUS_SET);
    out.number(element::LIST_SET_ID, id);
    let list = out.begin(element::LIST_ELEMENTS);
    for protocol in SERVICE_PROTOCOLS {
        let one = out.begin(super::number::LIST_ELEMENT);
        let key = out.begin(element::KEY);
        out.attribute(data::VALUE, &[protocol.number()]);
        out.end(key);
        out.end(one);
    }
    out.end(list);
}

/// Message numbers of the two messages that make an anonymous set.
pub(super) const ANONYMOUS_SET_MESSAGES: [u16; 2] = [message::NEW_SET, message::NEW_ELEMENTS];

/// Writes a rule's list of expressions. `first_set` is the number of its first anonymous set.
pub(super) fn put_rule(out: &mut Buffer, family: Family, rule: &Rule, first_set: u32) {
    let list = out.begin(attribute::EXPRESSIONS);
    let mut writer = Expressions { out, family, next_set: first_set };
    for condition in &rule.matches {
        writer.condition(condition);
    }
    for action in &rule.actions {
        writer.action(action);
    }
    out.end(list);
}

struct Expressions<'a> {
    out: &'a mut Buffer,
    family: Family,
    next_set: u32,
}

impl Expressions<'_> {
    fn expression(&mut self, name: &str, write: impl FnOnce(&mut Buffer)) {
        let one = self.out.begin(super::number::LIST_ELEMENT);
        self.out.text(attribute::EXPRESSION_NAME, name);
        let data = self.out.begin(attribute::EXPRESSION_DATA);
        write(self.out);
        self.out.end(data);
        self.out.end(one);
    }

    fn condition(&mut self, condition: &Match) {
        match condition {
            Match::InSet { key, set, negated } => {
                self.load_key(key);
                self.lookup(*set, *negated);
            }
            Match::SourceIn { network, negated } => {
                self.source_in(network.network(), network.prefix(), operator(*negated));
            }
            Match::InputInterface { name, prefix, negated } => {
                self.meta(META_INPUT_INTERFACE, 0);
                self.compare(operator(*negated), &interface_bytes(name, *prefix));
            }
            Match::SourceIsLocal => {
                self.expression("fib", |out| {
                    let [dreg, result, flags] = number::FIB;
                    out.number(dreg, register(0));
                    out.number(result, 3); // NFT_FIB_RESULT_ADDRTYPE
                    out.number(flags, 1); // NFTA_FIB_F_SADDR
                });
                self.compare(EQUAL, &ADDRESS_LOCAL.to_ne_bytes());
            }
            Match::StateNew => self.conntrack_bit(CT_STATE, STATE_NEW),
            Match::Translated => self.conntrack_bit(CT_STATUS, STATUS_DNAT),
            Match::ServiceProtocol => self.service_protocol(),
            Match::Tcp => {
                self.meta(META_PROTOCOL, 0);
                self.compare(EQUAL, &[crate::frontend::Protocol::Tcp.number()]);
            }
            Match::Mark(mask) => {
                self.meta(META_MARK, 0);
                self.bitwise(&mask.to_ne_bytes(), &[0; 4]);
                self.compare(NOT_EQUAL, &[0; 4]);
            }
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::SetMark(mask) => self.change_mark(!mask, *mask),
            Action::FlipMark(mask) => self.change_mark(u32::MAX, *mask),
            Action::VerdictMap { key, map } => {
                self.load_key(key);
                self.map_lookup(*map, VERDICT);
            }
            Action::Dnat { key, map } => self.dnat(key, *map),
            Action::Masquerade => {
                self.expression("masq", |out| out.number(number::MASQUERADE_FLAGS, FULLY_RANDOM));
            }
            Action::Learn { key, timeout } => self.learn(key, *timeout),
            Action::Goto(chain) => self.verdict(data::GOTO, Some(chain)),
            Action::RejectTcpReset => {
                self.expression("reject", |out| out.number(number::REJECT[0], 1));
            }
            Action::Reject => {
                // Port unreachable, in ICMP's numbers or in ICMPv6's.
                let code = if self.family == Family::V4 { 3 } else { 4 };
                self.expression("reject", |out| {
                    out.number(number::REJECT[0], 0);
                    out.attribute(number::REJECT[1], &[code]);
                });
            }
            Action::Drop => self.verdict(data::DROP, None),
        }
    }

    /// Loads the fields one behind the other; returns the first free register.
    fn load_key(&mut self, key: &[Field]) -> usize {
        let mut at = 0;
        for &field in key {
            self.load(field, at);
            at += words(field, self.family);
        }
        at
    }

    fn load(&mut self, field: Field, at: usize) {
        let length = u32::try_from(self.family.address_len()).unwrap_or_default();
        let (source, destination) = address_offsets(self.family);
        let (ct_source, ct_destination) = match self.family {
            Family::V4 => (19, 20),
            Family::V6 => (21, 22),
        };
        match field {
            Field::Source => self.payload(NETWORK_HEADER, source, length, at),
            Field::Destination => self.payload(NETWORK_HEADER, destination, length, at),
            Field::Port => self.payload(TRANSPORT_HEADER, 2, 2, at),
            Field::Protocol => self.meta(META_PROTOCOL, at),
            Field::Random(modulus) => self.expression("numgen", |out| {
                let [dreg, modulus_attribute, kind, offset] = number::NUMGEN;
                out.number(dreg, register(at));
                out.number(modulus_attribute, modulus);
                out.number(kind, 1); // NFT_NG_RANDOM
                out.number(offset, 0);
            }),
            Field::OriginalSource => self.original(ct_source, at),
            Field::OriginalDestination => self.original(ct_destination, at),
            Field::OriginalPort => self.original(CT_DESTINATION_PORT, at),
            Field::FrontendAddress(frontend) => match frontend.address {
                IpAddr::V4(address) => self.immediate(&address.octets(), at),
                IpAddr::V6(address) => self.immediate(&address.octets(), at),
            },
            Field::FrontendProtocol(frontend) => {
                self.immediate(&[frontend.protocol.number()], at);
            }
            Field::FrontendPort(frontend) => self.immediate(&frontend.port.to_be_bytes(), at),
        }
    }

    fn payload(&mut self, base: u32, offset: u32, length: u32, at: usize) {
        self.expression("payload", |out| {
            let [dreg, base_attribute, offset_attribute, length_attribute] = number::PAYLOAD;
            out.number(dreg, register(at));
            out.number(base_attribute, base);
            out.number(offset_attribute, offset);
            out.number(length_attribute, length);
        });
    }

    fn meta(&mut self, key: u32, at: usize) {
        self.expression("meta", |out| {
            let [dreg, key_attribute, _] = number::META;
            out.number(key_attribute, key);
            out.number(dreg, register(at));
        });
    }

    fn original(&mut self, key: u32, at: usize) {
        self.expression("ct", |out| {
            let [dreg, key_attribute, direction] = number::CT;
            out.number(dreg, register(at));
            out.number(key_attribute, key);
            out.attribute(direction, &[DIRECTION_ORIGINAL]);
        });
    }

    fn conntrack_bit(&mut self, key: u32, bit: u32) {
        self.expression("ct", |out| {
            let [dreg, key_attribute, _] = number::CT;
            out.number(dreg, register(0));
            out.number(key_attribute, key);
        });
        self.bitwise(&bit.to_ne_bytes(), &[0; 4]);
        self.compare(NOT_EQUAL, &[0; 4]);
    }

    fn immediate(&mut self, value: &[u8], at: usize) {
        self.expression("immediate", |out| {
            let [dreg, data_attribute] = number::IMMEDIATE;
            out.number(dreg, register(at));
            put_value(out, data_attribute, value);
        });
    }

    fn verdict(&mut self, code: i32, chain: Option<&str>) {
        self.expression("immediate", |out| {
            let [dreg, data_attribute] = number::IMMEDIATE;
            out.number(dreg, VERDICT);
            put_verdict(out, data_attribute, code, chain);
        });
    }

    fn compare(&mut self, operator: u32, value: &[u8]) {
        self.expression("cmp", |out| {
            let [sreg, op, data_attribute] = number::COMPARE;
            out.number(sreg, register(0));
            out.number(op, operator);
            put_value(out, data_attribute, value);
        });
    }

    fn bitwise(&mut self, mask: &[u8], xor: &[u8]) {
        self.expression("bitwise", |out| {
            let [sreg, dreg, length, mask_attribute, xor_attribute] = number::BITWISE;
            out.number(sreg, register(0));
            out.number(dreg, register(0));
            out.number(length, u32::try_from(mask.len()).unwrap_or(u32::MAX));
            put_value(out, mask_attribute, mask);
            put_value(out, xor_attribute, xor);
        });
    }

    /// Like `nft`, compares whole bytes where the prefix ends at one, and masked ones elsewhere.
    fn source_in(&mut self, network: IpAddr, prefix: u8, operator: u32) {
        let address = match network {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let whole_bytes = usize::from(prefix / 8);
        if prefix.is_multiple_of(8) && (1..=address.len()).contains(&whole_bytes) {
            let (source, _) = address_offsets(self.family);
            self.payload(NETWORK_HEADER, source, u32::from(prefix / 8), 0);
            return self.compare(operator, address.get(..whole_bytes).unwrap_or_default());
        }
        let mask: Vec<u8> = (0..address.len())
            .map(|byte| {
                let bits = usize::from(prefix).saturating_sub(byte * 8).min(8);
                !(0xff_u8.checked_shr(u32::try_from(bits).unwrap_or(8)).unwrap_or(0))
            })
            .collect();
        self.load(Field::Source, 0);
        self.bitwise(&mask, &vec![0; mask.len()]);
        self.compare(operator, &address);
    }

    fn service_protocol(&mut self) {
        let id = self.next_set;
        self.next_set += 1;
        self.meta(META_PROTOCOL, 0);
        self.expression("lookup", |out| {
            let [set, sreg, _, set_id, _] = number::LOOKUP;
            out.text(set, ANONYMOUS_SET);
            out.number(sreg, register(0));
            out.number(set_id, id);
        });
    }

    fn lookup(&mut self, name: SetName, negated: bool) {
        self.expression("lookup", |out| {
            let [set, sreg, _, _, flags] = number::LOOKUP;
            out.text(set, name);
            out.number(sreg, register(0));
            out.number(flags, u32::from(negated));
        });
    }

    fn map_lookup(&mut self, name: SetName, destination: u32) {
        self.expression("lookup", |out| {
            let [set, sreg, dreg, _, _] = number::LOOKUP;
            out.text(set, name);
            out.number(sreg, register(0));
            out.number(dreg, destination);
        });
    }

    fn dnat(&mut self, key: &[Field], map: SetName) {
        self.load_key(key);
        self.map_lookup(map, register(0));
        let family = u32::from(family_number(self.family));
        let port = register(self.family.address_len() / 4);
        self.expression("nat", |out| {
            let [kind, family_attribute, address_min, address_max, port_min, port_max, flags] =
                number::NAT;
            out.number(kind, 1); // NFT_NAT_DNAT
            out.number(family_attribute, family);
            out.number(address_min, register(0));
            out.number(address_max, register(0));
            out.number(port_min, port);
            out.number(port_max, port);
            out.number(flags, ADDRESS_AND_PORT);
        });
    }

    fn learn(&mut self, key: &[Field], timeout: u32) {
        let value = self.load_key(key);
        self.load(Field::Destination, value);
        self.load(Field::Port, value + self.family.address_len() / 4);
        self.expression("dynset", |out| {
            let [set, _, op, key_register, data_register, timeout_attribute] = number::DYNSET;
            out.text(set, SetName::Affinity);
            out.number(op, 1); // NFT_DYNSET_OP_UPDATE
            out.number(key_register, register(0));
            out.number(data_register, register(value));
            out.long_number(timeout_attribute, u64::from(timeout) * 1000);
        });
    }

    /// `mark = (mark & keep) ^ flip`
    fn change_mark(&mut self, keep: u32, flip: u32) {
        self.meta(META_MARK, 0);
        self.bitwise(&keep.to_ne_bytes(), &flip.to_ne_bytes());
        self.expression("meta", |out| {
            let [_, key, sreg] = number::META;
            out.number(key, META_MARK);
            out.number(sreg, register(0));
        });
    }
}

/// Where source and destination are in the network header.
fn address_offsets(family: Family) -> (u32, u32) {
    match family {
        Family::V4 => (12, 16),
        Family::V6 => (8, 24),
    }
}

fn operator(negated: bool) -> u32 {
    if negated { NOT_EQUAL } else { EQUAL }
}

/// A whole name is compared with the zeros behind it, the beginning of one without.
fn interface_bytes(name: &str, prefix: bool) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    if !prefix {
        bytes.resize(INTERFACE_NAME_LEN, 0);
    }
    bytes
}

/// Writes a value as the kernel's `nft_data`.
pub(super) fn put_value(out: &mut Buffer, kind: u16, value: &[u8]) {
    let nest = out.begin(kind);
    out.attribute(data::VALUE, value);
    out.end(nest);
}

/// Writes a verdict as the kernel's `nft_data`.
pub(super) fn put_verdict(
    out: &mut Buffer,
    kind: u16,
    code: i32,
    chain: Option<impl std::fmt::Display>,
) {
    let nest = out.begin(kind);
    let verdict = out.begin(data::VERDICT);
    out.number(data::VERDICT_CODE, code.cast_unsigned());
    if let Some(chain) = chain {
        out.text(data::VERDICT_CHAIN, chain);
    }
    out.end(verdict);
    out.end(nest);
}
