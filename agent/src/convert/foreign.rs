//! Annotations that begin like ours and are none: mistyped, most likely.

use super::number_text;
use super::rejections::Rejections;
use crate::config::suggest::nearest;
use crate::wire::{Annotations, PREFIX, TOPOLOGY_KEYS, TOPOLOGY_MIN_ENDPOINTS};

/// The annotations of Services that are ours.
const OURS: [&str; 2] = [TOPOLOGY_KEYS, TOPOLOGY_MIN_ENDPOINTS];

/// Names them, with the one that was meant.
pub(super) fn annotations(annotations: &Annotations<'_>, rejections: &mut Rejections) {
    for (name, value) in &annotations.foreign {
        let known = OURS.iter().filter_map(|ours| ours.strip_prefix(PREFIX));
        let own = name.strip_prefix(PREFIX).unwrap_or_default();
        let advice = match nearest(own, known) {
            Some(known) => format!("did you mean {PREFIX}{known}?"),
            None => format!("known are {}", OURS.join(" and ")),
        };
        rejections.add(
            format_args!("metadata.annotations[{name}]"),
            number_text(value.as_ref()),
            format_args!("no annotation of sliceproxy; it is ignored; {advice}"),
        );
    }
}
