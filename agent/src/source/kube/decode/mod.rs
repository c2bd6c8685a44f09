//! From the bytes of the API server to wire objects: the only place that knows which format they
//! are in. Another format is another variant of [`Format`] and another file beside `json.rs`.

mod json;

use std::ops::Range;

use crate::convert::{Converted, Rejections, Served, converted, mend, shorten};
use crate::model::{ObjectName, Rejection};
use crate::wire;

/// For the header `Accept`: what we understand, best first.
pub(super) const ACCEPT: &str = "application/json";

/// The same for a list of which only metadata is wanted.
pub(super) const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// How a response is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One object per line in a watch.
    Json,
}

/// An object of a watch or a page, not yet decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(&'a [u8]);

/// What a frame of a watch says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// An object was added or changed.
    Put(Raw<'a>),
    /// An object went away; this is how it was.
    Deleted(Raw<'a>),
    /// Everything up to a version was sent.
    Bookmark(Raw<'a>),
    /// The watch is over; a status says why.
    Error(Raw<'a>),
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) version: Option<String>,
    /// Where the next page begins, unless this is the last.
    pub(super) next: Option<String>,
    pub(super) items: Vec<Raw<'a>>,
}

/// The metadata that is read even of objects that cannot be decoded.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// On a bookmark: all objects that there were have been sent.
    pub(super) ends_list: bool,
}

impl Identity {
    /// For objects of the cluster the namespace stays empty.
    pub(super) fn object_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }
}

/// Why a request was refused, or a watch ended.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// As in HTTP; 0 if the server did not say.
    pub(super) code: u16,
    /// A word for programs, such as `Expired`.
    pub(super) reason: String,
    /// A sentence for people.
    pub(super) message: String,
}

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub(super) struct Undecodable {
    /// Path of the field; `.` for the whole.
    field: String,
    message: String,
}

impl Undecodable {
    /// As a rejection of the whole object.
    pub(super) fn reject(&self, kind: &'static str, object: &ObjectName) -> Vec<Rejection> {
        let mut rejections = Rejections::new(kind);
        let message = shorten(&self.message);
        let reason = format_args!("{message}; the object is not served; correct it");
        rejections.add(format_args!("{}", self.field), "", reason);
        rejections.finish(object)
    }
}

/// What an object means and its version, or why nothing of it can be served.
pub(super) type Decoded<T> = Result<(Converted<T>, Option<String>), Vec<Rejection>>;

/// A wire object that every format can decode.
pub(super) trait Decode<'a>: serde::Deserialize<'a> {
    /// Its metadata.
    fn metadata(&self) -> &wire::Metadata<'a>;
}

macro_rules! decode {
    ($($object:ident),*) => {$(
        impl<'a> Decode<'a> for wire::$object<'a> {
            fn metadata(&self) -> &wire::Metadata<'a> {
                &self.metadata
            }
        }
    )*};
}
decode!(Service, EndpointSlice, Node, ServiceCidr);

fn version<'a>(object: &impl Decode<'a>) -> Option<String> {
    object.metadata().resource_version.as_deref().filter(|v| !v.is_empty()).map(str::to_owned)
}

impl Format {
    /// From the header `Content-Type`; `None` if we do not understand it.
    pub(super) fn of(content_type: &str) -> Option<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json").then_some(Self::Json)
    }

    /// The first frame of a watch in `bytes`, and where the next begins; `None` until it is whole.
    /// The first `seen` bytes have been looked at before.
    pub(super) fn frame(self, bytes: &[u8], seen: usize) -> Option<(Range<usize>, usize)> {
        match self {
            Self::Json => json::frame(bytes, seen),
        }
    }

    /// What a frame says.
    pub(super) fn change(self, frame: &[u8]) -> Result<Change<'_>, Undecodable> {
        match self {
            Self::Json => json::change(frame),
        }
    }

    /// A page, its items still raw.
    pub(super) fn page(self, body: &[u8]) -> Result<Page<'_>, Undecodable> {
        match self {
            Self::Json => json::page(body),
        }
    }

    /// A status; empty if it is none.
    pub(super) fn status(self, object: Raw<'_>) -> Status {
        match self {
            Self::Json => json::status(object.0),
        }
    }

    /// Which object it is; empty where it does not say.
    pub(super) fn identity(self, object: Raw<'_>) -> Identity {
        match self {
            Self::Json => json::identity(object.0),
        }
    }

    /// What the object means here, and its version. What cannot be read of it costs only itself.
    pub(super) fn served<T: Served>(self, object: Raw<'_>) -> Decoded<T>
    where
        for<'a> T::Wire<'a>: Decode<'a>,
    {
        let error = match self.object::<T::Wire<'_>>(object) {
            Ok(wire) => return Ok((converted::<T>(&wire), version(&wire))),
            Err(error) => error,
        };
        let identity = self.identity(object);
        let tree = match self {
            Self::Json => json::tree(object.0),
        };
        match tree {
            Some(mut tree) => Ok((mend(&mut tree)?, identity.version)),
            None => Err(error.reject(T::KIND, &identity.object_name())),
        }
    }

    /// The object.
    pub(super) fn object<'a, T: Decode<'a>>(self, object: Raw<'a>) -> Result<T, Undecodable> {
        match self {
            Self::Json => json::object(object.0),
        }
    }
}

impl<'a> Raw<'a> {
    /// The body of a response that is one object.
    pub(super) fn body(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests;
