//! The kernel's expressions, one method each: the instructions of the register programs that rules
//! are. What a rule is made of is [`super::rule`]'s business.

use super::number::{LIST_ELEMENT, data, rule as attribute};
use super::wire::Buffer;
use crate::rows::SetName;

/// The register that verdicts go to.
const VERDICT: u32 = 0;
/// The name under which a batch refers to a set that has none.
pub(super) const ANONYMOUS_SET: &str = "__set%d";

/// How values are compared (`NFT_CMP_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal = 0,
    NotEqual = 1,
}

/// What `meta` loads and sets (`NFT_META_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meta {
    Mark = 3,
    InputInterface = 6,
    Protocol = 16,
}

/// What `ct` loads (`NFT_CT_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conntrack {
    State = 0,
    Status = 2,
    DestinationPort = 12,
    SourceV4 = 19,
    DestinationV4 = 20,
    SourceV6 = 21,
    DestinationV6 = 22,
}

/// What `payload` counts from (`NFT_PAYLOAD_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Network = 1,
    Transport = 2,
}

/// A register of 32 bits, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register(pub(super) u32);

impl Register {
    /// Where every program begins.
    pub(super) const FIRST: Self = Self(0);

    /// The number that the kernel itself uses in dumps: every fourth register is the beginning of
    /// one of 128 bits and goes by that one's name.
    fn number(self) -> u32 {
        if self.0.is_multiple_of(4) { 1 + self.0 / 4 } else { 8 + self.0 }
    }
}

/// Writes expressions into the list of a rule.
#[derive(Debug)]
pub(super) struct Expressions<'a> {
    pub(super) out: &'a mut Buffer,
}

