//! An API server that answers as scripted, and remembers what it was asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http::Response;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

type Chunk = Result<Bytes, std::io::Error>;

/// What the server answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// A body with a status.
    Body(u16, String),
    /// The same, with a pause that it asks for, in seconds.
    Later(u16, u64),
    /// A body of another type than JSON.
    Html(String),
    /// Whatever may stand between us and an API server: a status, headers and a body.
    Other(u16, &'static [(&'static str, &'static str)], &'static str),
    /// A stream that a test goes on writing.
    Stream(UnboundedReceiver<Chunk>),
    /// No connection.
    Refuse,
    /// A connection, and then nothing.
    Hang,
}

/// Writes an answer while it is being read. Dropped, it ends the answer politely.
#[derive(Debug)]
pub(super) struct Writer(UnboundedSender<Chunk>);

impl Writer {
    pub(super) fn line(&self, line: &str) {
        self.raw(&format!("{line}\n"));
    }

    pub(super) fn raw(&self, text: &str) {
        let _ = self.0.unbounded_send(Ok(Bytes::from(text.to_owned())));
    }

    /// Breaks the connection.
    pub(super) fn cut(self) {
        let _ = self.0.unbounded_send(Err(std::io::ErrorKind::ConnectionReset.into()));
    }
}

/// A stream and its other end.
pub(super) fn stream() -> (Writer, Answer) {
    let (sender, receiver) = unbounded();
    (Writer(sender), Answer::Stream(receiver))
}

/// A stream of these lines that stays open, as long as its writer does.
pub(super) fn lines(lines: &[String]) -> (Writer, Answer) {
    let (writer, answer) = stream();
    for line in lines {
        writer.line(line);
    }
    (writer, answer)
}

/// A request that came in.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) accept: String,
    /// Decoded, sorted.
    pub(super) query: Vec<(String, String)>,
    pub(super) at: Instant,
}

impl Asked {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_list(&self) -> bool {
        self.get("sendInitialEvents").is_some() || self.get("watch").is_none()
    }
}

/// What is asked after an outage: a page of one object, for the version that it has.
fn asks_for_version(asked: &Asked) -> bool {
    asked.get("limit") == Some("1") && !asked.path.ends_with("/nodes")
}

#[derive(Debug, Default)]
struct State {
    asked: Vec<Asked>,
    newest: Option<u32>,
    scripts: Vec<(String, VecDeque<Answer>)>,
    defaults: Vec<(String, fn() -> Answer)>,
}

/// The server.
#[derive(Debug, Clone, Default)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// Answers the next request for `plural` that has no answer yet.
    pub(super) fn answer(&self, plural: &str, answer: Answer) {
        let mut state = self.state.lock().unwrap();
        if let Some((_, queue)) = state.scripts.iter_mut().find(|(p, _)| p == plural) {
            queue.push_back(answer);
        } else {
            state.scripts.push((plural.to_owned(), VecDeque::from([answer])));
        }
    }

    /// Answers all requests for `plural` for which nothing is scripted; otherwise they hang.
    pub(super) fn always(&self, plural: &str, answer: fn() -> Answer) {
        self.state.lock().unwrap().defaults.push((plural.to_owned(), answer));
    }

    /// The newest version there is; otherwise higher than any.
    pub(super) fn set_newest(&self, version: u32) {
        self.state.lock().unwrap().newest = Some(version);
    }

    /// All requests for `plural` so far, but for those for the newest version.
    pub(super) fn asked(&self, plural: &str) -> Vec<Asked> {
        let ending = format!("/{plural}");
        let state = self.state.lock().unwrap();
        let of_plural = |asked: &&Asked| asked.path.ends_with(&ending) && !asks_for_version(asked);
        state.asked.iter().filter(of_plural).cloned().collect()
    }

    /// All paths that were ever asked for.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<_> =
            self.state.lock().unwrap().asked.iter().map(|asked| asked.path.clone()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    pub(super) fn client(&self) -> Client {
        let fake = self.clone();
        Client::new(tower::service_fn(move |request| fake.clone().serve(request)), "default")
    }

    async fn serve(
        self,
        request: http::Request<Body>,
    ) -> Result<Response<Answered>, std::io::Error> {
        match self.record(&request) {
            Answer::Body(code, text) => Ok(full(code, "application/json", text)),
            Answer::Later(code, seconds) => {
                let mut response = full(code, "application/json", "{}".to_owned());
                response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
                Ok(response)
            }
            Answer::Html(text) => Ok(full(200, "text/html", text)),
            Answer::Other(code, headers, text) => {
                let mut response = full(code, "text/html", text.to_owned());
                for (name, value) in headers {
                    let value = http::HeaderValue::from_static(value);
                    response.headers_mut().insert(*name, value);
                }
                Ok(response)
            }
            Answer::Stream(chunks) => {
                let body = StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data)));
                Ok(json(200).body(body.boxed_unsync()).unwrap())
            }
            Answer::Refuse => Err(std::io::ErrorKind::ConnectionRefused.into()),
            Answer::Hang => {
                tokio::time::sleep(Duration::from_secs(1_000_000)).await;
                Err(std::io::ErrorKind::TimedOut.into())
            }
        }
    }

    fn record(&self, request: &http::Request<Body>) -> Answer {
        let path = request.uri().path().to_owned();
        let text = request.uri().query().unwrap_or_default();
        let mut query: Vec<(String, String)> =
            form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        query.sort();
        let accept = request.headers()[http::header::ACCEPT].to_str().unwrap().to_owned();
        let plural = path.rsplit('/').next().unwrap().to_owned();
        let mut state = self.state.lock().unwrap();
        let asked = Asked { path, accept, query, at: Instant::now() };
        let for_version = asks_for_version(&asked);
        state.asked.push(asked);
        if for_version {
            return page(state.newest.unwrap_or(u32::MAX), "", &[]);
        }
        let scripted = state.scripts.iter_mut().find(|(p, _)| *p == plural);
        if let Some(answer) = scripted.and_then(|(_, queue)| queue.pop_front()) {
            return answer;
        }
        let default = state.defaults.iter().find(|(p, _)| *p == plural);
        default.map_or(Answer::Hang, |(_, answer)| answer())
    }
}

