//! From bytes to the objects of a file: documents and lists taken apart. Knows YAML and JSON.
//!
//! An object is interpreted as soon as it is complete, so that only one at a time is held as a tree.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::locate::locate;
use super::object::Piece;
use super::split::{Part, split_json, split_yaml};
use super::{ManifestError, Unused};
use crate::clip::clip_line;
use crate::convert::shorten;

/// Most characters of what a parser says.
const MAX_MESSAGE: usize = 300;

/// What a file consists of.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// All objects, in the file's order.
    pub(super) pieces: Vec<Piece>,
    /// Documents that could not be parsed, between others that could.
    pub(super) broken: Vec<ManifestError>,
}

/// All objects of a file. Empty documents are skipped.
pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Parsed, ManifestError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        ManifestError::Syntax {
            path: file.to_owned(),
            line: count(before.split(|b| *b == b'\n').count()),
            column: 1 + count(before.rsplit(|b| *b == b'\n').next().map_or(0, <[u8]>::len)),
            format: "text",
            message: "not UTF-8".to_owned(),
            unused: Unused::File,
        }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_json = file.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    if is_json {
        return whole(file, text, json).or_else(|error| json_one_by_one(file, text).ok_or(error));
    }
    // Braces may also begin YAML.
    let may_be_json = text.trim_start().starts_with('{');
    if may_be_json && let Ok(parsed) = whole(file, text, json) {
        return Ok(parsed);
    }
    whole(file, text, yaml).or_else(|error| {
        let parsed = may_be_json.then(|| json_one_by_one(file, text)).flatten();
        parsed.or_else(|| one_by_one(file, split_yaml(text), yaml)).ok_or(error)
    })
}

type Parser = fn(&Path, &str) -> Result<Vec<Piece>, ManifestError>;

fn whole(file: &Path, text: &str, parser: Parser) -> Result<Parsed, ManifestError> {
    let mut pieces = parser(file, text)?;
    locate(text, options(text.len()), &mut pieces);
    Ok(Parsed { pieces, broken: Vec::new() })
}

/// Only if the last document is good: where a file ends in the middle of one, it is half-written,
/// and what is missing is not known.
fn json_one_by_one(file: &Path, text: &str) -> Option<Parsed> {
    let parts = split_json(text);
    json(file, parts.last()?.text).ok()?;
    one_by_one(file, parts, json)
}

/// The documents each by itself; `None` if none of them is good.
fn one_by_one(file: &Path, parts: Vec<Part<'_>>, parser: Parser) -> Option<Parsed> {
    if parts.len() < 2 {
        return None;
    }
    let mut parsed = Parsed::default();
    for part in parts {
        match whole(file, part.text, parser) {
            Ok(good) => {
                parsed
                    .pieces
                    .extend(good.pieces.into_iter().map(|piece| move_to_file(piece, part)));
            }
            Err(error) => parsed.broken.push(error.of_document(part)),
        }
    }
    (!parsed.pieces.is_empty()).then_some(parsed)
}

fn move_to_file(mut piece: Piece, part: Part<'_>) -> Piece {
    piece.position = piece.position.map(|position| part.in_file(position));
    for fault in &mut piece.faults {
        fault.position = fault.position.map(|position| part.in_file(position));
    }
    piece
}

fn json(file: &Path, text: &str) -> Result<Vec<Piece>, ManifestError> {
    let mut objects = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Document<Value>>() {
        let document = document.map_err(|error| ManifestError::Syntax {
            path: file.to_owned(),
            line: count(error.line()),
            // At the end of a line there is none.
            column: count(error.column().max(1)),
            format: "JSON",
            message: without_place(&error.to_string()),
            unused: Unused::File,
        })?;
        objects.extend(document.pieces);
    }
    Ok(objects)
}

