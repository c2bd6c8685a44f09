//! Sets as the kernel describes them: flags, key and data types, lengths, and the user data from
//! which `nft` knows what to call the parts of a key (`typeof`).

use super::expression::ANONYMOUS_SET;
use super::number::{LIST_ELEMENT, set};
use super::wire::Buffer;
use crate::frontend::Family;
use crate::program::{Field, FieldType, SetDef, SetValue};
use crate::rows::SetName;

/// What the kernel remembers about a set and tells when asked, user data aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) flags: u32,
    pub(super) key_type: u32,
    pub(super) key_len: u32,
    pub(super) data_type: u32,
    pub(super) data_len: u32,
}

impl Layout {
    /// The layout of `definition` in the table of `family`.
    pub(super) fn of(definition: &SetDef, family: Family) -> Self {
        let mut flags = 0;
        let (data_type, data_len) = match definition.value {
            SetValue::None => (0, 0),
            SetValue::Verdict => (set::VERDICT_TYPE, 0),
            SetValue::Endpoint => (
                concatenated_type(&ENDPOINT, family),
                ENDPOINT.iter().map(|&field| padded_len(field, family)).sum(),
            ),
        };
        if definition.value != SetValue::None {
            flags |= set::MAP;
        }
        if definition.interval {
            flags |= set::INTERVAL;
            if definition.key.len() > 1 {
                flags |= set::CONCATENATION;
            }
        }
        if definition.dynamic.is_some() {
            flags |= set::TIMEOUT | set::EVALUATED;
        }
        let key_len = match definition.key {
            [single] => field_len(*single, family),
            several => several.iter().map(|&field| padded_len(field, family)).sum(),
        };
        let key_type = concatenated_type(definition.key, family);
        Self { flags, key_type, key_len, data_type, data_len }
    }
}

const ENDPOINT: [FieldType; 2] = [FieldType::Address, FieldType::Port];

/// `nft`'s number of a type. They are part of its interface: sets carry them.
fn type_number(field: FieldType, family: Family) -> u32 {
    match (field, family) {
        (FieldType::Slot, _) => 4,
        (FieldType::Address, Family::V4) => 7,
        (FieldType::Address, Family::V6) => 8,
        (FieldType::Protocol, _) => 12,
        (FieldType::Port, _) => 13,
    }
}

fn concatenated_type(fields: &[FieldType], family: Family) -> u32 {
    fields.iter().fold(0, |all, &field| all << 6 | type_number(field, family))
}

fn field_len(field: FieldType, family: Family) -> u32 {
    match field {
        FieldType::Address if family == Family::V4 => 4,
        FieldType::Address => 16,
        FieldType::Protocol => 1,
        FieldType::Port => 2,
        FieldType::Slot => 4,
    }
}

fn padded_len(field: FieldType, family: Family) -> u32 {
    field_len(field, family).next_multiple_of(4)
}

/// Writes the attributes of a new-set message.
pub(super) fn put_set(out: &mut Buffer, definition: &SetDef, family: Family, id: u32) {
    let layout = Layout::of(definition, family);
    out.text(set::NAME, definition.name);
    out.number(set::FLAGS, layout.flags);
    out.number(set::KEY_TYPE, layout.key_type);
    out.number(set::KEY_LEN, layout.key_len);
    if definition.value != SetValue::None {
        out.number(set::DATA_TYPE, layout.data_type);
        out.number(set::DATA_LEN, layout.data_len);
    }
    out.number(set::ID, id);
    if definition.dynamic.is_some() || layout.flags & set::CONCATENATION != 0 {
        put_description(out, definition, family);
    }
    out.attribute(set::USER_DATA, &user_data(definition, family));
}

/// Writes the attributes of the anonymous set `{ tcp, udp, sctp }`, for a new-set message.
pub(super) fn put_protocol_set(out: &mut Buffer, id: u32) {
    out.text(set::NAME, ANONYMOUS_SET);
    out.number(set::FLAGS, set::ANONYMOUS | set::CONSTANT);
    out.number(set::KEY_TYPE, type_number(FieldType::Protocol, Family::V4));
    out.number(set::KEY_LEN, 1);
    out.number(set::ID, id);
    let mut user_data = Vec::new();
    put_u32(&mut user_data, part::KEY_BYTE_ORDER, BYTE_ORDER_HOST);
    put_nested(&mut user_data, part::KEY_TYPEOF, |out| {
        put_typeof(out, &[Field::Protocol], Family::V4);
    });
    out.attribute(set::USER_DATA, &user_data);
}

/// How many elements fit, and how long the fields of an interval's key are.
fn put_description(out: &mut Buffer, definition: &SetDef, family: Family) {
    let description = out.begin(set::DESCRIPTION);
    if let Some(size) = definition.dynamic {
        out.number(set::DESCRIPTION_SIZE, size);
    }
    if definition.interval {
        let fields = out.begin(set::DESCRIPTION_CONCATENATION);
        for &field in definition.key {
            let one = out.begin(LIST_ELEMENT);
            out.number(set::FIELD_LEN, field_len(field, family));
            out.end(one);
        }
        out.end(fields);
    }
    out.end(description);
}

/// The parts of the user data of sets, as libnftnl and nft number them. The format is a list of
/// type, length (one byte each) and value; numbers are in host order.
mod part {
    pub(super) const KEY_BYTE_ORDER: u8 = 0;
    pub(super) const DATA_BYTE_ORDER: u8 = 1;
    pub(super) const MERGE_ELEMENTS: u8 = 2;
    pub(super) const KEY_TYPEOF: u8 = 3;
    pub(super) const DATA_TYPEOF: u8 = 4;
    pub(super) const DATA_INTERVAL: u8 = 6;

