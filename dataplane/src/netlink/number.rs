//! The numbers of the kernel's netlink interface that we use (`linux/netlink.h`,
//! `linux/netfilter/nfnetlink.h`, `linux/netfilter/nf_tables.h`,
//! `linux/netfilter/nfnetlink_conntrack.h`), under shorter names.

use crate::frontend::Family;

/// The address family's number (`NFPROTO_…`).
pub(super) fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// The `nf_tables` subsystem, the high byte of its message types.
pub(super) const SUBSYSTEM: u16 = 10;
/// The multicast group of changes to nftables.
pub(super) const CHANGES_GROUP: u32 = 7;

/// Bits of `nlmsghdr.nlmsg_flags`.
pub(super) mod flag {
    pub(in crate::netlink) const REQUEST: u16 = 0x1;
    pub(in crate::netlink) const ACK: u16 = 0x4;
    /// In an answer: the dump is not of one moment.
    pub(in crate::netlink) const DUMP_INTERRUPTED: u16 = 0x10;
    pub(in crate::netlink) const DUMP: u16 = 0x300;
    pub(in crate::netlink) const EXCLUSIVE: u16 = 0x200;
    pub(in crate::netlink) const CREATE: u16 = 0x400;
    pub(in crate::netlink) const APPEND: u16 = 0x800;
    /// In an error: attributes follow (`NETLINK_EXT_ACK`).
    pub(in crate::netlink) const ACK_ATTRIBUTES: u16 = 0x200;
}

/// `nlmsghdr.nlmsg_type`, for `nf_tables` without the subsystem.
pub(super) mod message {
    pub(in crate::netlink) const ERROR: u16 = 2;
    pub(in crate::netlink) const DONE: u16 = 3;
    pub(in crate::netlink) const BATCH_BEGIN: u16 = 0x10;
    pub(in crate::netlink) const BATCH_END: u16 = 0x11;

    pub(in crate::netlink) const NEW_TABLE: u16 = 0;
    pub(in crate::netlink) const GET_TABLE: u16 = 1;
    pub(in crate::netlink) const DELETE_TABLE: u16 = 2;
    pub(in crate::netlink) const NEW_CHAIN: u16 = 3;
    pub(in crate::netlink) const GET_CHAIN: u16 = 4;
    pub(in crate::netlink) const DELETE_CHAIN: u16 = 5;
    pub(in crate::netlink) const NEW_RULE: u16 = 6;
    pub(in crate::netlink) const GET_RULE: u16 = 7;
    pub(in crate::netlink) const DELETE_RULE: u16 = 8;
    pub(in crate::netlink) const NEW_SET: u16 = 9;
    pub(in crate::netlink) const GET_SET: u16 = 10;
    pub(in crate::netlink) const NEW_ELEMENTS: u16 = 12;
    pub(in crate::netlink) const GET_ELEMENTS: u16 = 13;
    pub(in crate::netlink) const DELETE_ELEMENTS: u16 = 14;
    pub(in crate::netlink) const NEW_GENERATION: u16 = 15;
    pub(in crate::netlink) const GET_GENERATION: u16 = 16;
    /// Deletes elements and does not mind if they are not there. Linux 6.3.
    pub(in crate::netlink) const DESTROY_ELEMENTS: u16 = 30;
}

/// Attributes of an error answer.
pub(super) mod ack {
    pub(in crate::netlink) const OFFSET: u16 = 2;
}

/// An element of a list of attributes.
pub(super) const LIST_ELEMENT: u16 = 1;

/// Attributes of tables.
pub(super) mod table {
    pub(in crate::netlink) const NAME: u16 = 1;
    pub(in crate::netlink) const FLAGS: u16 = 2;
    pub(in crate::netlink) const USER_DATA: u16 = 6;
    /// The number of the socket that holds the table.
    pub(in crate::netlink) const OWNER: u16 = 7;
    /// Flag: the table's chains are not called.
    pub(in crate::netlink) const DORMANT: u32 = 1;
}

/// Attributes of chains.
pub(super) mod chain {
    pub(in crate::netlink) const TABLE: u16 = 1;
    pub(in crate::netlink) const NAME: u16 = 3;
    pub(in crate::netlink) const HOOK: u16 = 4;
    pub(in crate::netlink) const POLICY: u16 = 5;
    pub(in crate::netlink) const USE: u16 = 6;
    pub(in crate::netlink) const TYPE: u16 = 7;
    pub(in crate::netlink) const HOOK_NUMBER: u16 = 1;
    pub(in crate::netlink) const HOOK_PRIORITY: u16 = 2;
}

/// Attributes of rules and of the expressions in them.
pub(super) mod rule {
    pub(in crate::netlink) const TABLE: u16 = 1;
    pub(in crate::netlink) const CHAIN: u16 = 2;
    pub(in crate::netlink) const HANDLE: u16 = 3;
    pub(in crate::netlink) const EXPRESSIONS: u16 = 4;
    pub(in crate::netlink) const EXPRESSION_NAME: u16 = 1;
    pub(in crate::netlink) const EXPRESSION_DATA: u16 = 2;
}

