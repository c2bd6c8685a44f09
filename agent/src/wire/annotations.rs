//! Annotations: those that mean something here, and those that look as if they did.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Number, Text};

/// On a Service: the order of levels.
pub const TOPOLOGY_KEYS: &str = "sliceproxy.io/topology-keys";
/// On a Service: from how many ready endpoints on a level counts.
pub const TOPOLOGY_MIN_ENDPOINTS: &str = "sliceproxy.io/topology-min-endpoints";
/// On a slice: when the pods changed that made the controller write it.
pub const LAST_CHANGE_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What our annotations begin with.
pub const PREFIX: &str = "sliceproxy.io/";

/// Most annotations of an object that are kept although they mean nothing.
const MAX_FOREIGN: usize = 16;

/// The annotations that matter, of whatever kind of object.
#[derive(Debug, Default)]
pub struct Annotations<'a> {
    /// [`TOPOLOGY_KEYS`]
    pub topology_keys: Option<Text<'a>>,
    /// [`TOPOLOGY_MIN_ENDPOINTS`]
    pub topology_min_endpoints: Option<Text<'a>>,
    /// [`LAST_CHANGE_TRIGGER_TIME`]
    pub last_change_trigger_time: Option<Text<'a>>,
    /// Others that begin with [`PREFIX`]: their names, and what stands there.
    pub foreign: Vec<(Text<'a>, Option<Number>)>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnnotationsVisitor)
    }
}

struct AnnotationsVisitor;

impl<'de> Visitor<'de> for AnnotationsVisitor {
    type Value = Annotations<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Annotations::default();
        while let Some(name) = map.next_key::<Text<'_>>()? {
            match &*name {
                TOPOLOGY_KEYS => found.topology_keys = map.next_value()?,
                TOPOLOGY_MIN_ENDPOINTS => found.topology_min_endpoints = map.next_value()?,
                LAST_CHANGE_TRIGGER_TIME => found.last_change_trigger_time = map.next_value()?,
                other if other.starts_with(PREFIX) && found.foreign.len() < MAX_FOREIGN => {
                    let value = map.next_value()?;
                    found.foreign.push((name, value));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}
