//! What the API server is asked, exactly.

use super::fake::{Fake, lines, list_end, no_streaming, page};
use super::*;

fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs: Vec<_> =
        query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    pairs.sort();
    pairs
}

/// Without `timeoutSeconds`, which must be five to ten minutes.
fn without_timeout(asked: &fake::Asked) -> Vec<(String, String)> {
    let seconds: u64 = asked.get("timeoutSeconds").unwrap().parse().unwrap();
    assert!((300..=600).contains(&seconds), "{seconds}");
    asked.query.iter().filter(|(key, _)| key != "timeoutSeconds").cloned().collect()
}

const STREAMING: [(&str, &str); 4] = [
    ("watch", "true"),
    ("allowWatchBookmarks", "true"),
    ("sendInitialEvents", "true"),
    ("resourceVersionMatch", "NotOlderThan"),
];

#[tokio::test(start_paused = true)]
async fn four_streaming_lists_and_nothing_else() {
    let scene = Scene::start(Fake::default());
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (path, selectors) in [
        (
            "/api/v1/services",
            &[
                ("labelSelector", "!service.kubernetes.io/service-proxy-name"),
                ("fieldSelector", "spec.clusterIP!=None"),
            ][..],
        ),
        (
            "/apis/discovery.k8s.io/v1/endpointslices",
            &[("labelSelector", "!service.kubernetes.io/headless")],
        ),
        ("/api/v1/nodes", &[("fieldSelector", "metadata.name=node-a1")]),
        ("/apis/networking.k8s.io/v1/servicecidrs", &[]),
    ] {
        let asked = scene.fake.asked(path.rsplit('/').next().unwrap());
        assert_eq!(asked.len(), 1, "{path}");
        assert_eq!(asked[0].path, path);
        assert_eq!(asked[0].accept, "application/json");
        assert_eq!(without_timeout(&asked[0]), pairs(&[selectors, &STREAMING].concat()));
    }
    assert_eq!(scene.fake.paths().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_slice_selector_is_added() {
    let selector = "zone in (a, b),!legacy".parse().unwrap();
    let settings = Settings { slice_selector: Some(selector), ..settings() };
    let scene = Scene::with(Fake::default(), settings);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        scene.fake.asked("endpointslices")[0].get("labelSelector"),
        Some("!service.kubernetes.io/headless,zone in (a, b),!legacy")
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_the_end_of_the_list() {
    let fake = Fake::default();
    fake.answer("services", no_streaming());
    fake.answer("services", page(70, "more/+&", &[]));
    fake.answer("services", page(70, "", &[]));
    let scene = Scene::start(fake);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = scene.fake.asked("services");
    let selectors = [
        ("labelSelector", "!service.kubernetes.io/service-proxy-name"),
        ("fieldSelector", "spec.clusterIP!=None"),
    ];
    assert_eq!(asked[1].query, pairs(&[&selectors[..], &[("limit", "500")]].concat()));
    let rest = [("limit", "500"), ("continue", "more/+&")];
    assert_eq!(asked[2].query, pairs(&[&selectors[..], &rest].concat()));
    let watch = [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", "70")];
    assert_eq!(without_timeout(&asked[3]), pairs(&[&selectors[..], &watch].concat()));
}

#[tokio::test(start_paused = true)]
async fn watches_do_not_end_in_step() {
    let fake = Fake::default();
    fake.always("services", || lines(&[list_end(5)]).1);
    let scene = Scene::start(fake);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let mut lengths: Vec<_> = scene
        .fake
        .asked("services")
        .iter()
        .map(|a| a.get("timeoutSeconds").unwrap().to_owned())
        .collect();
    lengths.sort();
    lengths.dedup();
    assert!(lengths.len() > 2, "{lengths:?}");
}
