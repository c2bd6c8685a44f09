//! Collects what of an object is not served, a bounded number of times.

use std::fmt;

use crate::model::Rejection;

/// Most rejections of one object that are told one by one; then only their number is.
pub const MAX_REJECTIONS: usize = 10;

/// Most characters of a text from an object in a rejection.
pub const MAX_TEXT: usize = 100;

/// What is wrong with an item of a list that is not there.
pub(super) const NULL: &str = "null, which is nothing; it is not used; remove or complete it";

/// The rejections of one object.
#[derive(Debug)]
pub(crate) struct Rejections {
    kind: &'static str,
    told: Vec<Rejection>,
    untold: usize,
    /// Whether `null` stands for items of lists that were told of.
    mended: bool,
}

impl Rejections {
    /// For an object of that kind.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, told: Vec::new(), untold: 0, mended: false }
    }

    /// From now on, `null` in a list stands for an item that was told of.
    pub(super) fn mended(mut self) -> Self {
        self.mended = true;
        self
    }

    /// Items of a list that are `null`.
    pub(super) fn nulls<T>(&mut self, field: fmt::Arguments<'_>, items: &[Option<T>]) {
        if self.mended {
            return;
        }
        for (i, _) in items.iter().enumerate().filter(|(_, item)| item.is_none()) {
            self.add(format_args!("{field}[{i}]"), "", NULL);
        }
    }

    /// `reason` says what is wrong, what becomes of it, and what to do.
    pub(crate) fn add(
        &mut self,
        field: fmt::Arguments<'_>,
        value: impl fmt::Display,
        reason: impl fmt::Display,
    ) {
        if self.told.len() == MAX_REJECTIONS {
            self.untold += 1;
            return;
        }
        self.told.push(Rejection {
            kind: self.kind,
            object: String::new(),
            field: shorten(&field.to_string()),
            value: shorten(&value.to_string()),
            reason: reason.to_string(),
        });
    }

    /// The first `limit` of `items`; the rest is rejected as one.
    pub(crate) fn limit<'i, T>(
        &mut self,
        field: fmt::Arguments<'_>,
        items: &'i [T],
        limit: usize,
    ) -> &'i [T] {
        if items.len() <= limit {
            return items;
        }
        self.add(
            field,
            format_args!("{} items", items.len()),
            format_args!("only the first {limit} are served; split the object"),
        );
        &items[..limit]
    }

    /// All that was added, for the object called `object`.
    pub(crate) fn finish(mut self, object: impl fmt::Display) -> Vec<Rejection> {
        if self.told.is_empty() {
            return self.told;
        }
        let object = shorten(&object.to_string());
        if self.untold > 0 {
            self.told.push(Rejection {
                kind: self.kind,
                object: String::new(),
                field: "…".to_owned(),
                value: String::new(),
                reason: format!(
                    "and {} more parts of this object that are not served",
                    self.untold
                ),
            });
        }
        for rejection in &mut self.told {
            rejection.object.clone_from(&object);
        }
        self.told
    }
}

/// At most [`MAX_TEXT`] characters of `text`.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_thousand_faults_are_not_a_thousand_lines() {
        let mut rejections = Rejections::new("EndpointSlice");
        for i in 0..1000 {
            rejections.add(format_args!("endpoints[{i}]"), "é".repeat(1000), "wrong");
        }
        let told = rejections.finish("ns/name");
        assert_eq!(told.len(), MAX_REJECTIONS + 1);
        assert_eq!(told[0].value.chars().count(), MAX_TEXT + 1);
        assert!(told.iter().all(|r| r.object == "ns/name"));
        assert!(told[MAX_REJECTIONS].reason.contains("990 more"), "{}", told[MAX_REJECTIONS]);
    }
}
