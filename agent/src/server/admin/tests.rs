#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use sliceproxy_dataplane::fake::FakeKernel;
use tokio::sync::oneshot;

use super::*;
use crate::cli::client::{self, ClientError};
use crate::driver::{self, Pace};
use crate::engine::Engine;
use crate::report::LogObserver;
use crate::view::{Answer, Filter, shop};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn drive(engine: Engine<FakeKernel>) -> Handle<FakeKernel> {
    let pace = Pace { min_period: Duration::ZERO, read_back: Duration::from_secs(3600) };
    driver::start(engine, pace, LogObserver::default()).unwrap().0
}

#[tokio::test]
async fn questions_are_answered_over_the_socket_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/admin.sock");
    let mut engine = shop::engine("node-a1");
    engine.sync().unwrap();
    let question = Question::Services("shop/web".parse().unwrap());
    let expected = question.answer(&mut engine).unwrap();
    let handle = drive(engine);

    let socket = AdminSocket::bind(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o755);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    let (end, ended) = oneshot::channel::<()>();
    let served = tokio::spawn(socket.serve(handle.clone(), async {
        let _ = ended.await;
    }));

    assert_eq!(client::ask(&path, &question).await.unwrap(), expected);
    let Answer::Diff(diff) = client::ask(&path, &Question::Diff).await.unwrap() else { panic!() };
    assert!(diff.equal);
    let second = AdminSocket::bind(&path).unwrap_err();
    assert!(matches!(second, AdminError::Taken(_)), "{second}");

    handle.stop();
    // The thread ends after this message at the latest.
    let error = loop {
        match client::ask(&path, &Question::Diff).await {
            Err(error) => break error,
            Ok(_) => tokio::task::yield_now().await,
        }
    };
    assert!(error.to_string().contains("shutting down"), "{error}");
    end.send(()).unwrap();
    served.await.unwrap().unwrap();
    assert!(!path.exists(), "removed at the end");
    let error = client::ask(&path, &Question::Diff).await.unwrap_err();
    assert!(matches!(error, ClientError::NobodyThere(_)), "{error}");
    assert!(error.to_string().contains("--manifests"), "{error}");
}

#[tokio::test]
async fn an_agent_that_knows_too_little_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let settings = shop::snapshot("node-a1", "").settings();
    let handle = drive(Engine::new(settings, FakeKernel::new()).unwrap());
    let socket = AdminSocket::bind(&path).unwrap();
    tokio::spawn(socket.serve(handle, std::future::pending()));
    let error = client::ask(&path, &Question::Rows(Filter::default())).await.unwrap_err();
    assert!(error.to_string().contains("ask again in a moment"), "{error}");
}

#[tokio::test]
async fn what_is_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the socket of a dead process");
    let socket = AdminSocket::bind(&path).unwrap();
    // Whoever takes the place keeps it.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    drop(socket);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    let error = AdminSocket::bind(&path).unwrap_err();
    assert!(matches!(error, AdminError::NotASocket(_)), "{error}");
}
