//! A small blocking client for the API server: JSON by path. Not a model of Kubernetes types, and
//! not for watching: tests look at a state until it is there.
//!
//! Every request is sent from the network namespace that the cluster runs in, whatever thread asks.

use std::error::Error;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustls::crypto::aws_lc_rs;
use serde::Deserialize as _;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{Method, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::namespace::Namespace;
use super::resources;

/// Longer than any answer takes on a busy machine, so that a hung server fails a test with a message.
const TIMEOUT: Duration = Duration::from_secs(30);
/// 10,000 Services are about 20 MB.
const LARGEST_ANSWER: u64 = 512 << 20;

/// The API server said no.
#[derive(Clone, Debug)]
pub struct Refused {
    /// `GET /api/v1/nodes`, for example.
    pub request: String,
    /// HTTP status.
    pub status: u16,
    /// `message` of the Status object, or the whole body.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.request, self.status, self.message)
    }
}

impl Error for Refused {}

/// The API as one user sees it. Cheap to clone, and clones share connections.
#[derive(Clone, Debug)]
pub struct Api {
    namespace: Namespace,
    agent: Agent,
    server: String,
    authorization: String,
}

impl Api {
    /// A client for `server` (`https://10.0.0.1:6443`), trusting the certificate authority in a
    /// PEM file.
    pub(super) fn new(
        namespace: Namespace,
        server: &str,
        authority: &Path,
        token: &str,
    ) -> Result<Self> {
        let pem = fs::read(authority)
            .with_context(|| format!("cannot read the certificate {}", authority.display()))?;
        let roots = RootCerts::new_with_certs(&[Certificate::from_pem(&pem)?]);
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .user_agent("sliceproxy-tests")
            .build()
            .into();
        let authorization = format!("Bearer {token}");
        Ok(Self { namespace, agent, server: server.to_owned(), authorization })
    }

    /// The object or list at `path`, which may have a query.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, "", None)
    }

    /// As `get`, with `None` for "not found".
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.get(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if status_of(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The items of the list at `path`.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path)?["items"].take() {
            Value::Array(items) => Ok(items),
            other => bail!("GET {path}: items is {other}, not a list"),
        }
    }

    /// Creates `object` in the collection it belongs to.
    pub fn create(&self, object: &Value) -> Result<Value> {
        self.post(&resources::collection(object)?, object)
    }

    /// Posts `body` to `path`: subresources such as `token` or `eviction`.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::POST, path, "application/json", Some(body))
    }

    /// Makes `object` be as given, whether it exists or not (server-side apply), status included.
    pub fn apply(&self, object: &Value) -> Result<Value> {
        let (spec, status) = resources::applicable(object);
        let path = resources::path(&spec)?;
        let apply = format!("{path}?fieldManager=sliceproxy-tests&force=true");
        let applied =
            self.send(Method::PATCH, &apply, "application/apply-patch+yaml", Some(&spec))?;
        match status {
            None => Ok(applied),
            // Not by apply: its list keys forbid a node with two addresses of one type.
            Some(status) => self.patch(&format!("{path}/status"), &json!({"status": status})),
        }
    }

    /// Applies every object of a YAML text with any number of documents and lists.
    pub fn apply_manifests(&self, yaml: &str) -> Result<()> {
        for document in serde_norway::Deserializer::from_str(yaml) {
            match Value::deserialize(document)? {
                Value::Null => {}
                mut list if list["items"].is_array() => {
                    for object in list["items"].as_array_mut().into_iter().flatten() {
                        self.apply(object)?;
                    }
                }
                object => {
                    self.apply(&object)?;
                }
            }
        }
        Ok(())
    }

    /// Merges `change` into the object at `path` (JSON merge patch: null removes).
    pub fn patch(&self, path: &str, change: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(change))
    }

    /// Deletes what is at `path`; `?gracePeriodSeconds=` as the server understands it.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.send(Method::DELETE, path, "", None).map(drop)
    }

    /// Whether the server is up and says that it is ready.
    pub(super) fn ready(&self) -> bool {
        let answer = self.request(Method::GET, "/readyz", "").body(()).map(|request| {
            self.namespace.run(|| Ok(self.agent.run(request)?.status().is_success()))
        });
        matches!(answer, Ok(Ok(true)))
    }

    fn request(&self, method: Method, path: &str, content: &str) -> ureq::http::request::Builder {
        let builder = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header("Authorization", &self.authorization)
            .header("Accept", "application/json");
        if content.is_empty() { builder } else { builder.header("Content-Type", content) }
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let title = format!("{method} {path}");
        let builder = self.request(method, path, content);
        // No body and an empty one are not the same to a server.
        let body = body.map(serde_json::to_vec).transpose()?;
        let (status, text) = self
            .namespace
            .run(|| {
                let mut response = match body {
                    Some(body) => self.agent.run(builder.body(body)?)?,
                    None => self.agent.run(builder.body(())?)?,
                };
                let text = response.body_mut().with_config().limit(LARGEST_ANSWER).read_to_vec()?;
                Ok((response.status(), text))
            })
            .with_context(|| title.clone())?;
        if !status.is_success() {
            let message = match serde_json::from_slice::<Value>(&text) {
                Ok(Value::Object(object)) if object.contains_key("message") => {
                    object["message"].as_str().unwrap_or_default().to_owned()
                }
                _ => String::from_utf8_lossy(&text).into_owned(),
            };
            return Err(Refused { request: title, status: status.as_u16(), message }.into());
        }
        serde_json::from_slice(&text).with_context(|| format!("{title}: the answer is not JSON"))
    }
}

/// The HTTP status if `error` is an answer of the API server.
pub fn status_of(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<Refused>().map(|refused| refused.status)
}
