//! From bytes to the objects of a file, whatever they are: documents and lists taken apart. Knows
//! YAML and JSON, and nothing of what the objects mean.

use std::fmt;
use std::path::Path;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::ManifestError;

/// An object as it stands in a file.
#[derive(Debug)]
pub(super) struct Raw {
    /// The object; not necessarily a map.
    pub(super) value: Value,
    /// Line and column, if known.
    pub(super) position: Option<(u64, u64)>,
    /// For items of a typed list such as `ServiceList`, which need not repeat it: the item's kind.
    pub(super) list_kind: Option<String>,
}

/// All objects of a file, in its order. Empty documents are skipped.
pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Vec<Raw>, ManifestError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        ManifestError::Syntax {
            path: file.to_owned(),
            line: count(before.split(|b| *b == b'\n').count()),
            column: 1 + count(before.rsplit(|b| *b == b'\n').next().map_or(0, <[u8]>::len)),
            format: "text",
            message: "not UTF-8".to_owned(),
        }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_json = file.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    if is_json || text.trim_start().starts_with('{') {
        match json(file, text) {
            // Braces may also begin YAML.
            Err(_) if !is_json => {}
            result => return result,
        }
    }
    yaml(file, text)
}

fn json(file: &Path, text: &str) -> Result<Vec<Raw>, ManifestError> {
    let mut objects = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Document<Value>>() {
        let document = document.map_err(|error| ManifestError::Syntax {
            path: file.to_owned(),
            line: count(error.line()),
            column: count(error.column()),
            format: "JSON",
            message: without_place(&error.to_string()),
        })?;
        document.take_apart(None, &mut objects);
    }
    Ok(objects)
}

fn yaml(file: &Path, text: &str) -> Result<Vec<Raw>, ManifestError> {
    let documents: Vec<Spanned<Document<Spanned<Value>>>> =
        serde_saphyr::from_multiple_with_options(text, options(text.len())).map_err(|error| {
            let place = error.location();
            ManifestError::Syntax {
                path: file.to_owned(),
                line: place.map_or(1, |place| place.line()),
                column: place.map_or(1, |place| place.column()),
                format: "YAML",
                message: without_place(&error.without_snippet().to_string()),
            }
        })?;
    let mut objects = Vec::new();
    for document in documents {
        let position = (document.referenced.line(), document.referenced.column());
        document.value.take_apart(Some(position), &mut objects);
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

/// Parsers add the place in words; ours stands before the message.
fn without_place(message: &str) -> String {
    let end = message.find(" at line ").unwrap_or(message.len());
    message[..end].to_owned()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A document; `items` are taken as they come, each with its place if `T` knows it.
#[derive(Debug)]
enum Document<T> {
    Object { fields: Map<String, Value>, items: Option<Vec<T>> },
    Null,
}

trait Item: Sized {
    fn into_parts(self) -> (Value, Option<(u64, u64)>);
}

impl Item for Value {
    fn into_parts(self) -> (Value, Option<(u64, u64)>) {
        (self, None)
    }
}

impl Item for Spanned<Value> {
    fn into_parts(self) -> (Value, Option<(u64, u64)>) {
        (self.value, Some((self.referenced.line(), self.referenced.column())))
    }
}

impl<T: Item> Document<T> {
    /// The object, or the items of a list. A list of lists stays one.
    fn take_apart(self, position: Option<(u64, u64)>, objects: &mut Vec<Raw>) {
        let Self::Object { fields, items } = self else { return };
        let Some(items) = items else {
            objects.push(Raw { value: Value::Object(fields), position, list_kind: None });
            return;
        };
        let kind = fields.get("kind").and_then(Value::as_str).and_then(|k| k.strip_suffix("List"));
        let list_kind = kind.filter(|kind| !kind.is_empty());
        for item in items {
            let (value, position) = item.into_parts();
            let list_kind = list_kind.map(str::to_owned);
            objects.push(Raw { value, position, list_kind });
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Document<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor(std::marker::PhantomData))
    }
}

struct DocumentVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for DocumentVisitor<T> {
    type Value = Document<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object, which is a map")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Document::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Document::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        let mut items: Option<Vec<T>> = None;
        let mut is_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                items = map.next_value()?;
            } else {
                fields.insert(key, map.next_value()?);
            }
        }
        if is_list && !fields.contains_key("kind") {
            // The last lines of kubectl's lists say their kind.
            return Err(A::Error::custom("a list without a kind: the file seems to be cut short"));
        }
        Ok(Document::Object {
            fields,
            items: if is_list { Some(items.unwrap_or_default()) } else { None },
        })
    }
}
