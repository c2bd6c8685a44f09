//! Label selectors as Kubernetes writes them: `zone=eu-1a,!legacy,tier in (a, b)`. Checked at
//! start, so that a mistake is a message here and not an error of the API server later, and
//! applied to manifests by ourselves.

use std::fmt;
use std::str::FromStr;

/// What a label must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    /// `key`
    Exists(String),
    /// `!key`
    Absent(String),
    /// `key=value`, `key in (…)`
    In(String, Vec<String>),
    /// `key!=value`, `key notin (…)`; also true without the label.
    NotIn(String, Vec<String>),
}

/// Requirements that must all be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    text: String,
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// The selector as it was written, for the API server.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether an object is selected; `label` gives the value of a label, if it has it.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
            Requirement::In(key, values) => {
                label(key).is_some_and(|found| values.iter().any(|v| v == found))
            }
            Requirement::NotIn(key, values) => {
                label(key).is_none_or(|found| values.iter().all(|v| v != found))
            }
        })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for LabelSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let requirements = split(text)
            .into_iter()
            .map(|part| parse_requirement(part.trim()))
            .collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), requirements })
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn parse_requirement(text: &str) -> Result<Requirement, String> {
    if let Some(body) = text.strip_suffix(')') {
        let (head, values) = body.split_once('(').ok_or(format!("{text:?} has no \"(\""))?;
        let values = values.split(',').map(|v| value(v.trim())).collect::<Result<_, _>>()?;
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(name), Some("in"), None) => Ok(Requirement::In(key(name)?, values)),
            (Some(name), Some("notin"), None) => Ok(Requirement::NotIn(key(name)?, values)),
            _ => Err(format!("{text:?} is not KEY in (…) or KEY notin (…)")),
        };
    }
    if let Some((name, found)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key(name.trim())?, vec![value(found.trim())?]));
    }
    if let Some((name, found)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key(name.trim())?, vec![value(found.trim())?]));
    }
    match text.strip_prefix('!') {
        Some(name) => Ok(Requirement::Absent(key(name.trim())?)),
        None => Ok(Requirement::Exists(key(text)?)),
    }
}

/// A label key: an optional DNS prefix and a name.
fn key(text: &str) -> Result<String, String> {
    let (prefix, name) = text.split_once('/').unwrap_or(("", text));
    let has_prefix = text.contains('/');
    let prefix_ok = !has_prefix || (is_word(prefix, 253) && !prefix.contains('_'));
    if prefix_ok && is_word(name, 63) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a label key"))
    }
}

fn value(text: &str) -> Result<String, String> {
    if text.is_empty() || is_word(text, 63) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a label value"))
    }
}

/// Letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit.
fn is_word(text: &str, longest: usize) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= longest
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn selects_like_the_api_server() {
        let labels = |key: &str| match key {
            "topology.kubernetes.io/zone" => Some("eu-1a"),
            "tier" => Some("web"),
            "empty" => Some(""),
            _ => None,
        };
        for (text, expected) in [
            ("tier", true),
            ("!tier", false),
            ("!other", true),
            ("other", false),
            ("topology.kubernetes.io/zone=eu-1a", true),
            ("topology.kubernetes.io/zone == eu-1a , tier=web", true),
            ("tier=api", false),
            ("tier!=api", true),
            ("other!=x", true),
            ("empty=", true),
            ("tier in (api, web),!other", true),
            ("tier notin (api,web)", false),
            ("other notin (a)", true),
        ] {
            let selector: LabelSelector = text.parse().unwrap();
            assert_eq!(selector.matches(labels), expected, "{text}");
            assert_eq!(selector.as_str(), text);
        }
    }

    #[test]
    fn refuses_what_the_api_server_would_refuse() {
        for text in
            ["", "a,,b", "a b", "tier in web", "tier on (a)", "-a=b", "a=b c", "a/b/c=d", "(a)"]
        {
            assert!(text.parse::<LabelSelector>().is_err(), "{text:?}");
        }
    }
}
