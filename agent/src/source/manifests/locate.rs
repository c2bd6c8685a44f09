//! Where in a file a faulty field stands. A second, slower reading that knows the place of every
//! value: only for files with faults, and not for huge ones.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::Position;
use super::object::Piece;

/// Most bytes of a file that is read a second time.
const MAX_SIZE: usize = 4 << 20;

/// Fills in the places of `pieces`, which are the objects of `text`, and of their faults.
pub(super) fn locate(text: &str, options: serde_saphyr::Options, pieces: &mut [Piece]) {
    if text.len() > MAX_SIZE || pieces.iter().all(|piece| piece.faults.is_empty()) {
        return;
    }
    // Several JSON documents in a row, for instance, are no YAML: then the places stay unknown.
    let Ok(documents) = serde_saphyr::from_multiple_with_options::<Placed>(text, options) else {
        return;
    };
    let objects: Vec<&Placed> = documents.iter().flat_map(objects).collect();
    if objects.len() != pieces.len() {
        return;
    }
    for (piece, object) in pieces.iter_mut().zip(objects) {
        piece.position = Some(position(object));
        for fault in &mut piece.faults {
            fault.position = Some(position(descend(object, &fault.rejection.field)));
        }
    }
}

type Placed = Spanned<Node>;

fn position(node: &Placed) -> Position {
    (node.referenced.line(), node.referenced.column())
}

/// What a value consists of, if of anything.
#[derive(Debug)]
enum Node {
    Map(Vec<(String, Placed)>),
    List(Vec<Placed>),
    Scalar,
}

/// The document itself, or the items of the list that it is.
fn objects(document: &Placed) -> Vec<&Placed> {
    let Node::Map(fields) = &document.value else { return Vec::new() };
    match fields.iter().find(|(name, _)| name == "items") {
        Some((_, Placed { value: Node::List(items), .. })) => items.iter().collect(),
        Some(_) => Vec::new(),
        None => vec![document],
    }
}

/// The value at `path`, such as `spec.ports[0].port` or `metadata.labels[a.b/c]`, or the innermost
/// value on the way that exists.
fn descend<'n>(mut node: &'n Placed, mut path: &str) -> &'n Placed {
    while let Some((inner, rest)) = step(&node.value, path) {
        node = inner;
        path = rest;
    }
    node
}

fn step<'n, 'p>(node: &'n Node, path: &'p str) -> Option<(&'n Placed, &'p str)> {
    let path = path.strip_prefix('.').unwrap_or(path);
    let bracketed = path.strip_prefix('[').and_then(|path| path.split_once(']'));
    match node {
        Node::List(items) => {
            let (index, rest) = bracketed?;
            Some((items.get(index.parse::<usize>().ok()?)?, rest))
        }
        Node::Map(fields) => {
            if let Some((key, rest)) = bracketed {
                return fields.iter().find(|(name, _)| name == key).map(|(_, value)| (value, rest));
            }
            // Keys may hold dots themselves.
            let (name, value) = fields
                .iter()
                .filter(|(name, _)| is_step(path, name))
                .max_by_key(|(name, _)| name.len())?;
            Some((value, &path[name.len()..]))
        }
        Node::Scalar => None,
    }
}

fn is_step(path: &str, name: &str) -> bool {
    !name.is_empty()
        && path
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }
}
