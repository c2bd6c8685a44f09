//! The API server's audit log as requests that a test can compare. Not for latencies: the log has
//! them, but they are the server's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Everything but what the test itself and the control plane do; they would drown the rest.
pub(super) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [
    {"level": "None", "users": ["admin", "controllers", "system:apiserver"]},
    {"level": "Metadata"}
  ]
}
"#;

/// One request, as far as the server had got with it when the log was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, …
    pub verb: String,
    /// With its query, where selectors, the resource version and streaming options are.
    pub uri: String,
    /// `endpointslices.discovery.k8s.io`, `services`, `nodes/status`; empty for paths such as `/readyz`.
    pub resource: String,
    /// Empty for lists and for what is in no namespace.
    pub namespace: String,
    /// Empty for lists.
    pub name: String,
    /// HTTP status; 0 when not answered yet.
    pub code: u16,
    /// As the client names itself.
    pub user_agent: String,
}

impl Request {
    fn from_event(event: &Value) -> Self {
        let text = |pointer: &str| {
            event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut resource = text("/objectRef/resource");
        for (separator, part) in
            [(".", text("/objectRef/apiGroup")), ("/", text("/objectRef/subresource"))]
        {
            if !part.is_empty() {
                resource = format!("{resource}{separator}{part}");
            }
        }
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
        Self {
            verb: text("/verb"),
            uri: text("/requestURI"),
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: code.and_then(|code| u16::try_from(code).ok()).unwrap_or_default(),
            user_agent: text("/userAgent"),
        }
    }

    /// The value of one query parameter, percent-decoded (`labelSelector`, `fieldSelector`, …).
    pub fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.uri.split_once('?')?;
        query.split('&').find_map(|pair| match pair.split_once('=') {
            Some((key, value)) if key == name => Some(percent_decoded(value)),
            _ => None,
        })
    }
}

/// The requests of `user` in the order in which they were first answered.
pub(super) fn requests(log: &Path, user: &str) -> Result<Vec<Request>> {
    let text = fs::read_to_string(log)
        .with_context(|| format!("cannot read the audit log {}", log.display()))?;
    let mut requests = BTreeMap::new();
    let mut order = BTreeMap::new();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        // The server is writing: its last line may be a part of one.
        if !line.ends_with('\n') {
            break;
        }
        let event: Value = serde_json::from_str(line)
            .with_context(|| format!("audit log, line {}", number + 1))?;
        if event.pointer("/user/username").and_then(Value::as_str) == Some(user) {
            let id = event["auditID"].as_str().unwrap_or_default().to_owned();
            // A watch is logged when it starts and when it ends; it is one request.
            order.entry(id.clone()).or_insert(number);
            requests.insert(id, Request::from_event(&event));
        }
    }
    let mut requests: Vec<_> = requests.into_iter().collect();
    requests.sort_by_key(|(id, _)| order.get(id).copied());
    Ok(requests.into_iter().map(|(_, request)| request).collect())
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let pair: Vec<u8> = rest.by_ref().take(2).collect();
                std::str::from_utf8(&pair)
                    .ok()
                    .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                    .unwrap_or(b'?')
            }
            b'+' => b' ',
            other => other,
        };
        bytes.push(decoded);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let request = Request::from_event(&serde_json::json!({
            "verb": "watch",
            "requestURI": "/api/v1/services?fieldSelector=spec.clusterIP%21%3DNone&watch=true",
            "objectRef": {"resource": "nodes", "subresource": "status"},
        }));
        assert_eq!(request.parameter("fieldSelector").as_deref(), Some("spec.clusterIP!=None"));
        assert_eq!(request.parameter("labelSelector"), None);
        assert_eq!(request.resource, "nodes/status");
    }
}