type Answered = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

fn json(code: u16) -> http::response::Builder {
    Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json")
}

fn full(code: u16, content_type: &str, text: String) -> Response<Answered> {
    let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {});
    Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, content_type)
        .body(body.boxed_unsync())
        .unwrap()
}

/// A status, as the API server writes it.
pub(super) fn status(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"{reason}","code":{code}}}"#
    )
}

/// A refusal with a status.
pub(super) fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    Answer::Body(code, status(code, reason, message))
}

/// What a server without streaming lists says.
pub(super) fn no_streaming() -> Answer {
    refusal(
        422,
        "Invalid",
        "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch",
    )
}

pub(super) fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

pub(super) fn bookmark(version: u32) -> String {
    event(
        "BOOKMARK",
        &format!(r#"{{"kind":"Service","metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

/// The bookmark that ends a streaming list.
pub(super) fn list_end(version: u32) -> String {
    event(
        "BOOKMARK",
        &format!(
            r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#
        ),
    )
}

pub(super) fn service(name: &str, version: u32, address: &str) -> String {
    format!(
        r#"{{"kind":"Service","metadata":{{"name":"{name}","namespace":"shop","uid":"u","resourceVersion":"{version}","managedFields":[{{"x":[1,{{}}]}}]}},"spec":{{"clusterIP":"{address}","clusterIPs":["{address}"],"ports":[{{"port":80,"protocol":"TCP"}}]}}}}"#
    )
}

pub(super) fn slice(name: &str, version: u32, address: &str, zone: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","resourceVersion":"{version}","labels":{{"kubernetes.io/service-name":"web"}}}},"addressType":"IPv4","ports":[{{"port":8080,"protocol":"TCP"}}],"endpoints":[{{"addresses":["{address}"],"conditions":{{"ready":true}},"nodeName":"n1","zone":"{zone}"}}]}}"#
    )
}

pub(super) fn node(zone: &str, region: Option<&str>) -> String {
    let region =
        region.map(|r| format!(r#","topology.kubernetes.io/region":"{r}""#)).unwrap_or_default();
    format!(
        r#"{{"metadata":{{"name":"node-a1","resourceVersion":"9","labels":{{"topology.kubernetes.io/zone":"{zone}"{region}}}}}}}"#
    )
}

pub(super) fn cidr(name: &str, version: u32, networks: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"spec":{{"cidrs":[{networks}]}}}}"#
    )
}

/// A page of a list.
pub(super) fn page(version: u32, next: &str, items: &[String]) -> Answer {
    Answer::Body(
        200,
        format!(
            r#"{{"kind":"List","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        ),
    )
}