fn yaml(file: &Path, text: &str) -> Result<Vec<Piece>, ManifestError> {
    let documents: Vec<Spanned<Document<Spanned<Value>>>> =
        serde_saphyr::from_multiple_with_options(text, options(text.len())).map_err(|error| {
            let place = error.location();
            ManifestError::Syntax {
                path: file.to_owned(),
                line: place.map_or(1, |place| place.line()),
                column: place.map_or(1, |place| place.column()),
                format: "YAML",
                message: in_words(&error),
                unused: Unused::File,
            }
        })?;
    let mut objects = Vec::new();
    for document in documents {
        let position = (document.referenced.line(), document.referenced.column());
        objects.extend(
            document
                .value
                .pieces
                .into_iter()
                .map(|piece| Piece { position: piece.position.or(Some(position)), ..piece }),
        );
    }
    Ok(objects)
}

/// As large as the file may be, but no larger: aliases cannot multiply it, nor nesting exhaust the
/// stack.
fn options(len: usize) -> serde_saphyr::Options {
    // Each event takes a byte at least, but for the ends of collections and documents.
    let events = len.saturating_mul(3) + 1_000;
    serde_saphyr::options! {
        emit_comments: false,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: events,
            max_nodes: events,
            max_documents: 1_000_000,
            max_total_scalar_bytes: len.saturating_mul(2) + (1 << 20),
            max_depth: 64,
            max_aliases: 10_000,
            max_anchors: 10_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 16,
        },
    }
}

fn in_words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error::{Budget, DuplicateMappingKey};
    let too_much = "too many or too deeply nested aliases or collections";
    match error.without_snippet() {
        DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key {:?} is there twice", shorten(key))
        }
        Budget { .. } => too_much.to_owned(),
        error => match without_place(&error.to_string()) {
            // Where it was in the middle of a value.
            message if message.starts_with("budget breached") => too_much.to_owned(),
            message => message,
        },
    }
}

/// Parsers add the place in words; ours stands before the message. They quote values of any length.
fn without_place(message: &str) -> String {
    let end = message.find(" at line ").unwrap_or(message.len());
    clip_line(&message[..end], MAX_MESSAGE).into_owned()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A tree whose place is known if the format tells.
trait Tree {
    fn into_piece(self) -> Piece;
}

impl Tree for Value {
    fn into_piece(self) -> Piece {
        Piece::new(self, None)
    }
}

impl Tree for Spanned<Value> {
    fn into_piece(self) -> Piece {
        Piece::new(self.value, Some((self.referenced.line(), self.referenced.column())))
    }
}

/// An item of a list, read as `T`.
#[derive(Debug)]
struct Item<T> {
    piece: Piece,
    read_as: PhantomData<T>,
}

impl<'de, T: Tree + Deserialize<'de>> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { piece: T::deserialize(deserializer)?.into_piece(), read_as: PhantomData })
    }
}

/// A document: nothing, an object, or the items of a list, read as `T`. A list of lists is not
/// taken apart further.
#[derive(Debug)]
struct Document<T> {
    pieces: Vec<Piece>,
    read_as: PhantomData<T>,
}

impl<'de, T: Tree + Deserialize<'de>> Deserialize<'de> for Document<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pieces = deserializer.deserialize_any(DocumentVisitor::<T>(PhantomData))?;
        Ok(Self { pieces, read_as: PhantomData })
    }
}

struct DocumentVisitor<T>(PhantomData<T>);

impl<'de, T: Tree + Deserialize<'de>> Visitor<'de> for DocumentVisitor<T> {
    type Value = Vec<Piece>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object, which is a map")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        let mut items: Option<Vec<Item<T>>> = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                items = Some(map.next_value::<Option<_>>()?.unwrap_or_default());
            } else {
                fields.insert(key, map.next_value()?);
            }
        }
        let Some(items) = items else {
            return Ok(vec![Piece::new(Value::Object(fields), None)]);
        };
        let Some(kind) = fields.get("kind").and_then(Value::as_str) else {
            // The last lines of kubectl's lists say their kind.
            return Err(A::Error::custom("a list without a kind: the file seems to be cut short"));
        };
        let pieces = items.into_iter().map(|item| item.piece);
        Ok(match kind.strip_suffix("List").filter(|kind| !kind.is_empty()) {
            Some(kind) => pieces.map(|piece| piece.in_list_of(kind)).collect(),
            None => pieces.collect(),
        })
    }
}
