//! Lists: whole or not at all.

use super::fake::{
    Answer, Fake, bookmark, event, lines, list_end, no_streaming, page, refusal, service, slice,
};
use super::*;
use crate::source::kube::Watched;

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_reported_at_its_end_and_becomes_the_watch() {
    let fake = Fake::default();
    let (writer, answer) = lines(&[
        event("ADDED", &service("web", 3, "10.96.0.1")),
        event("ADDED", &service("gone", 4, "10.96.0.2")),
        // What happens meanwhile may come before the end.
        event("ADDED", &service("api", 5, "10.96.0.3")),
        event("DELETED", &service("gone", 6, "10.96.0.2")),
        event("MODIFIED", &service("web", 7, "10.96.0.9")),
        bookmark(7),
    ]);
    fake.answer("services", answer);
    let mut scene = Scene::start(fake);
    scene.quiet(Duration::from_secs(5)).await;
    assert!(!scene.freshness.of(Watched::Services).listed);
    writer.line(&list_end(8));
    assert_eq!(scene.next().await, "services api=10.96.0.3 web=10.96.0.9");
    assert!(scene.freshness.of(Watched::Services).listed);
    writer.line(&event("DELETED", &service("web", 9, "10.96.0.9")));
    assert_eq!(scene.next().await, "service removed web");
    assert_eq!(scene.fake.asked("services").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn events_come_in_pieces_of_any_size() {
    let fake = Fake::default();
    let (writer, answer) = fake::stream();
    fake.answer("endpointslices", answer);
    let mut scene = Scene::start(fake);
    let all = format!("{}\n{}\n", event("ADDED", &slice("web-1", 3, "10.0.0.1", "a")), list_end(4));
    for byte in all.chars() {
        writer.raw(&byte.to_string());
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.next().await, "slices web-1=10.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn pages_are_put_together() {
    let fake = Fake::default();
    fake.answer("services", no_streaming());
    fake.answer("services", page(70, "t", &[service("a", 1, "10.96.0.1")]));
    fake.answer("services", page(70, "", &[service("b", 2, "10.96.0.2")]));
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "services a=10.96.0.1 b=10.96.0.2");
    scene.quiet(Duration::from_secs(5)).await;
}

/// Servers from before streaming lists that overlook the parameters send the objects there are,
/// and then no end.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_without_an_end_is_given_up_for_pages() {
    let fake = Fake::default();
    let (_writer, answer) = lines(&[event("ADDED", &service("a", 1, "10.96.0.1"))]);
    fake.answer("services", answer);
    fake.answer("services", page(70, "", &[service("b", 2, "10.96.0.2")]));
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "services b=10.96.0.2");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reported_of_half_a_list() {
    let half = || {
        let (writer, answer) = lines(&[event("ADDED", &service("half", 1, "10.96.0.1"))]);
        writer.cut();
        answer
    };
    let polite_half = || lines(&[event("ADDED", &service("half", 1, "10.96.0.1"))]).1;
    let mid_line = || {
        let (writer, answer) = fake::stream();
        writer.raw(r#"{"type":"ADDED","object":{"metadata":{"na"#);
        writer.cut();
        answer
    };
    let half_page = || page(70, "t", &[service("half", 1, "10.96.0.1")]);
    let broken_page = || Answer::Body(200, r#"{"metadata":{},"items":[{"metadata":{"#.to_owned());
    let expired = || refusal(410, "Expired", "The provided continue parameter is too old");

    let fake = Fake::default();
    for answer in [
        half(),
        polite_half(),
        mid_line(),
        no_streaming(),
        half_page(),
        expired(),
        no_streaming(),
        half_page(),
        broken_page(),
        no_streaming(),
        half_page(),
        Answer::Refuse,
    ] {
        fake.answer("services", answer);
    }
    let (_writer, whole) = lines(&[event("ADDED", &service("whole", 1, "10.96.0.7")), list_end(2)]);
    fake.answer("services", whole);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "services whole=10.96.0.7");
    assert_eq!(scene.freshness.of(Watched::Services).lists, 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_costs_only_itself() {
    let fake = Fake::default();
    let bad =
        r#"{"metadata":{"name":"bad","namespace":"shop","resourceVersion":"5"},"endpoints":7}"#;
    let (writer, answer) = lines(&[
        event("ADDED", bad),
        event("ADDED", &slice("good", 6, "10.0.0.1", "a")),
        list_end(7),
        event("MODIFIED", &bad.replace("bad", "good")),
        event("ADDED", &slice("next", 9, "10.0.0.2", "a")),
        event("ADDED", "7"),
        event("ADDED", &slice("last", 10, "10.0.0.3", "a")),
    ]);
    fake.answer("endpointslices", answer);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "slices good=10.0.0.1");
    assert_eq!(scene.next().await, "slice removed good");
    assert_eq!(scene.next().await, "slice next=10.0.0.2");
    assert_eq!(scene.next().await, "slice removed ");
    assert_eq!(scene.next().await, "slice last=10.0.0.3");
    assert_eq!(scene.freshness.of(Watched::EndpointSlices).decode_failures, 3);
    drop(writer);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = scene.fake.asked("endpointslices");
    assert_eq!(asked[1].get("resourceVersion"), Some("10"), "goes on after them");
}

#[tokio::test(start_paused = true)]
async fn a_value_of_the_wrong_type_costs_the_smallest_part() {
    let fake = Fake::default();
    let half = slice("half", 5, "10.0.0.1", "a").replace(
        r#""endpoints":["#,
        r#""endpoints":[{"addresses":["10.0.0.9"],"conditions":{"ready":"true"}},7,"#,
    );
    let (_writer, answer) = lines(&[event("ADDED", &half), list_end(7)]);
    fake.answer("endpointslices", answer);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "slices half=10.0.0.1");
    let state = scene.freshness.of(Watched::EndpointSlices);
    assert_eq!((state.decode_failures, state.rejected_parts), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn an_item_of_a_page_that_does_not_decode_costs_only_itself() {
    let fake = Fake::default();
    fake.answer("services", no_streaming());
    let bad = r#"{"metadata":{"name":"bad","namespace":"shop"},"spec":7}"#.to_owned();
    fake.answer("services", page(70, "", &[bad, service("good", 2, "10.96.0.2")]));
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "services good=10.96.0.2");
    assert_eq!(scene.freshness.of(Watched::Services).decode_failures, 1);
}

/// Headless Services come through when a server overlooks the field selector.
#[tokio::test(start_paused = true)]
async fn objects_that_are_not_for_us_are_reported_as_removed() {
    let fake = Fake::default();
    let (writer, answer) = lines(&[event("ADDED", &service("web", 3, "10.96.0.1")), list_end(4)]);
    fake.answer("services", answer);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "services web=10.96.0.1");
    writer.line(&event("MODIFIED", &service("web", 5, "None")));
    assert_eq!(scene.next().await, "service removed web");
}

#[tokio::test(start_paused = true)]
async fn a_network_goes_with_the_last_service_cidr_that_lists_it() {
    use super::fake::cidr;
    let fake = Fake::default();
    let (writer, answer) = lines(&[
        event("ADDED", &cidr("a", 1, r#""10.96.0.0/12","fd00::/108""#)),
        event("ADDED", &cidr("b", 2, r#""10.96.0.0/12""#)),
        list_end(3),
    ]);
    fake.answer("servicecidrs", answer);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "cidrs 10.96.0.0/12 fd00::/108");
    writer.line(&event("DELETED", &cidr("a", 4, r#""10.96.0.0/12""#)));
    assert_eq!(scene.next().await, "cidrs 10.96.0.0/12");
    writer.line(&event("DELETED", &cidr("b", 5, r#""10.96.0.0/12""#)));
    assert_eq!(scene.next().await, "cidrs");
}

#[tokio::test(start_paused = true)]
async fn the_node_may_come_and_go() {
    use super::fake::node;
    let fake = Fake::default();
    let (writer, answer) = lines(&[list_end(3)]);
    fake.answer("nodes", answer);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "no node");
    writer.line(&event("ADDED", &node("a", None)));
    assert_eq!(scene.next().await, "node in a");
    writer.line(&event("DELETED", &node("a", None)));
    assert_eq!(scene.next().await, "no node");
}
