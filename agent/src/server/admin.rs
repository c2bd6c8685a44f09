//! The local socket on which `dump`, `diff` and `explain` ask the running agent: HTTP over a Unix
//! socket that only its owner may open. Reads only.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::{Path as UrlPath, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sliceproxy_dataplane::kernel::{Kernel, KernelError, Reader};
use sliceproxy_dataplane::reading::Reading;
use tokio::net::UnixListener;
use tracing::warn;

use crate::driver::{Handle, Stopped};
use crate::engine::Engine;
use crate::host::Host;
use crate::view::{Draft, NoAnswer, Question};

/// The folder of all questions.
pub const ROOT: &str = "/v1/";

/// Why the socket cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Another process answers there.
    #[error(
        "another agent answers at {}: stop it, or choose another place with --admin-socket",
        .0.display()
    )]
    Taken(PathBuf),
    /// Something else is there.
    #[error(
        "{} is not a socket: remove it, or choose another place with --admin-socket",
        .0.display()
    )]
    NotASocket(PathBuf),
    /// The file system says no.
    #[error("cannot make the socket {}: {source}", .path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The socket, taken down when dropped.
#[derive(Debug)]
pub struct AdminSocket {
    listener: UnixListener,
    /// Removes it after the listener is closed.
    file: SocketFile,
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode, so that only our own socket is removed.
    identity: (u64, u64),
}

impl AdminSocket {
    /// Makes the socket, and its folder if need be. The socket of a process that is gone is
    /// replaced. Has to be called within a runtime.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub fn bind(path: &Path) -> Result<Self, AdminError> {
        check_free(path)?;
        Self::make(path).map_err(|source| AdminError::Io { path: path.to_owned(), source })
    }

    fn make(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        // Made where nobody else can reach it, and moved when its mode is right.
        let nursery = folder.join(format!(".{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&nursery)?;
        let made = Self::make_in(&nursery.join(name), path);
        // Empty by now, unless the move failed.
        let _ = fs::remove_dir_all(&nursery);
        made
    }

    fn make_in(nascent: &Path, path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(nascent)?;
        fs::set_permissions(nascent, Permissions::from_mode(0o600))?;
        let metadata = fs::symlink_metadata(nascent)?;
        fs::rename(nascent, path)?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Self { listener, file: SocketFile { path: path.to_owned(), identity } })
    }

    /// Answers questions from the engine behind `handle` until `end` comes.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve<K: Kernel + 'static>(
        self,
        handle: Handle<K>,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let Self { listener, file } = self;
        let served = axum::serve(listener, router(handle)).with_graceful_shutdown(end).await;
        drop(file);
        served
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours {
            // Somebody who removed it meanwhile did our work.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Nothing is there, or the socket of a process that is gone.
fn check_free(path: &Path) -> Result<(), AdminError> {
    // A missing folder is made, and a forbidden one refused, later.
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(AdminError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(source) => Err(AdminError::Io { path: path.to_owned(), source }),
        Ok(_) => Err(AdminError::Taken(path.to_owned())),
    }
}

/// The answers, for any listener.
pub fn router<K: Kernel + 'static>(handle: Handle<K>) -> Router {
    let route = format!("{ROOT}{{question}}");
    Router::new().route(&route, get(answer::<K>)).with_state(handle)
}

async fn answer<K: Kernel + 'static>(
    State(handle): State<Handle<K>>,
    UrlPath(name): UrlPath<String>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Response {
    let parameters = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let question = match Question::parse(&name, parameters) {
        Ok(question) => question,
        Err(error) => return refuse(&error),
    };
    match draft(&handle, question).await {
        Ok(Ok(draft)) => {
            // There may be a lot to write, and to turn into JSON.
            let write = || axum::Json(draft.write_out()).into_response();
            let stopped = |_| unavailable(Stopped);
            tokio::task::spawn_blocking(write).await.unwrap_or_else(stopped)
        }
        Ok(Err(error)) => refuse(&error),
        Err(stopped) => unavailable(stopped),
    }
}

/// Reads what is needed of the kernel beside the engine, and only then asks that for the answer.
async fn draft<K: Kernel + 'static>(
    handle: &Handle<K>,
    question: Question,
) -> Result<Result<Draft, NoAnswer>, Stopped> {
    let host = host(&question).await;
    if let Some(needed) = question.needs() {
        let look = move |reading: Reading, reader: &mut dyn Reader| {
            let picture = needed.read_beside(&reading, reader)?;
            Ok(picture.map(|picture| (reading, picture)))
        };
        let found: Result<_, KernelError> = handle.read(look).await?;
        match found {
            Ok(Some((reading, mut picture))) => {
                let answer = move |engine: &mut Engine<K>| {
                    reading.amend(&mut picture);
                    question.answer(engine, picture, host.as_ref())
                };
                return handle.ask(answer).await;
            }
            // Commits come too thick: this time they have to wait.
            Ok(None) => {}
            Err(error) => return Ok(Err(error.into())),
        }
    }
    handle.ask(move |engine| question.answer_alone(engine, host.as_ref())).await
}

/// The machine, as far as the answer depends on it. Without it there is one all the same.
async fn host(question: &Question) -> Option<Host> {
    let client = question.concerns_host()?;
    Host::look(client)
        .await
        .inspect_err(|error| warn!(%error, "explain has to guess where a client is"))
        .ok()
}

fn unavailable(stopped: Stopped) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, stopped.to_string()).into_response()
}

fn refuse(error: &NoAnswer) -> Response {
    let status = match error {
        NoAnswer::BadQuestion(_) => StatusCode::BAD_REQUEST,
        NoAnswer::NotListed => StatusCode::SERVICE_UNAVAILABLE,
        NoAnswer::Kernel(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, text, error.to_string()).into_response()
}

#[cfg(test)]
mod tests;
