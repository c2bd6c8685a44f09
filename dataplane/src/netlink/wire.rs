//! Netlink's bytes: messages and attributes, written into one growing buffer and read in place.
//! Knows nothing about nftables.

use std::io::Write as _;

/// Length of `nlmsghdr`.
pub(super) const HEADER: usize = 16;
/// Length of `nfgenmsg`, which every netfilter message has after its header.
pub(super) const FAMILY_HEADER: usize = 4;
const ATTRIBUTE: usize = 4;
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// Up to the next multiple of four, which is where the next attribute or message begins.
const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

/// Messages one after the other. Every method leaves the length a multiple of four.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
}

/// A nest that is being written: where its attribute header is.
#[derive(Debug)]
#[must_use = "a nest that is not closed has no length"]
pub(super) struct Nest(usize);

impl Buffer {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// For tests that spoil a message.
    #[cfg(test)]
    pub(super) fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that fit without more memory.
    pub(super) fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// Begins a message; returns its offset, for [`Buffer::end_message`]. The sequence number is
    /// `sequence`, the sender is filled in by the kernel.
    pub(super) fn begin_message(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        family: u8,
        resource: u16,
    ) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&[family, 0]);
        self.bytes.extend_from_slice(&resource.to_be_bytes());
        start
    }

    pub(super) fn end_message(&mut self, start: usize) {
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.overwrite(start, &length.to_ne_bytes());
    }

    /// Adds flags to the message at `start`.
    pub(super) fn add_flags(&mut self, start: usize, flags: u16) {
        let at = start + 6;
        if let Some(&[low, high]) = self.bytes.get(at..at + 2) {
            let flags = u16::from_ne_bytes([low, high]) | flags;
            self.overwrite(at, &flags.to_ne_bytes());
        }
    }

    fn overwrite(&mut self, at: usize, with: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + with.len()) {
            place.copy_from_slice(with);
        }
    }

    /// Raw bytes of a value whose length is a multiple of four, such as part of a key.
    pub(super) fn put(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    /// An attribute's length does not count its padding. What is written here stays below 64 KiB;
    /// should that ever be wrong, the kernel sees an absurd length and refuses the message.
    fn close(&mut self, start: usize) {
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.overwrite(start, &length.to_ne_bytes());
        self.pad();
    }

    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let start = self.open(kind);
        self.bytes.extend_from_slice(value);
        self.close(start);
    }

    /// A number in network order, as nearly all of nftables' attributes are.
    pub(super) fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// A number of 64 bits in network order.
    pub(super) fn long_number(&mut self, kind: u16, value: u64) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Text with a zero at its end.
    pub(super) fn text(&mut self, kind: u16, text: impl std::fmt::Display) {
        let start = self.open(kind);
        // Writing into a vector cannot fail.
        let _ = write!(self.bytes, "{text}");
        self.bytes.push(0);
        self.close(start);
    }

    /// An attribute whose value is written with [`Buffer::put`] or consists of attributes.
    pub(super) fn begin(&mut self, kind: u16) -> Nest {
        Nest(self.open(kind | NESTED))
    }

    /// Like [`Buffer::begin`], for a value that does not consist of attributes.
    pub(super) fn begin_value(&mut self, kind: u16) -> Nest {
        Nest(self.open(kind))
    }

    // Taking the nest by value makes closing it twice impossible.
    #[allow(clippy::needless_pass_by_value)]
    pub(super) fn end(&mut self, nest: Nest) {
        self.close(nest.0);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A received message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// Who asked for the change that the message tells of.
    pub(super) port: u32,
    /// What follows the header.
    pub(super) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The subsystem's message number, if the message is from `subsystem`.
    pub(super) fn number_in(&self, subsystem: u16) -> Option<u16> {
        (self.kind >> 8 == subsystem).then_some(self.kind & 0xff)
    }

    /// The address family of a netfilter message.
    pub(super) fn family(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    /// The attributes of a netfilter message.
    pub(super) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.payload.get(FAMILY_HEADER..).unwrap_or_default())
    }

    /// The error number of an error answer; 0 is an acknowledgement.
    pub(super) fn error(&self) -> Option<i32> {
        u32_at(self.payload, 0).map(|code| code.cast_signed().wrapping_neg())
    }

    /// The attributes of an error answer whose message is cut to its header.
    pub(super) fn error_attributes(&self) -> Attributes<'a> {
        Attributes(self.payload.get(4 + HEADER..).unwrap_or_default())
    }
}

/// The messages of one datagram; stops at the first that is not whole.
#[derive(Debug, Clone)]
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = u32_at(self.0, 0)? as usize;
        let message = Message {
            kind: u16_at(self.0, 4)?,
            flags: u16_at(self.0, 6)?,
            sequence: u32_at(self.0, 8)?,
            port: u32_at(self.0, 12)?,
            payload: self.0.get(HEADER..length)?,
        };
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(message)
    }
}

/// A received attribute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub(super) kind: u16,
    /// Whether its writer says that it consists of attributes. We do; the kernel often does not.
    pub(super) is_nest: bool,
    pub(super) value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// A number in network order.
    pub(super) fn number(&self) -> Option<u32> {
        Some(u32::from_be_bytes(self.value.try_into().ok()?))
    }

    /// A number of 64 bits in network order.
    pub(super) fn long_number(&self) -> Option<u64> {
        Some(u64::from_be_bytes(self.value.try_into().ok()?))
    }

    /// A number in host order, as netlink's own attributes are.
    pub(super) fn host_number(&self) -> Option<u32> {
        u32_at(self.value, 0)
    }

    /// Text up to its closing zero.
    pub(super) fn text(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|&byte| byte == 0).unwrap_or(self.value.len());
        std::str::from_utf8(self.value.get(..end)?).ok()
    }

    /// The attributes that it consists of.
    pub(super) fn nested(&self) -> Attributes<'a> {
        Attributes(self.value)
    }
}

/// Attributes one after the other; ends at the first that is not whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The first attribute of that type.
    pub(super) fn find(self, kind: u16) -> Option<Attribute<'a>> {
        self.iter().find(|attribute| attribute.kind == kind)
    }

    pub(super) fn iter(self) -> AttributeIter<'a> {
        AttributeIter(self.0)
    }
}

impl<'a> IntoIterator for Attributes<'a> {
    type Item = Attribute<'a>;
    type IntoIter = AttributeIter<'a>;

    fn into_iter(self) -> AttributeIter<'a> {
        self.iter()
    }
}

/// See [`Attributes`].
#[derive(Debug, Clone)]
pub(super) struct AttributeIter<'a>(&'a [u8]);

impl<'a> Iterator for AttributeIter<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)?;
        let value = self.0.get(ATTRIBUTE..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(Attribute { kind: kind & TYPE_MASK, is_nest: kind & NESTED != 0, value })
    }
}
