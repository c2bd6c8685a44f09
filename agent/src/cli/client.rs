//! Asks the running agent over its local socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::server::admin::ROOT;
use crate::view::{Answer, Question};

/// A large node's rows take a second or two; a commit in the way takes less.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the agent did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no agent answers at {}: is it running? Start it with `sliceproxy run`, name its socket \
         with --admin-socket, or use --manifests PATH for an offline answer",
        .0.display()
    )]
    NobodyThere(PathBuf),
    /// The socket belongs to somebody else.
    #[error("not allowed to ask the agent at {}: run as the agent's user, usually root", .0.display())]
    Forbidden(PathBuf),
    /// The socket cannot be used.
    #[error("cannot ask the agent at {}: {source}", .path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the agent at {} broke off: {source}", .path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: hyper::Error,
    },
    /// It takes too long.
    #[error("the agent at {} did not answer within {} s: see its log", .0.display(), PATIENCE.as_secs())]
    Late(PathBuf),
    /// It said why it has no answer.
    #[error("{0}")]
    Refused(String),
    /// The answer is not what was asked for.
    #[error("the agent's answer cannot be read ({0}): command and agent are of different versions")]
    Unreadable(#[from] serde_json::Error),
}

/// Puts `question` to the agent at `socket`.
///
/// # Errors
/// See [`ClientError`].
pub async fn ask(socket: &Path, question: &Question) -> Result<Answer, ClientError> {
    let path = || socket.to_owned();
    let exchange = async {
        let stream = connect(socket).await?;
        get(stream, question).await.map_err(|source| ClientError::Broken { path: path(), source })
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await;
    let (is_success, body) = answer.map_err(|_| ClientError::Late(path()))??;
    if !is_success {
        return Err(ClientError::Refused(String::from_utf8_lossy(&body).into_owned()));
    }
    Ok(question.read(&body)?)
}

async fn connect(socket: &Path) -> Result<UnixStream, ClientError> {
    UnixStream::connect(socket).await.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ClientError::NobodyThere(socket.to_owned())
        }
        io::ErrorKind::PermissionDenied => ClientError::Forbidden(socket.to_owned()),
        _ => ClientError::Connect { path: socket.to_owned(), source },
    })
}

/// The answer's body, and whether it is one.
async fn get(stream: UnixStream, question: &Question) -> Result<(bool, Bytes), hyper::Error> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    // Names and filters are letters, digits, dots, dashes and slashes.
    if let Ok(uri) = format!("{ROOT}{}", question.to_query()).parse() {
        *request.uri_mut() = uri;
    }
    request.headers_mut().insert(http::header::HOST, http::HeaderValue::from_static("sliceproxy"));
    let response = sender.send_request(request).await?;
    let is_success = response.status().is_success();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok((is_success, body))
}
