#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sliceproxy_dataplane::fake::{SharedKernel, Tampering};
use sliceproxy_dataplane::kernel::ReadBeside;
use sliceproxy_dataplane::rows::{Row, RowKey};
use tokio::sync::oneshot;

use super::*;
use crate::cli::client::{self, ClientError};
use crate::driver::gated::GatedKernel;
use crate::driver::{self, Pace};
use crate::engine::Engine;
use crate::model::{Event, Slice};
use crate::report::LogObserver;
use crate::view::{Answer, Filter, shop};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn engine<K: Kernel>(kernel: K) -> Engine<K> {
    let mut engine = shop::snapshot("node-a1", "").engine(kernel).unwrap();
    engine.sync().unwrap();
    engine
}

fn drive<K: ReadBeside + 'static>(engine: Engine<K>) -> Handle<K> {
    let pace = Pace { min_period: Duration::ZERO, read_back: Duration::from_secs(3600) };
    driver::start(engine, pace, LogObserver::default()).unwrap().0
}

#[tokio::test]
async fn questions_are_answered_over_the_socket_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/admin.sock");
    let mut engine = engine(SharedKernel::default());
    let question = Question::Services("shop/web".parse().unwrap());
    let expected = question.answer_alone(&mut engine, None).unwrap().write_out();
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
    let handle = drive(Engine::new(settings, SharedKernel::default()).unwrap());
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

/// Two forms of a slice of the shop: as it is, and with one endpoint less.
fn forms<K: Kernel>(engine: &Engine<K>) -> [Arc<Slice>; 2] {
    let slices = engine.cache().slices();
    let whole = Arc::clone(slices.max_by_key(|slice| slice.endpoints.len()).unwrap());
    let mut fewer = (*whole).clone();
    fewer.endpoints.pop();
    [whole, Arc::new(fewer)]
}

async fn ask<K: Kernel + 'static>(handle: &Handle<K>, question: Question) -> Answer {
    draft(handle, question).await.unwrap().unwrap().write_out()
}

/// At 500,000 rows, reading them takes seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_do_not_wait_for_a_question_about_the_kernel() {
    let kernel = GatedKernel::default();
    let engine = engine(kernel.clone());
    let [_, fewer] = forms(&engine);
    let handle = drive(engine);
    let asked = tokio::spawn({
        let handle = handle.clone();
        async move { ask(&handle, Question::Diff).await }
    });
    kernel.await_passes(1);
    let before = kernel.inner.lock().commits();
    handle.send(Event::Slice(fewer)).unwrap();
    // Answered after the commit.
    handle.ask(|_| ()).await.unwrap();
    assert_eq!(kernel.inner.lock().commits(), before + 1);
    assert!(!asked.is_finished());
    kernel.let_pass(1);
    // It has been read before the change, and is told as of now.
    let Answer::Diff(diff) = asked.await.unwrap() else { panic!() };
    assert!(diff.equal, "{diff:?}");
}

#[tokio::test]
async fn where_commits_come_too_thick_to_read_beside_them_they_wait() {
    let kernel = GatedKernel::default();
    let handle = drive(engine(kernel.clone()));
    kernel.leave_out_rows();
    kernel.let_pass(usize::MAX);
    let Answer::Diff(diff) = ask(&handle, Question::Diff).await else { panic!() };
    assert!(diff.equal && diff.kernel_rows > 0, "{diff:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diff_amid_changes_shows_what_differs_and_nothing_else() {
    let kernel = SharedKernel::default();
    let engine = engine(kernel.clone());
    let forms = forms(&engine);
    let handle = drive(engine);
    let over = Arc::new(AtomicBool::new(false));
    let changing = tokio::spawn({
        let (handle, over) = (handle.clone(), Arc::clone(&over));
        async move {
            for form in forms.iter().cycle() {
                handle.send(Event::Slice(Arc::clone(form))).unwrap();
                handle.ask(|_| ()).await.unwrap();
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    });
    // On a busy machine the other task may come to its turn late.
    let enough = kernel.lock().commits() + 50;
    let mut asked = 0;
    while asked < 50 || kernel.lock().commits() < enough {
        let Answer::Diff(diff) = ask(&handle, Question::Diff).await else { panic!() };
        assert!(diff.equal, "{diff:?}");
        assert!(!changing.is_finished(), "nothing is changed any more");
        asked += 1;
    }
    // One that those changes do not touch.
    let untouched = |row: &Row| matches!(row.key, RowKey::ClusterIp(_));
    let victim = kernel.lock().rows().find(untouched).unwrap();
    kernel.lock().tamper(Tampering::Delete(victim.key));
    let Answer::Diff(diff) = ask(&handle, Question::Diff).await else { panic!() };
    assert_eq!(diff.missing.len(), 1);
    assert_eq!(diff.missing[0].key, victim.key.to_string());
    over.store(true, Ordering::Relaxed);
    changing.await.unwrap();
}
