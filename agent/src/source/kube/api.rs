//! Requests to the API server, and their answers as frames or pages. Knows HTTP and time limits,
//! and nothing of what is asked for.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use super::connect::{self, ConnectError, Connected, explain};
use super::decode::{ACCEPT, ACCEPT_METADATA, Format, Raw, Status, Undecodable};
use super::request::{Request, Resource, Verb};
use crate::config::ApiServer;
use crate::convert::shorten;

/// Longest time until an answer begins, and between two parts of a page. A streaming list begins
/// when the server's cache has caught up with its store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest pause that the server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Most bytes of one page, and of one event. The store of an API server takes objects of some MB.
const MAX_PAGE: usize = 512 << 20;
const MAX_FRAME: usize = 64 << 20;
/// Most bytes that are read of a refusal.
const MAX_REFUSAL: usize = 64 << 10;
/// Most characters of its message that are told.
const MAX_MESSAGE: usize = 300;
/// Room for frames that is kept when it is not needed any more.
const ROOM: usize = 1 << 20;

/// What came of a request, or of a watch, instead of what was hoped for.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// No connection, or one that broke.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing came for too long.
    #[error("no answer for {} s", .0.as_secs())]
    Silent(Duration),
    /// The server said no.
    #[error("{}", .0.sentence())]
    Refused(Box<Refusal>),
    /// The server said something that is no answer.
    #[error("the answer makes no sense: {0}; is this a Kubernetes API server?")]
    Unintelligible(String),
}

impl From<Undecodable> for RequestError {
    fn from(error: Undecodable) -> Self {
        Self::Unintelligible(error.to_string())
    }
}

impl From<http::Error> for RequestError {
    fn from(error: http::Error) -> Self {
        Self::Unintelligible(error.to_string())
    }
}

/// A no of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) resource: Resource,
    pub(super) verb: Verb,
    pub(super) status: Status,
    /// The pause that the server asks for.
    pub(super) retry_after: Option<Duration>,
}

impl Refusal {
    /// What we know has become too old to go on from.
    pub(super) fn is_gone(&self) -> bool {
        self.status.code == 410 || matches!(&*self.status.reason, "Expired" | "Gone")
    }

    fn sentence(&self) -> String {
        let Self { resource, verb, status, .. } = self;
        let message = shorten_message(&status.message);
        match status.code {
            401 => format!(
                "the API server does not accept our credentials ({verb} {resource}): {message}; \
                 check the token or certificate in the kubeconfig, or the service account"
            ),
            403 => format!(
                "we may not {verb} {resource}: {message}; the ClusterRole of this user needs the \
                 rule {{apiGroups: [\"{}\"], resources: [\"{}\"], verbs: [{}]}}",
                resource.group,
                resource.plural,
                verb.rights()
            ),
            code => format!("{verb} {resource}: {code} {}: {message}", shorten(&status.reason)),
        }
    }
}

/// Texts from the network are bounded, and without control characters, before they reach a log.
fn shorten_message(message: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    message.chars().take(MAX_MESSAGE).map(visible).collect()
}

