//! The annotations by which a Service has its own say on topology.

use std::fmt;

use super::rejections::Rejections;
use crate::model::{TopologyAnnotations, TopologyKey};
use crate::wire::{Annotations, TOPOLOGY_KEYS as KEYS, TOPOLOGY_MIN_ENDPOINTS as MIN_ENDPOINTS};

/// Most keys in `sliceproxy.io/topology-keys`.
pub const MAX_TOPOLOGY_KEYS: usize = 16;

/// Why an annotation is ignored as a whole.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(
        "{0:?} is not a topology key; the annotation is ignored; use kubernetes.io/hostname, \
         topology.kubernetes.io/zone, topology.kubernetes.io/region or *"
    )]
    UnknownKey(String),
    #[error("{0} is there twice; the annotation is ignored; name each key once")]
    Duplicate(&'static str),
    #[error("* matches everything, so no key can follow it; the annotation is ignored; put * last")]
    AnyNotLast,
    #[error("more than {MAX_TOPOLOGY_KEYS} keys; the annotation is ignored; name fewer")]
    TooMany,
    #[error("no key; the annotation is ignored; name some or remove the annotation")]
    Empty,
    #[error(
        "not a whole number from 1 to {}; the annotation is ignored; write such a number in quotes",
        u32::MAX
    )]
    NotACount,
}

pub(super) fn annotations(
    annotations: &Annotations<'_>,
    rejections: &mut Rejections,
) -> TopologyAnnotations {
    let mut parsed = TopologyAnnotations::default();
    let mut ignore = |annotation: &str, value: &str, fault: &Fault| {
        rejections.add(format_args!("metadata.annotations[{annotation}]"), value, fault);
        note(&mut parsed.ignored, format_args!("{annotation}: {fault}"));
    };
    if let Some(text) = &annotations.topology_keys {
        match parse_keys(text) {
            Ok(keys) => parsed.keys = Some(keys),
            Err(fault) => ignore(KEYS, text, &fault),
        }
    }
    if let Some(text) = &annotations.topology_min_endpoints {
        match parse_count(text) {
            Ok(count) => parsed.min_endpoints = Some(count),
            Err(fault) => ignore(MIN_ENDPOINTS, text, &fault),
        }
    }
    parsed
}

fn note(ignored: &mut Option<String>, reason: fmt::Arguments<'_>) {
    *ignored = Some(match ignored.take() {
        Some(before) => format!("{before}; {reason}"),
        None => reason.to_string(),
    });
}

fn parse_keys(text: &str) -> Result<Vec<TopologyKey>, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::Empty);
    }
    if text.split(',').count() > MAX_TOPOLOGY_KEYS {
        return Err(Fault::TooMany);
    }
    let mut keys = Vec::new();
    for name in text.split(',').map(str::trim) {
        if keys.last() == Some(&TopologyKey::Any) {
            return Err(Fault::AnyNotLast);
        }
        let (key, canonical) =
            parse_key(name).ok_or_else(|| Fault::UnknownKey(super::rejections::shorten(name)))?;
        if keys.contains(&key) {
            return Err(Fault::Duplicate(canonical));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn parse_key(name: &str) -> Option<(TopologyKey, &'static str)> {
    [
        (TopologyKey::Hostname, "kubernetes.io/hostname"),
        (TopologyKey::Zone, "topology.kubernetes.io/zone"),
        (TopologyKey::Region, "topology.kubernetes.io/region"),
        (TopologyKey::Any, "*"),
    ]
    .into_iter()
    .find(|(_, known)| *known == name)
}

fn parse_count(text: &str) -> Result<u32, Fault> {
    text.trim().parse().ok().filter(|count| *count > 0).ok_or(Fault::NotACount)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::TopologyKey::{Any, Hostname, Region, Zone};
    use super::*;

    fn parse(keys: Option<&str>, count: Option<&str>) -> (TopologyAnnotations, usize) {
        let wire = Annotations {
            topology_keys: keys.map(Into::into),
            topology_min_endpoints: count.map(Into::into),
            ..Annotations::default()
        };
        let mut rejections = Rejections::new("Service");
        let parsed = annotations(&wire, &mut rejections);
        (parsed, rejections.finish("ns/name").len())
    }

    #[test]
    fn keys_keep_their_order() {
        for (text, keys) in [
            ("*", vec![Any]),
            ("kubernetes.io/hostname", vec![Hostname]),
            ("topology.kubernetes.io/zone, kubernetes.io/hostname ,*", vec![Zone, Hostname, Any]),
            ("topology.kubernetes.io/region,topology.kubernetes.io/zone", vec![Region, Zone]),
        ] {
            let (parsed, rejected) = parse(Some(text), None);
            assert_eq!((parsed.keys, parsed.ignored, rejected), (Some(keys), None, 0), "{text}");
        }
    }

    #[test]
    fn a_faulty_annotation_is_ignored_as_a_whole() {
        for (text, reason) in [
            ("", "no key"),
            (" ", "no key"),
            ("*,kubernetes.io/hostname", "put * last"),
            ("kubernetes.io/hostname,,*", "\"\" is not"),
            ("kubernetes.io/hostname,kubernetes.io/hostname", "twice"),
            ("topology.kubernetes.io/Zone", "is not a topology key"),
            ("topology.kubernetes.io/rack,*", "topology.kubernetes.io/rack"),
            (&"kubernetes.io/hostname,".repeat(16), "more than 16"),
            (&"kubernetes.io/hostname,".repeat(15), "twice"),
        ] {
            let (parsed, rejected) = parse(Some(text), None);
            assert_eq!((parsed.keys, rejected), (None, 1), "{text}");
            let ignored = parsed.ignored.unwrap();
            assert!(ignored.contains(reason), "{text}: {ignored}");
        }
    }

    #[test]
    fn counts_begin_at_one() {
        assert_eq!(parse(None, Some(" 3 ")).0.min_endpoints, Some(3));
        for text in ["0", "-1", "", "3.0", "three", "99999999999"] {
            let (parsed, rejected) = parse(None, Some(text));
            assert_eq!((parsed.min_endpoints, rejected), (None, 1), "{text}");
        }
        let (both, rejected) = parse(Some("x"), Some("y"));
        assert_eq!(rejected, 2);
        assert!(both.ignored.unwrap().contains("; sliceproxy.io/topology-min-endpoints"));
    }
}