/// Attributes and flags of sets.
pub(super) mod set {
    pub(in crate::netlink) const TABLE: u16 = 1;
    pub(in crate::netlink) const NAME: u16 = 2;
    pub(in crate::netlink) const FLAGS: u16 = 3;
    pub(in crate::netlink) const KEY_TYPE: u16 = 4;
    pub(in crate::netlink) const KEY_LEN: u16 = 5;
    pub(in crate::netlink) const DATA_TYPE: u16 = 6;
    pub(in crate::netlink) const DATA_LEN: u16 = 7;
    pub(in crate::netlink) const DESCRIPTION: u16 = 9;
    pub(in crate::netlink) const ID: u16 = 10;
    pub(in crate::netlink) const USER_DATA: u16 = 13;
    /// How many elements there are; told since Linux 6.16.
    pub(in crate::netlink) const COUNT: u16 = 20;
    pub(in crate::netlink) const DESCRIPTION_SIZE: u16 = 1;
    pub(in crate::netlink) const DESCRIPTION_CONCATENATION: u16 = 2;
    pub(in crate::netlink) const FIELD_LEN: u16 = 1;

    pub(in crate::netlink) const ANONYMOUS: u32 = 0x1;
    pub(in crate::netlink) const CONSTANT: u32 = 0x2;
    pub(in crate::netlink) const INTERVAL: u32 = 0x4;
    pub(in crate::netlink) const MAP: u32 = 0x8;
    pub(in crate::netlink) const TIMEOUT: u32 = 0x10;
    pub(in crate::netlink) const EVALUATED: u32 = 0x20;
    pub(in crate::netlink) const CONCATENATION: u32 = 0x80;

    /// The data type of verdict maps.
    pub(in crate::netlink) const VERDICT_TYPE: u32 = 0xffff_ff00;
}

/// Attributes and flags of set elements and of the lists they come in.
pub(super) mod element {
    pub(in crate::netlink) const LIST_TABLE: u16 = 1;
    pub(in crate::netlink) const LIST_SET: u16 = 2;
    pub(in crate::netlink) const LIST_ELEMENTS: u16 = 3;
    pub(in crate::netlink) const LIST_SET_ID: u16 = 4;
    pub(in crate::netlink) const KEY: u16 = 1;
    pub(in crate::netlink) const DATA: u16 = 2;
    pub(in crate::netlink) const FLAGS: u16 = 3;
    pub(in crate::netlink) const TIMEOUT: u16 = 4;
    pub(in crate::netlink) const EXPIRATION: u16 = 5;
    pub(in crate::netlink) const KEY_END: u16 = 10;

    pub(in crate::netlink) const INTERVAL_END: u32 = 0x1;
}

/// Attributes of values, and verdicts.
pub(super) mod data {
    pub(in crate::netlink) const VALUE: u16 = 1;
    pub(in crate::netlink) const VERDICT: u16 = 2;
    pub(in crate::netlink) const VERDICT_CODE: u16 = 1;
    pub(in crate::netlink) const VERDICT_CHAIN: u16 = 2;

    pub(in crate::netlink) const DROP: i32 = 0;
    pub(in crate::netlink) const ACCEPT: u32 = 1;
    pub(in crate::netlink) const GOTO: i32 = -4;
}

/// Attributes of a generation.
pub(super) mod generation {
    pub(in crate::netlink) const ID: u16 = 1;
}

/// Messages and attributes of connection tracking (`ctnetlink`).
pub(super) mod conntrack {
    /// The subsystem, the high byte of its message types.
    pub(in crate::netlink) const SUBSYSTEM: u16 = 1;

    pub(in crate::netlink) const NEW: u16 = 0;
    pub(in crate::netlink) const GET: u16 = 1;
    pub(in crate::netlink) const DELETE: u16 = 2;

    pub(in crate::netlink) const ORIGINAL: u16 = 1;
    pub(in crate::netlink) const REPLY: u16 = 2;
    pub(in crate::netlink) const STATUS: u16 = 3;
    pub(in crate::netlink) const TIMEOUT: u16 = 7;
    pub(in crate::netlink) const ID: u16 = 12;
    pub(in crate::netlink) const ZONE: u16 = 18;
    pub(in crate::netlink) const FILTER: u16 = 25;

    pub(in crate::netlink) const TUPLE_ADDRESSES: u16 = 1;
    pub(in crate::netlink) const TUPLE_PROTOCOL: u16 = 2;
    pub(in crate::netlink) const V4_SOURCE: u16 = 1;
    pub(in crate::netlink) const V4_DESTINATION: u16 = 2;
    pub(in crate::netlink) const V6_SOURCE: u16 = 3;
    pub(in crate::netlink) const V6_DESTINATION: u16 = 4;
    pub(in crate::netlink) const PROTOCOL_NUMBER: u16 = 1;
    pub(in crate::netlink) const SOURCE_PORT: u16 = 2;
    pub(in crate::netlink) const DESTINATION_PORT: u16 = 3;

    /// Which parts of the original direction a dump is filtered by, in host order.
    pub(in crate::netlink) const FILTER_ORIGINAL: u16 = 1;
    pub(in crate::netlink) const BY_DESTINATION: u32 = 1 << 1;
    pub(in crate::netlink) const BY_PROTOCOL: u32 = 1 << 3;
    pub(in crate::netlink) const BY_DESTINATION_PORT: u32 = 1 << 5;

    /// Answered in both directions, and so kept for the longer time.
    pub(in crate::netlink) const SEEN_REPLY: u32 = 1 << 1;
    pub(in crate::netlink) const CONFIRMED: u32 = 1 << 3;
}