    pub(super) const EXPRESSION_KIND: u8 = 0;
    pub(super) const EXPRESSION_DATA: u8 = 1;
}

/// The expressions of `nft` that we name in `typeof`.
mod expression {
    pub(super) const VERDICT: u32 = 1;
    pub(super) const PAYLOAD: u32 = 7;
    pub(super) const META: u32 = 9;
    pub(super) const CONCATENATION: u32 = 13;
    pub(super) const NUMGEN: u32 = 23;
}

const BYTE_ORDER_NONE: u32 = 0;
const BYTE_ORDER_HOST: u32 = 1;
const BYTE_ORDER_NETWORK: u32 = 2;

/// Only a hint at the type of a slot: `numgen` with another modulus fits as well.
const SLOT_MODULUS: u32 = 65_536;

fn user_data(definition: &SetDef, family: Family) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = typeof_fields(definition);
    let order = if fields.len() == 1 { BYTE_ORDER_NETWORK } else { BYTE_ORDER_NONE };
    put_u32(&mut out, part::KEY_BYTE_ORDER, order);
    let is_map = definition.value != SetValue::None;
    if is_map {
        put_u32(&mut out, part::DATA_BYTE_ORDER, BYTE_ORDER_NONE);
    }
    if definition.interval && fields.len() == 1 {
        put_u32(&mut out, part::MERGE_ELEMENTS, 1);
    }
    put_nested(&mut out, part::KEY_TYPEOF, |out| put_typeof(out, &fields, family));
    match definition.value {
        SetValue::None => {}
        SetValue::Verdict => put_nested(&mut out, part::DATA_TYPEOF, |out| {
            put_u32(out, part::EXPRESSION_KIND, expression::VERDICT);
            put_nested(out, part::EXPRESSION_DATA, |_| {});
        }),
        SetValue::Endpoint => put_nested(&mut out, part::DATA_TYPEOF, |out| {
            put_typeof(out, &[Field::Destination, Field::Port], family);
        }),
    }
    if is_map {
        put_u32(&mut out, part::DATA_INTERVAL, 0);
    }
    out
}

/// Which fields a set's key is made of when the program looks something up in it.
fn typeof_fields(definition: &SetDef) -> Vec<Field> {
    let source_at = match definition.name {
        SetName::Hairpins => 0,
        _ => 3,
    };
    let fields = definition.key.iter().enumerate();
    fields
        .map(|(at, field)| match field {
            FieldType::Address if at == source_at => Field::Source,
            FieldType::Address => Field::Destination,
            FieldType::Protocol => Field::Protocol,
            FieldType::Port => Field::Port,
            FieldType::Slot => Field::Random(SLOT_MODULUS),
        })
        .collect()
}

fn put_typeof(out: &mut Vec<u8>, fields: &[Field], family: Family) {
    if let [single] = fields {
        return put_field(out, *single, family);
    }
    put_u32(out, part::EXPRESSION_KIND, expression::CONCATENATION);
    put_nested(out, part::EXPRESSION_DATA, |out| {
        for (index, &field) in (0..).zip(fields) {
            put_nested(out, index, |out| put_field(out, field, family));
        }
    });
}

fn put_field(out: &mut Vec<u8>, field: Field, family: Family) {
    // nft's numbers: protocol headers (ip 12, ip6 13, th 11) and the fields in them.
    let (header, source, destination) = match family {
        Family::V4 => (12, 11, 12),
        Family::V6 => (13, 8, 9),
    };
    let (kind, numbers): (u32, &[u32]) = match field {
        Field::Source | Field::OriginalSource => (expression::PAYLOAD, &[header, source]),
        Field::Destination | Field::OriginalDestination | Field::FrontendAddress(_) => {
            (expression::PAYLOAD, &[header, destination])
        }
        Field::Port | Field::OriginalPort | Field::FrontendPort(_) => {
            (expression::PAYLOAD, &[11, 2])
        }
        Field::Protocol => (expression::META, &[16]),
        Field::Random(modulus) => (expression::NUMGEN, &[1, modulus, 0]),
    };
    put_u32(out, part::EXPRESSION_KIND, kind);
    put_nested(out, part::EXPRESSION_DATA, |out| {
        for (index, &number) in (0..).zip(numbers) {
            put_u32(out, index, number);
        }
    });
}

fn put_u32(out: &mut Vec<u8>, kind: u8, value: u32) {
    out.extend_from_slice(&[kind, 4]);
    out.extend_from_slice(&value.to_ne_bytes());
}

fn put_nested(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[kind, 0]);
    write(out);
    // Ours are far shorter than a byte can say.
    let length = u8::try_from(out.len() - at - 2).unwrap_or(u8::MAX);
    if let Some(place) = out.get_mut(at + 1) {
        *place = length;
    }
}

/// The user data of a table or set: a comment.
pub(super) fn comment_user_data(comment: &str) -> Vec<u8> {
    // nft refuses comments of more than 128 bytes.
    let text = comment.as_bytes().get(..127).unwrap_or(comment.as_bytes());
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    let mut out = vec![TABLE_COMMENT, length];
    out.extend_from_slice(text);
    out.push(0);
    out
}

/// Reads a comment back from a table's user data.
pub(super) fn comment_in(user_data: &[u8]) -> Option<&str> {
    let mut rest = user_data;
    while let [kind, length, ..] = *rest {
        let value = rest.get(2..2 + usize::from(length))?;
        if kind == TABLE_COMMENT {
            return std::str::from_utf8(value.strip_suffix(&[0]).unwrap_or(value)).ok();
        }
        rest = rest.get(2 + usize::from(length)..)?;
    }
    None
}

const TABLE_COMMENT: u8 = 0;
