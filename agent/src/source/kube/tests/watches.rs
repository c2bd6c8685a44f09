//! Watches: resumed, given up, believed or not.

use super::fake::{
    Answer, Fake, bookmark, event, lines, list_end, refusal, service, status, stream,
};
use super::*;
use crate::source::kube::Watched;

fn listed(names: &[&str]) -> (fake::Writer, Answer) {
    let mut all: Vec<_> =
        names.iter().map(|name| event("ADDED", &service(name, 3, "10.96.0.1"))).collect();
    all.push(list_end(10));
    lines(&all)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_where_it_was() {
    let fake = Fake::default();
    let (writer, answer) = listed(&["web"]);
    let (second, resumed) = stream();
    fake.answer("services", answer);
    fake.answer("services", resumed);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "services web=10.96.0.1");
    writer.line(&event("ADDED", &service("api", 12, "10.96.0.2")));
    assert_eq!(scene.next().await, "service api=10.96.0.2");
    writer.line(&bookmark(40));
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(writer);
    second.line(&event("ADDED", &service("new", 41, "10.96.0.3")));
    assert_eq!(scene.next().await, "service new=10.96.0.3");
    let asked = scene.fake.asked("services");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].get("resourceVersion"), Some("40"));
    assert_eq!(scene.freshness.of(Watched::Services).lists, 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_leads_to_one_list_and_what_vanished_is_gone() {
    let fake = Fake::default();
    let (writer, first) = listed(&["web", "old"]);
    fake.answer("services", first);
    let mut scene = Scene::start(fake.clone());
    assert_eq!(scene.next().await, "services old=10.96.0.1 web=10.96.0.1");
    let (_second, again) = listed(&["web"]);
    fake.answer("services", again);
    writer.line(&event("ERROR", &status(410, "Expired", "too old resource version")));
    assert_eq!(scene.next().await, "services web=10.96.0.1");
    scene.quiet(Duration::from_secs(100)).await;
    let asked = scene.fake.asked("services");
    assert_eq!(asked.len(), 2);
    assert!(asked[1].is_list() && asked[1].get("resourceVersion").is_none());
    assert_eq!(scene.freshness.of(Watched::Services).lists, 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_not_asked_for_again() {
    let fake = Fake::default();
    let (writer, first) = listed(&["web", "old"]);
    let (_second, again) = listed(&["web"]);
    fake.answer("services", first);
    fake.answer("services", refusal(410, "Gone", "too old"));
    fake.answer("services", again);
    let mut scene = Scene::start(fake);
    scene.next().await;
    writer.cut();
    assert_eq!(scene.next().await, "services web=10.96.0.1");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_says_expired_is_not_flooded() {
    let fake = Fake::default();
    fake.always("services", || {
        let (writer, answer) = listed(&["web"]);
        writer.line(&event("ERROR", &status(410, "Expired", "too old resource version")));
        answer
    });
    let scene = Scene::start(fake);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let asked = scene.fake.asked("services").len();
    assert!((15..=50).contains(&asked), "{asked} requests in 10 minutes");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_do_not_flood_the_server() {
    let fake = Fake::default();
    fake.answer("services", listed(&["web"]).1);
    fake.always("services", || lines(&[bookmark(11)]).1);
    let scene = Scene::start(fake);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let times: Vec<_> = scene.fake.asked("services").iter().map(|asked| asked.at).collect();
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(250), "{:?}", pair[1] - pair[0]);
    }
}

/// A connection that died without a word: the server's bookmarks are missed.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_opened_again() {
    let fake = Fake::default();
    let (writer, first) = listed(&["web"]);
    let (_second, resumed) = lines(&[event("ADDED", &service("new", 41, "10.96.0.3"))]);
    fake.answer("services", first);
    fake.answer("services", resumed);
    let mut scene = Scene::start(fake);
    scene.next().await;
    writer.line(&bookmark(40));
    let before = tokio::time::Instant::now();
    assert_eq!(scene.next().await, "service new=10.96.0.3");
    assert!(before.elapsed() < Duration::from_secs(160), "{:?}", before.elapsed());
    assert_eq!(scene.fake.asked("services")[1].get("resourceVersion"), Some("40"));
}

/// A store that was emptied, or restored from a backup.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_set_back_is_listed_again_at_once() {
    let fake = Fake::default();
    let (writer, first) = listed(&["web"]);
    let (second, again) = lines(&[list_end(4)]);
    let (_third, resumed) = lines(&[event("ADDED", &service("new", 6, "10.96.0.3"))]);
    fake.answer("services", first);
    fake.answer("services", Answer::Refuse);
    fake.answer("services", again);
    fake.answer("services", resumed);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "services web=10.96.0.1");
    scene.fake.set_newest(9);
    writer.cut();
    let before = tokio::time::Instant::now();
    // Nothing is forgotten before the new list is complete.
    assert_eq!(scene.next().await, "services");
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    // It is where it was, or further: no reason to list.
    scene.fake.set_newest(4);
    second.cut();
    assert_eq!(scene.next().await, "service new=10.96.0.3");
    assert_eq!(scene.fake.asked("services")[3].get("resourceVersion"), Some("4"));
}

/// The same while the connection holds, to a proxy for example.
#[tokio::test(start_paused = true)]
async fn a_version_from_which_nothing_comes_is_given_up() {
    let fake = Fake::default();
    let (writer, first) = listed(&["web"]);
    let (_second, again) = listed(&["restored"]);
    fake.answer("services", first);
    fake.answer("services", again);
    let mut scene = Scene::start(fake);
    scene.next().await;
    writer.line(&bookmark(40));
    scene.fake.set_newest(30);
    assert_eq!(scene.next().await, "services restored=10.96.0.1");
    let asked = scene.fake.asked("services");
    assert_eq!(asked.len(), 2);
    assert!(asked[1].is_list());
}

/// Without bookmarks silence says nothing until the server should have ended the watch.
#[tokio::test(start_paused = true)]
async fn servers_without_bookmarks_are_given_time() {
    let fake = Fake::default();
    let (_writer, first) = listed(&["web"]);
    fake.answer("services", first);
    let mut scene = Scene::start(fake);
    scene.next().await;
    let opened = scene.fake.asked("services")[0].clone();
    let length: u64 = opened.get("timeoutSeconds").unwrap().parse().unwrap();
    tokio::time::sleep(Duration::from_secs(700)).await;
    let second = scene.fake.asked("services")[1].clone();
    let lived = (second.at - opened.at).as_secs();
    assert!((length + 29..=length + 31).contains(&lived), "{length} {lived}");
    assert_eq!(second.get("resourceVersion"), Some("10"));
}

#[tokio::test(start_paused = true)]
async fn freshness_follows_events_and_bookmarks() {
    let fake = Fake::default();
    let (writer, first) = listed(&["web"]);
    fake.answer("services", first);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.freshness.of(Watched::Services).age, None);
    scene.next().await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    let state = scene.freshness.of(Watched::Services);
    assert!(state.connected && state.listed);
    assert_eq!(state.age.unwrap().as_secs(), 50);
    writer.line(&bookmark(40));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.freshness.of(Watched::Services).age.unwrap().as_secs(), 2);
    assert!(!scene.freshness.is_listed(), "slices are not");
    writer.cut();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let state = scene.freshness.of(Watched::Services);
    assert!(!state.connected && state.trouble.is_some(), "{state:?}");
}
