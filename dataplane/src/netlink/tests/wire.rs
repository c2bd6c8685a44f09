//! Bytes that nobody promised to be well-formed.

use proptest::prelude::*;

use crate::frontend::Family;
use crate::netlink::decode::{Received, networks};
use crate::netlink::layout::{comment_in, comment_user_data};
use crate::netlink::wire::{Attributes, Buffer, Messages};
use crate::rows::SetName;

#[test]
fn what_is_written_is_read() {
    let mut out = Buffer::default();
    let start = out.begin_message(0x0a03, 0x401, 7, 2, 0);
    out.text(1, "odd");
    let nest = out.begin(2);
    out.number(1, 0x0102_0304);
    out.long_number(2, 5);
    out.attribute(3, &[9]);
    out.end(nest);
    out.end_message(start);
    out.add_flags(start, 0x4);
    assert_eq!(out.len() % 4, 0);
    let message = Messages(out.as_bytes()).next().unwrap();
    assert_eq!((message.kind, message.flags, message.sequence), (0x0a03, 0x405, 7));
    assert_eq!(message.number_in(10), Some(3));
    assert_eq!(message.family(), Some(2));
    let attributes = message.attributes();
    assert_eq!(attributes.find(1).unwrap().text(), Some("odd"));
    let nest = attributes.find(2).unwrap();
    assert!(nest.is_nest);
    assert_eq!(nest.nested().find(1).unwrap().number(), Some(0x0102_0304));
    assert_eq!(nest.nested().find(2).unwrap().long_number(), Some(5));
    assert_eq!(nest.nested().find(3).unwrap().value, [9]);
}

#[test]
fn comments_are_read_as_written_and_cut_where_nft_cuts() {
    assert_eq!(comment_in(&comment_user_data("a comment")), Some("a comment"));
    let long = "x".repeat(300);
    assert_eq!(comment_in(&comment_user_data(&long)).map(str::len), Some(127));
    assert_eq!(comment_in(&[]), None);
    assert_eq!(comment_in(&[0, 200, b'x']), None);
}

proptest! {
    #[test]
    fn no_bytes_upset_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for message in Messages(&bytes) {
            let _ = (message.error(), message.family());
            for attribute in message.attributes().iter().chain(message.error_attributes()) {
                let _ = (attribute.number(), attribute.text(), attribute.host_number());
                let _ = attribute.nested().iter().count();
            }
        }
        let _ = comment_in(&bytes);
        for family in Family::ALL {
            let received = Received::parse(Attributes(&bytes));
            let _ = received.affinity(family);
            for set in SetName::ALL {
                let _ = received.row(family, set);
            }
            let bounds = bytes.chunks(family.address_len()).map(|key| (key.to_vec(), key[0] % 2 == 0));
            let _ = networks(family, bounds.collect());
        }
    }
}