// The numbers of the attributes are those of `linux/netfilter/nf_tables.h`, `NFTA_<EXPRESSION>_…`.
impl Expressions<'_> {
    fn expression(&mut self, name: &str, write: impl FnOnce(&mut Buffer)) {
        let one = self.out.begin(LIST_ELEMENT);
        self.out.text(attribute::EXPRESSION_NAME, name);
        let values = self.out.begin(attribute::EXPRESSION_DATA);
        write(self.out);
        self.out.end(values);
        self.out.end(one);
    }

    /// Loads `length` bytes of the packet.
    pub(super) fn payload(&mut self, from: Header, offset: u32, length: u32, to: Register) {
        let [dreg, base, offset_attribute, length_attribute] = [1, 2, 3, 4];
        self.expression("payload", |out| {
            out.number(dreg, to.number());
            out.number(base, from as u32);
            out.number(offset_attribute, offset);
            out.number(length_attribute, length);
        });
    }

    /// Loads something about the packet that is not in it.
    pub(super) fn meta(&mut self, what: Meta, to: Register) {
        let [dreg, key] = [1, 2];
        self.expression("meta", |out| {
            out.number(key, what as u32);
            out.number(dreg, to.number());
        });
    }

    /// Sets something about the packet to what the first register holds.
    pub(super) fn set_meta(&mut self, what: Meta) {
        let [key, sreg] = [2, 3];
        self.expression("meta", |out| {
            out.number(key, what as u32);
            out.number(sreg, Register::FIRST.number());
        });
    }

    /// Loads something about the connection.
    pub(super) fn conntrack(&mut self, what: Conntrack, to: Register) {
        let [dreg, key] = [1, 2];
        self.expression("ct", |out| {
            out.number(dreg, to.number());
            out.number(key, what as u32);
        });
    }

    /// Loads something about the connection as the client sees it.
    pub(super) fn original(&mut self, what: Conntrack, to: Register) {
        let [dreg, key, direction] = [1, 2, 3];
        let original = 0;
        self.expression("ct", |out| {
            out.number(dreg, to.number());
            out.number(key, what as u32);
            out.attribute(direction, &[original]);
        });
    }

    /// Loads a random number below `modulus`.
    pub(super) fn random(&mut self, modulus: u32, to: Register) {
        let [dreg, modulus_attribute, kind, offset] = [1, 2, 3, 4];
        let random = 1;
        self.expression("numgen", |out| {
            out.number(dreg, to.number());
            out.number(modulus_attribute, modulus);
            out.number(kind, random);
            out.number(offset, 0);
        });
    }

    /// Loads of which kind the source address is.
    pub(super) fn source_kind(&mut self, to: Register) {
        let [dreg, result, flags] = [1, 2, 3];
        let (address_kind, source) = (3, 1);
        self.expression("fib", |out| {
            out.number(dreg, to.number());
            out.number(result, address_kind);
            out.number(flags, source);
        });
    }

    /// Loads a constant.
    pub(super) fn immediate(&mut self, value: &[u8], to: Register) {
        let [dreg, data_attribute] = [1, 2];
        self.expression("immediate", |out| {
            out.number(dreg, to.number());
            put_value(out, data_attribute, value);
        });
    }

    /// Goes on only if the first register compares so.
    pub(super) fn compare(&mut self, how: Comparison, value: &[u8]) {
        let [sreg, operator, data_attribute] = [1, 2, 3];
        self.expression("cmp", |out| {
            out.number(sreg, Register::FIRST.number());
            out.number(operator, how as u32);
            put_value(out, data_attribute, value);
        });
    }

    /// Makes `(first & mask) ^ xor` of the first register.
    pub(super) fn bitwise(&mut self, mask: &[u8], xor: &[u8]) {
        let [sreg, dreg, length, mask_attribute, xor_attribute] = [1, 2, 3, 4, 5];
        self.expression("bitwise", |out| {
            out.number(sreg, Register::FIRST.number());
            out.number(dreg, Register::FIRST.number());
            out.number(length, u32::try_from(mask.len()).unwrap_or(u32::MAX));
            put_value(out, mask_attribute, mask);
            put_value(out, xor_attribute, xor);
        });
    }

    /// Goes on only if the key is in the set, or is not if `negated`.
    pub(super) fn lookup(&mut self, set: SetName, negated: bool) {
        let [name, sreg, flags] = [1, 2, 5];
        self.expression("lookup", |out| {
            out.text(name, set);
            out.number(sreg, Register::FIRST.number());
            out.number(flags, u32::from(negated));
        });
    }

    /// Goes on only if the first register is in the anonymous set that the batch calls `id`.
    pub(super) fn lookup_anonymous(&mut self, id: u32) {
        let [name, sreg, set_id] = [1, 2, 4];
        self.expression("lookup", |out| {
            out.text(name, ANONYMOUS_SET);
            out.number(sreg, Register::FIRST.number());
            out.number(set_id, id);
        });
    }

    /// Does what the map says for the key.
    pub(super) fn lookup_verdict(&mut self, map: SetName) {
        self.lookup_to(map, VERDICT);
    }

    /// Replaces the key with what the map holds for it.
    pub(super) fn lookup_value(&mut self, map: SetName) {
        self.lookup_to(map, Register::FIRST.number());
    }

    fn lookup_to(&mut self, map: SetName, to: u32) {
        let [name, sreg, dreg] = [1, 2, 3];
        self.expression("lookup", |out| {
            out.text(name, map);
            out.number(sreg, Register::FIRST.number());
            out.number(dreg, to);
        });
    }

    /// Sends the connection to the address in the first register and to `port`.
    pub(super) fn dnat(&mut self, family: u8, port: Register) {
        let [kind, family_attribute, address_min, address_max, port_min, port_max, flags] =
            [1, 2, 3, 4, 5, 6, 7];
        let (destination, address_and_port) = (1, 3);
        self.expression("nat", |out| {
            out.number(kind, destination);
            out.number(family_attribute, u32::from(family));
            out.number(address_min, Register::FIRST.number());
            out.number(address_max, Register::FIRST.number());
            out.number(port_min, port.number());
            out.number(port_max, port.number());
            out.number(flags, address_and_port);
        });
    }

    /// Gives the connection this node's address and a port that cannot be guessed.
    pub(super) fn masquerade(&mut self) {
        let flags = 1;
        let fully_random = 0x10;
        self.expression("masq", |out| out.number(flags, fully_random));
    }

    /// Writes an element with the key in the first register and the value from `value` on.
    pub(super) fn update(&mut self, map: SetName, value: Register, timeout_ms: u64) {
        let [name, operation, key_register, value_register, timeout] = [1, 3, 4, 5, 6];
        let update = 1;
        self.expression("dynset", |out| {
            out.text(name, map);
            out.number(operation, update);
            out.number(key_register, Register::FIRST.number());
            out.number(value_register, value.number());
            out.long_number(timeout, timeout_ms);
        });
    }

    /// Answers with a TCP reset.
    pub(super) fn reject_tcp(&mut self) {
        let (kind, tcp_reset) = (1, 1);
        self.expression("reject", |out| out.number(kind, tcp_reset));
    }

    /// Answers with an ICMP error of the packet's family.
    pub(super) fn reject(&mut self, icmp_code: u8) {
        let [kind, code] = [1, 2];
        let unreachable = 0;
        self.expression("reject", |out| {
            out.number(kind, unreachable);
            out.attribute(code, &[icmp_code]);
        });
    }

    /// Ends the chain with a verdict.
    pub(super) fn verdict(&mut self, code: i32, chain: Option<&str>) {
        let [dreg, data_attribute] = [1, 2];
        self.expression("immediate", |out| {
            out.number(dreg, VERDICT);
            put_verdict(out, data_attribute, code, chain);
        });
    }
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
