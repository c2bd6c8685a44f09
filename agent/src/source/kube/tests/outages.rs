//! API servers that are away, or do not let us in.

use super::fake::{Answer, Fake, event, lines, list_end, refusal, service};
use super::*;
use crate::source::kube::Watched;
use crate::source::kube::api::{Refusal, RequestError};
use crate::source::kube::decode::Status;
use crate::source::kube::request::{Resource, Verb};
use crate::source::kube::troubles::Troubles;

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_the_start_is_awaited() {
    let fake = Fake::default();
    fake.always("services", || Answer::Refuse);
    let mut scene = Scene::start(fake.clone());
    scene.quiet(Duration::from_secs(600)).await;
    let asked = scene.fake.asked("services").len();
    assert!((20..=60).contains(&asked), "{asked} requests in 10 minutes");
    let state = scene.freshness.of(Watched::Services);
    assert!(!state.connected && !state.listed);
    let (_writer, answer) = lines(&[event("ADDED", &service("web", 3, "10.96.0.1")), list_end(4)]);
    fake.answer("services", answer);
    let before = tokio::time::Instant::now();
    assert_eq!(scene.next().await, "services web=10.96.0.1");
    assert!(before.elapsed() <= Duration::from_secs(31));
}

#[tokio::test(start_paused = true)]
async fn whoever_finds_the_server_back_tells_the_others() {
    let fake = Fake::default();
    for plural in ["services", "endpointslices", "nodes", "servicecidrs"] {
        fake.always(plural, || Answer::Refuse);
    }
    let mut scene = Scene::start(fake.clone());
    scene.quiet(Duration::from_secs(300)).await;
    let mut writers = Vec::new();
    for plural in ["services", "endpointslices", "nodes", "servicecidrs"] {
        let (writer, answer) = lines(&[list_end(4)]);
        writers.push(writer);
        fake.answer(plural, answer);
    }
    scene.next().await;
    let first = tokio::time::Instant::now();
    for _ in 0..3 {
        scene.next().await;
    }
    assert!(first.elapsed() <= Duration::from_millis(510), "{:?}", first.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_says_nothing_is_left() {
    let fake = Fake::default();
    fake.answer("services", Answer::Hang);
    fake.answer("services", Answer::Hang);
    let (_writer, answer) = lines(&[event("ADDED", &service("web", 3, "10.96.0.1")), list_end(4)]);
    fake.answer("services", answer);
    let mut scene = Scene::start(fake);
    let before = tokio::time::Instant::now();
    assert_eq!(scene.next().await, "services web=10.96.0.1");
    assert!(before.elapsed() < Duration::from_secs(70), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_server_says_when_to_come_back() {
    let fake = Fake::default();
    fake.always("services", || Answer::Later(429, 20));
    let scene = Scene::start(fake);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let times: Vec<_> = scene.fake.asked("services").iter().map(|asked| asked.at).collect();
    assert!(times.len() >= 2);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(20));
    }
}

#[tokio::test(start_paused = true)]
async fn something_else_than_an_api_server_is_named() {
    let fake = Fake::default();
    fake.always("services", || Answer::Html("<h1>It works</h1>".to_owned()));
    let scene = Scene::start(fake);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let trouble = scene.freshness.of(Watched::Services).trouble.unwrap();
    assert!(
        trouble.contains("text/html") && trouble.contains("Kubernetes API server"),
        "{trouble}"
    );
}

/// Load balancers, portals and caches. Where the watch was is remembered, unless what came could
/// have been a part of it.
#[tokio::test(start_paused = true)]
async fn what_stands_in_between_is_named_and_rules_stay() {
    const JSON: (&str, &str) = ("content-type", "application/json");
    for (answer, words, resumed) in [
        (Answer::Other(503, &[], "<h1>Busy</h1>"), "503 Service Unavailable: <h1>Busy</h1>", true),
        (Answer::Other(302, &[("location", "https://login.example/")], ""), "302 Found", true),
        (Answer::Other(200, &[], "<h1>It works</h1>"), "text/html", false),
        (Answer::Other(200, &[JSON, ("content-encoding", "gzip")], "\x1f"), "\"gzip\"", false),
        (Answer::Other(200, &[JSON], "{}{\n"), "makes no sense", false),
    ] {
        let fake = Fake::default();
        let all = [event("ADDED", &service("web", 3, "10.96.0.1")), list_end(10)];
        let (writer, list) = lines(&all);
        fake.answer("services", list);
        fake.answer("services", answer);
        let mut scene = Scene::start(fake);
        assert_eq!(scene.next().await, "services web=10.96.0.1");
        writer.cut();
        // The first pause is half a second at most, the second one at least that.
        tokio::time::sleep(Duration::from_millis(600)).await;
        let trouble = scene.freshness.of(Watched::Services).trouble.unwrap_or_default();
        assert!(trouble.contains(words), "{trouble}");
        scene.quiet(Duration::from_secs(2)).await;
        let asked = scene.fake.asked("services");
        assert_eq!(asked.len(), 3, "{words}");
        let version = if resumed { Some("10") } else { None };
        assert_eq!(asked[2].get("resourceVersion"), version, "{words}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_with_the_rule_that_grants_it() {
    let fake = Fake::default();
    fake.always("endpointslices", || {
        refusal(403, "Forbidden", "endpointslices.discovery.k8s.io is forbidden")
    });
    fake.always("services", || refusal(401, "Unauthorized", "Unauthorized"));
    let scene = Scene::start(fake);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let trouble = scene.freshness.of(Watched::EndpointSlices).trouble.unwrap();
    assert_eq!(
        trouble,
        "we may not watch endpointslices.discovery.k8s.io: endpointslices.discovery.k8s.io is \
         forbidden; the ClusterRole of this user needs the rule {apiGroups: \
         [\"discovery.k8s.io\"], resources: [\"endpointslices\"], verbs: [\"list\", \"watch\"]}"
    );
    let trouble = scene.freshness.of(Watched::Services).trouble.unwrap();
    assert!(trouble.starts_with("the API server does not accept our credentials (watch services)"));
}

#[tokio::test(start_paused = true)]
async fn service_cidrs_are_done_without() {
    let answers: [fn() -> Answer; 2] = [
        || refusal(404, "NotFound", "the server could not find the requested resource"),
        || refusal(403, "Forbidden", "servicecidrs is forbidden"),
    ];
    for absent in answers {
        let fake = Fake::default();
        fake.always("servicecidrs", absent);
        let (_writer, answer) = lines(&[list_end(4)]);
        fake.answer("services", answer);
        let mut scene = Scene::start(fake);
        assert_eq!(scene.next().await, "services");
        scene.quiet(Duration::from_secs(2)).await;
        let asked = scene.fake.asked("servicecidrs").len();
        assert!(asked > 1, "the server may only be starting");
        assert!(scene.freshness.of(Watched::ServiceCidrs).done_without);
        scene.quiet(Duration::from_secs(3600)).await;
        let asked = scene.fake.asked("servicecidrs").len();
        assert!((10..=20).contains(&asked), "ever more seldom: {asked}");
        scene.quiet(Duration::from_secs(3600)).await;
        let more = scene.fake.asked("servicecidrs").len() - asked;
        assert!((2..=6).contains(&more), "but now and then: {more}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_said_once_a_minute() {
    let troubles = Troubles::default();
    let address = "http://fake".parse().unwrap();
    let away = RequestError::Unreachable("connection refused".to_owned());
    let mut said = 0;
    for _ in 0..600 {
        for resource in [Resource::SERVICES, Resource::SLICES, Resource::NODES] {
            said += u32::from(troubles.met(&address, resource, &away));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(said, 5, "times in 5 minutes");
    troubles.over(Resource::NODES);
    let refused = || {
        RequestError::Refused(Box::new(Refusal {
            resource: Resource::SERVICES,
            verb: Verb::Watch,
            status: Status { code: 401, ..Status::default() },
            retry_after: None,
        }))
    };
    assert!(troubles.met(&address, Resource::SERVICES, &refused()));
    assert!(
        !troubles.met(&address, Resource::SLICES, &refused()),
        "credentials are the same for all"
    );
    assert!(troubles.met(&address, Resource::SERVICES, &away), "a new outage is said at once");
}