/// The API server.
pub(super) struct Api {
    connected: RwLock<Connected>,
    /// To read everything again from; `None` where the client came from elsewhere.
    server: Option<ApiServer>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Api {
    /// With what `server` says. It is read again when the API server cannot be reached that way, or
    /// does not accept our credentials.
    pub(super) async fn connect(server: &ApiServer) -> Result<Self, ConnectError> {
        let connected = RwLock::new(connect::connect(server).await?);
        Ok(Self { connected, server: Some(server.clone()) })
    }

    /// Through `client`, to whatever it leads to.
    #[cfg(test)]
    pub(super) fn through(client: kube::Client, address: Uri) -> Self {
        let connected = RwLock::new(Connected { client, address, token: None });
        Self { connected, server: None }
    }

    /// Where the API server is.
    pub(super) fn address(&self) -> Uri {
        self.connected().address
    }

    fn connected(&self) -> Connected {
        self.connected.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to receive a watch.
    pub(super) async fn watch(&self, request: &Request) -> Result<Frames, RequestError> {
        let (format, body) = self.get(request, ACCEPT).await?;
        Ok(Frames { body, format, buffer: Vec::new(), taken: 0, seen: 0 })
    }

    /// Receives a page, or another body that is one object.
    pub(super) async fn page(&self, request: &Request) -> Result<(Format, Vec<u8>), RequestError> {
        let (format, body) = self.get(request, ACCEPT).await?;
        Ok((format, collect(body, MAX_PAGE).await?))
    }

    /// The same, reduced to the metadata of objects.
    pub(super) async fn metadata(
        &self,
        request: &Request,
    ) -> Result<(Format, Vec<u8>), RequestError> {
        let (format, body) = self.get(request, ACCEPT_METADATA).await?;
        Ok((format, collect(body, MAX_PAGE).await?))
    }

    /// Makes an object of `body`, which is JSON.
    pub(super) async fn create(
        &self,
        request: &Request,
        body: Vec<u8>,
    ) -> Result<(), RequestError> {
        let builder = http::Request::post(&*request.target)
            .header(header::ACCEPT, ACCEPT)
            .header(header::CONTENT_TYPE, "application/json");
        let post = builder.body(body)?;
        self.send(request, &post).await.map(drop)
    }

    async fn get(
        &self,
        request: &Request,
        accept: &'static str,
    ) -> Result<(Format, Body), RequestError> {
        let builder = http::Request::get(&*request.target).header(header::ACCEPT, accept);
        let get = builder.body(Vec::new())?;
        self.send(request, &get).await
    }

    /// Sends it. After a refusal, once more at once with credentials that were read again; a server
    /// that is not reached is tried later, at the address and with the certificates that are read now.
    async fn send(
        &self,
        request: &Request,
        http: &http::Request<Vec<u8>>,
    ) -> Result<(Format, Body), RequestError> {
        let result = self.attempt(request, http).await;
        let refused =
            matches!(&result, Err(RequestError::Refused(refusal)) if refusal.status.code == 401);
        let away = matches!(&result, Err(RequestError::Unreachable(_)));
        let renewed = (refused || away) && self.renew().await;
        if renewed && refused {
            return self.attempt(request, http).await;
        }
        result
    }

    async fn attempt(
        &self,
        request: &Request,
        http: &http::Request<Vec<u8>>,
    ) -> Result<(Format, Body), RequestError> {
        let Connected { client, token, .. } = self.connected();
        let mut http = http.clone().map(Body::from);
        let agent = HeaderValue::from_static(concat!("sliceproxy/", env!("CARGO_PKG_VERSION")));
        http.headers_mut().insert(header::USER_AGENT, agent);
        if let Some(token) = token {
            let authorization = token.authorization().map_err(RequestError::Unreachable)?;
            http.headers_mut().insert(header::AUTHORIZATION, authorization);
        }
        let response = timeout(ANSWER_TIMEOUT, client.send(http))
            .await
            .map_err(|_| RequestError::Silent(ANSWER_TIMEOUT))?
            .map_err(|error| RequestError::Unreachable(explain(&error)))?;
        let headers = response.headers();
        let retry_after = headers.get(header::RETRY_AFTER).and_then(|due| due.to_str().ok());
        let retry_after = retry_after.and_then(|seconds| seconds.parse().ok());
        let format = format(headers);
        let code = response.status();
        if code.is_success() {
            return Ok((format.map_err(RequestError::Unintelligible)?, response.into_body()));
        }
        let status = refusal(code, format.ok(), response.into_body()).await;
        Err(RequestError::Refused(Box::new(Refusal {
            resource: request.resource,
            verb: request.verb,
            status,
            retry_after: retry_after.map(|s| Duration::from_secs(s).min(MAX_RETRY_AFTER)),
        })))
    }

    /// Reads again how the API server is reached; whether that worked. If not, the old way stays, and
    /// the next trouble comes back here.
    async fn renew(&self) -> bool {
        let Some(server) = &self.server else { return false };
        match connect::connect(server).await {
            Ok(new) => {
                *self.connected.write().unwrap_or_else(PoisonError::into_inner) = new;
                true
            }
            Err(error) => {
                tracing::debug!(%error, "credentials could not be read again");
                false
            }
        }
    }
}

/// How a body is written, or what it is instead.
fn format(headers: &HeaderMap) -> Result<Format, String> {
    let text = |name: &HeaderName| {
        String::from_utf8_lossy(headers.get(name).map_or(b"", HeaderValue::as_bytes))
    };
    let encoding = text(&header::CONTENT_ENCODING);
    // We never ask for any.
    if !matches!(&*encoding, "" | "identity") {
        return Err(format!("it is encoded as {:?}", shorten(&encoding)));
    }
    let content_type = text(&header::CONTENT_TYPE);
    Format::of(&content_type).ok_or_else(|| format!("it is {:?}", shorten(&content_type)))
}

/// What the server says of a refusal; not all that stands in between speaks like one.
async fn refusal(code: StatusCode, format: Option<Format>, body: Body) -> Status {
    let body = collect(body, MAX_REFUSAL).await.unwrap_or_default();
    let said = format.map(|format| format.status(Raw::body(&body))).unwrap_or_default();
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let words = String::from_utf8_lossy(&body);
    Status {
        code: code.as_u16(),
        reason: or(said.reason, code.canonical_reason().unwrap_or_default()),
        message: or(said.message, words.trim()),
    }
}

async fn collect(mut body: Body, most: usize) -> Result<Vec<u8>, RequestError> {
    let mut bytes = Vec::new();
    while let Some(data) = next_data(&mut body, ANSWER_TIMEOUT).await? {
        if bytes.len() + data.as_ref().len() > most {
            return Err(too_long(most));
        }
        bytes.extend_from_slice(data.as_ref());
    }
    Ok(bytes)
}

fn too_long(most: usize) -> RequestError {
    RequestError::Unintelligible(format!("more than {} MiB in one piece", most >> 20))
}

/// The next bytes of a body; `None` at its end.
async fn next_data(
    body: &mut Body,
    patience: Duration,
) -> Result<Option<impl AsRef<[u8]> + use<>>, RequestError> {
    loop {
        let frame = timeout(patience, body.frame()).await;
        match frame.map_err(|_| RequestError::Silent(patience))? {
            None => return Ok(None),
            Some(Err(error)) => return Err(RequestError::Unreachable(explain(&error))),
            // Trailers say nothing to us.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// A watch as it comes in, cut into frames.
#[derive(Debug)]
pub(super) struct Frames {
    body: Body,
    format: Format,
    buffer: Vec<u8>,
    /// Bytes of the buffer that belong to frames already given out.
    taken: usize,
    /// Bytes of what is left in which no end of a frame was found.
    seen: usize,
}

impl Frames {
    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// The next frame, waiting at most `patience` for more bytes. `None` at the end; a frame that
    /// is cut short there is dropped.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Option<&[u8]>, RequestError> {
        loop {
            if let Some((frame, next)) = self.format.frame(&self.buffer[self.taken..], self.seen) {
                let start = self.taken;
                self.taken += next;
                self.seen = 0;
                return Ok(Some(&self.buffer[start + frame.start..start + frame.end]));
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            self.seen = self.buffer.len();
            if self.buffer.is_empty() && self.buffer.capacity() > ROOM {
                self.buffer = Vec::new();
            }
            if self.buffer.len() > MAX_FRAME {
                return Err(too_long(MAX_FRAME));
            }
            match next_data(&mut self.body, patience).await? {
                Some(data) => self.buffer.extend_from_slice(data.as_ref()),
                None => return Ok(None),
            }
        }
    }
}
