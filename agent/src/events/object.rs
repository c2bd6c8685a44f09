//! A notice as an `events.k8s.io/v1` Event. Pure.

use std::time::SystemTime;

use serde_json::json;

use super::{Notice, Severity};
use crate::model::NodeName;

/// What the API allows.
const MAX_NOTE: usize = 1024;
const MAX_INSTANCE: usize = 128;
const MAX_NAME: usize = 253;
/// Where Events about objects of the cluster live.
const CLUSTER_NAMESPACE: &str = "default";
const CONTROLLER: &str = "sliceproxy";

/// The namespace that an Event about `notice` lives in.
pub(super) fn namespace(notice: &Notice) -> &str {
    let namespace = &*notice.regarding.namespace;
    if namespace.is_empty() { CLUSTER_NAMESPACE } else { namespace }
}

/// The Event as JSON, said by the agent on `node`.
pub(super) fn event(notice: &Notice, node: &NodeName, at: SystemTime) -> Vec<u8> {
    let regarding = &notice.regarding;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Other nodes say the same at the same time.
    let suffix = format!(".{:x}{:08x}", since.as_nanos(), fastrand::u32(..));
    let name = cut(&regarding.name, MAX_NAME - suffix.len()).trim_end_matches(['.', '-']);
    let mut about = json!({ "apiVersion": "v1", "kind": regarding.kind, "name": &*regarding.name });
    for (field, text) in [("namespace", &regarding.namespace), ("uid", &regarding.uid)] {
        if !text.is_empty() {
            about[field] = json!(&**text);
        }
    }
    let (reason, action) = notice.reason.words();
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": format!("{name}{suffix}"), "namespace": namespace(notice) },
        "eventTime": humantime::format_rfc3339_micros(at).to_string(),
        "reportingController": CONTROLLER,
        "reportingInstance": cut(&node.0, MAX_INSTANCE),
        "type": match notice.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        },
        "reason": reason,
        "action": action,
        "regarding": about,
        "note": note(&notice.note),
    });
    event.to_string().into_bytes()
}

/// Printable, and no longer than the API takes, which counts bytes.
fn note(text: &str) -> String {
    let printable: String =
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    cut(&printable, MAX_NOTE).to_owned()
}

/// At most `most` bytes, whole characters.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::events::{Reason, Regarding};

    #[test]
    fn a_service_and_a_node() {
        let node = NodeName("node-a1".into());
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_767_323_050_000_001);
        let service = Regarding {
            kind: "Service",
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u-1".into(),
        };
        let notice = Notice::warning(service, Reason::HealthCheck, "port 1 is taken".to_owned());
        let event: Value = serde_json::from_slice(&event(&notice, &node, at)).unwrap();
        assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web.18"), "{event}");
        assert_eq!(event["eventTime"], "2026-01-02T03:04:10.000001Z");
        let expected = json!({
            "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web", "uid": "u-1"
        });
        assert_eq!(event["regarding"], expected);
        for (field, expected) in [
            ("type", "Warning"),
            ("reason", "FailedToStartServiceHealthcheck"),
            ("action", "Listen"),
            ("reportingInstance", "node-a1"),
            ("note", "port 1 is taken"),
        ] {
            assert_eq!(event[field], expected);
        }
        assert_eq!(event["metadata"]["namespace"], "shop");

        let long = "x".repeat(252) + "-";
        let regarding = Regarding::node(&NodeName(long.into()), &"".into());
        let notice = Notice {
            regarding,
            severity: Severity::Normal,
            reason: Reason::Starting,
            note: "\u{1b}[31m".to_owned() + &"é".repeat(1000),
        };
        let event: Value = serde_json::from_slice(&super::event(&notice, &node, at)).unwrap();
        assert_eq!(event["metadata"]["namespace"], "default");
        let name = event["metadata"]["name"].as_str().unwrap();
        assert!(name.len() <= MAX_NAME && !name.contains("-."), "{name}");
        let text = event["note"].as_str().unwrap();
        assert!(text.len() <= MAX_NOTE && text.len() > MAX_NOTE - 4 && !text.contains('\u{1b}'));
        assert!(event["regarding"].get("uid").is_none(), "{event}");
    }
}
