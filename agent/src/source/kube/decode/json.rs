//! JSON: borrowed texts, unused fields skipped. Objects stay raw until each is decoded by itself,
//! so that one that cannot be costs no other.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Change, Identity, Page, Raw, Status, Undecodable};
use crate::wire::{List, Text};

/// Where fields are not known.
const WHOLE: &str = ".";

pub(super) fn frame(bytes: &[u8], seen: usize) -> Option<(Range<usize>, usize)> {
    let end = seen + bytes.get(seen..)?.iter().position(|byte| *byte == b'\n')?;
    Some((0..end, end + 1))
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    type_: Text<'a>,
    #[serde(borrow)]
    object: &'a RawValue,
}

pub(super) fn change(frame: &[u8]) -> Result<Change<'_>, Undecodable> {
    let frame: Frame<'_> = serde_json::from_slice(frame).map_err(|e| whole(&e))?;
    let object = Raw(frame.object.get().as_bytes());
    match &*frame.type_ {
        "ADDED" | "MODIFIED" => Ok(Change::Put(object)),
        "DELETED" => Ok(Change::Deleted(object)),
        "BOOKMARK" => Ok(Change::Bookmark(object)),
        "ERROR" => Ok(Change::Error(object)),
        other => Err(Undecodable {
            field: "type".to_owned(),
            message: format!("unknown type of event {other:?}"),
        }),
    }
}

pub(super) fn page(body: &[u8]) -> Result<Page<'_>, Undecodable> {
    let list: List<'_, &RawValue> = serde_json::from_slice(body).map_err(|e| whole(&e))?;
    let filled = |text: Option<Text<'_>>| text.map(|t| t.to_string()).filter(|t| !t.is_empty());
    Ok(Page {
        version: filled(list.metadata.resource_version),
        next: filled(list.metadata.continue_),
        items: list.items.into_iter().map(|item| Raw(item.get().as_bytes())).collect(),
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StatusObject<'a> {
    code: Option<u16>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
}

pub(super) fn status(object: &[u8]) -> Status {
    let status: StatusObject<'_> = serde_json::from_slice(object).unwrap_or_default();
    let owned = |text: Option<Text<'_>>| text.map(|t| t.to_string()).unwrap_or_default();
    Status {
        code: status.code.unwrap_or_default(),
        reason: owned(status.reason),
        message: owned(status.message),
    }
}

#[derive(Deserialize, Default)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: IdentityObject<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct IdentityObject<'a> {
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow)]
    annotations: Option<BookmarkAnnotations<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct BookmarkAnnotations<'a> {
    #[serde(borrow, rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<Text<'a>>,
}

pub(super) fn identity(object: &[u8]) -> Identity {
    let found: Identified<'_> = serde_json::from_slice(object).unwrap_or_default();
    let owned = |text: Option<Text<'_>>| text.map(|t| t.to_string()).unwrap_or_default();
    let annotations = found.metadata.annotations.unwrap_or_default();
    Identity {
        namespace: owned(found.metadata.namespace),
        name: owned(found.metadata.name),
        version: found.metadata.resource_version.map(|t| t.to_string()).filter(|t| !t.is_empty()),
        ends_list: annotations.initial_events_end.as_deref() == Some("true"),
    }
}

pub(super) fn object<'a, T: Deserialize<'a>>(object: &'a [u8]) -> Result<T, Undecodable> {
    // The path of a field costs time to keep, and is needed only if something is wrong.
    serde_json::from_slice(object).or_else(|_| {
        let mut json = serde_json::Deserializer::from_slice(object);
        serde_path_to_error::deserialize(&mut json).map_err(|error| Undecodable {
            field: error.path().to_string(),
            message: without_place(error.inner()),
        })
    })
}

/// Any object, unless it is no JSON or nested without end.
pub(super) fn tree(object: &[u8]) -> Option<Value> {
    serde_json::from_slice(object).ok()
}

fn whole(error: &serde_json::Error) -> Undecodable {
    Undecodable { field: WHOLE.to_owned(), message: without_place(error) }
}

/// Lines and columns of a stream mean nothing to a reader.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.find(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}
