//! Checks of single settings, which collect problems, so that all of them are reported at once.

use std::fmt;
use std::time::Duration;

use super::duration::GoDuration;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path in the file.
    pub field: &'static str,
    /// The flag for the same setting; may be empty.
    pub flag: &'static str,
    /// The value, as it was given.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field)?;
        if !self.flag.is_empty() {
            write!(f, " ({})", self.flag)?;
        }
        write!(f, ": {:?}: {}", self.value, self.reason)
    }
}

/// The two names of a setting.
#[derive(Clone, Copy)]
pub(super) struct Setting(pub(super) &'static str, pub(super) &'static str);

/// Collects problems, so that all of them are reported and not only the first.
#[derive(Default)]
pub(super) struct Checker {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<String>,
}

impl Checker {
    pub(super) fn problem(
        &mut self,
        setting: Setting,
        value: impl fmt::Display,
        reason: impl Into<String>,
    ) {
        self.problems.push(Problem {
            field: setting.0,
            flag: setting.1,
            value: format!("{value}"),
            reason: reason.into(),
        });
    }

    /// The parsed value; after a problem, what stands in for it does not matter.
    pub(super) fn parsed<T>(
        &mut self,
        setting: Setting,
        value: impl fmt::Display,
        parsed: Result<T, String>,
    ) -> Option<T> {
        parsed.map_err(|reason| self.problem(setting, value, reason)).ok()
    }

    /// A whole number inside `range`.
    pub(super) fn number<T: TryFrom<i64> + Default>(
        &mut self,
        setting: Setting,
        value: i64,
        range: std::ops::RangeInclusive<i64>,
    ) -> T {
        match T::try_from(value) {
            Ok(number) if range.contains(&value) => return number,
            _ if *range.end() == i64::from(i32::MAX) => {
                self.problem(setting, value, format!("must be {} or more", range.start()));
            }
            _ => self.problem(
                setting,
                value,
                format!("must be {} to {}", range.start(), range.end()),
            ),
        }
        T::default()
    }

    /// A span of time that is not negative.
    pub(super) fn span(&mut self, setting: Setting, value: GoDuration) -> Duration {
        value.to_std().unwrap_or_else(|| {
            self.problem(setting, value, "must be 0 or more");
            Duration::ZERO
        })
    }
}
