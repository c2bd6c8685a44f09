//! Regions of zones, looked up one Node at a time.

use super::fake::{Answer, Fake, event, lines, list_end, node, page, refusal, slice};
use super::*;
use crate::model::{Region, Zone};

fn scene(fake: Fake, configured: &[(&str, &str)]) -> Scene {
    let zone_regions = configured
        .iter()
        .map(|(zone, region)| (Zone::new(zone).unwrap(), Region::new(region).unwrap()))
        .collect();
    Scene::with(fake, Settings { topology_routing: true, zone_regions, ..settings() })
}

/// Look-ups only; the watch on the own Node asks for `nodes` too.
fn looked_up(scene: &Scene) -> Vec<fake::Asked> {
    scene.fake.asked("nodes").into_iter().filter(|a| a.get("labelSelector").is_some()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_zone_is_looked_up_once() {
    let fake = Fake::default();
    let (_node, own) = lines(&[list_end(1)]);
    fake.answer("nodes", own);
    fake.answer("nodes", page(9, "more", &[node("a", Some("north"))]));
    let mut scene = scene(fake.clone(), &[("known", "south")]);
    assert_eq!(scene.next().await, "no node");
    let (writer, slices) = lines(&[
        event("ADDED", &slice("s1", 1, "10.0.0.1", "a")),
        event("ADDED", &slice("s2", 2, "10.0.0.2", "a")),
        event("ADDED", &slice("s3", 3, "10.0.0.3", "known")),
        // No Node can have these labels.
        event("ADDED", &slice("s4", 4, "10.0.0.4", "b,evil=1")),
        event("ADDED", &slice("s5", 5, "10.0.0.5", "-")),
        list_end(6),
    ]);
    fake.answer("endpointslices", slices);
    // The first attempt for slices hung.
    assert!(scene.next().await.starts_with("slices s1=10.0.0.1"));
    assert_eq!(scene.next().await, "regions a=north");
    let asked = looked_up(&scene);
    assert_eq!(asked.len(), 1);
    assert_eq!(
        asked[0].query,
        [
            ("labelSelector".to_owned(), "topology.kubernetes.io/zone=a".to_owned()),
            ("limit".to_owned(), "1".to_owned())
        ]
    );
    assert!(asked[0].accept.starts_with("application/json;as=PartialObjectMetadataList"));

    fake.answer("nodes", page(9, "", &[node("c", Some("west"))]));
    writer.line(&event("ADDED", &slice("s6", 7, "10.0.0.6", "c")));
    assert_eq!(scene.next().await, "slice s6=10.0.0.6");
    assert_eq!(scene.next().await, "regions a=north c=west");
    writer.line(&event("ADDED", &slice("s7", 8, "10.0.0.7", "c")));
    assert_eq!(scene.next().await, "slice s7=10.0.0.7");
    assert_eq!(looked_up(&scene).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_own_node_tells_its_region_itself() {
    let fake = Fake::default();
    let (_node, own) = lines(&[event("ADDED", &node("a", Some("north"))), list_end(1)]);
    let (_slices, slices) = lines(&[event("ADDED", &slice("s1", 1, "10.0.0.1", "a")), list_end(2)]);
    fake.answer("nodes", own);
    let mut scene = scene(fake.clone(), &[]);
    assert_eq!(scene.next().await, "node in a");
    assert_eq!(scene.next().await, "regions a=north");
    fake.answer("endpointslices", slices);
    assert!(scene.next().await.starts_with("slices"));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(looked_up(&scene).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_region_not_found_is_looked_up_again_ever_more_seldom() {
    let fake = Fake::default();
    let (_node, own) = lines(&[event("ADDED", &node("a", None)), list_end(1)]);
    fake.answer("nodes", own);
    fake.answer("nodes", Answer::Body(500, String::new()));
    fake.answer("nodes", Answer::Html(String::new()));
    for _ in 0..3 {
        fake.answer("nodes", page(9, "", &[]));
    }
    fake.answer("nodes", page(9, "", &[node("a", Some("north"))]));
    let mut scene = scene(fake, &[]);
    assert_eq!(scene.next().await, "node in a");
    assert_eq!(scene.next().await, "regions a=north");
    let times: Vec<_> = looked_up(&scene).iter().map(|asked| asked.at).collect();
    let gaps: Vec<_> = times.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
    for (gap, due) in gaps.iter().zip([1.0, 2.0, 30.0, 60.0, 120.0]) {
        assert!((due / 2.0 - 0.01..=due + 0.01).contains(gap), "{gaps:?}");
    }
    assert_eq!(gaps.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_look_regions_stay_unknown() {
    let fake = Fake::default();
    let (_node, own) = lines(&[event("ADDED", &node("a", None)), list_end(1)]);
    fake.answer("nodes", own);
    fake.always("nodes", || refusal(403, "Forbidden", "nodes is forbidden"));
    let mut scene = scene(fake, &[]);
    assert_eq!(scene.next().await, "node in a");
    scene.quiet(Duration::from_secs(500)).await;
    assert_eq!(looked_up(&scene).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_looked_up() {
    let fake = Fake::default();
    let (_node, own) = lines(&[event("ADDED", &node("a", None)), list_end(1)]);
    fake.answer("nodes", own);
    let mut scene = Scene::start(fake);
    assert_eq!(scene.next().await, "node in a");
    scene.quiet(Duration::from_secs(200)).await;
    assert!(looked_up(&scene).is_empty());
}

/// Whoever may write slices may name as many zones as they like.
#[tokio::test(start_paused = true)]
async fn zones_without_end_are_not_looked_up_without_end() {
    let fake = Fake::default();
    let (_node, own) = lines(&[list_end(1)]);
    fake.answer("nodes", own);
    fake.always("nodes", || page(9, "", &[]));
    let mut all: Vec<_> = (0..1000)
        .map(|i| event("ADDED", &slice(&format!("s{i}"), i, "10.0.0.1", &format!("z{i}"))))
        .collect();
    all.push(list_end(2000));
    let (_slices, slices) = lines(&all);
    fake.answer("endpointslices", slices);
    let scene = scene(fake, &[]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(looked_up(&scene).len(), 256);
}
