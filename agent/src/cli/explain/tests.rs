#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::view::{Sight, explain, shop};

fn shown(node: &str, target: &str, from: Option<&str>) -> String {
    let snapshot = shop::snapshot(node, "TopologyRouting");
    let mut engine = snapshot.engine(sliceproxy_dataplane::fake::FakeKernel::new()).unwrap();
    engine.sync().unwrap();
    let from = from.map(|from| from.parse().unwrap());
    let picture = engine.picture().unwrap();
    let explanation =
        explain(&engine, &Sight { picture: &picture, host: None }, &target.parse().unwrap(), from)
            .unwrap();
    let mut page = Page::piped();
    show(&mut page, &explanation);
    page.text().to_owned()
}

#[test]
fn a_service_for_one_client() {
    let text = shown("node-b1", "shop/cart", Some("10.244.3.7"));
    let (answer, way) = text.split_once("\nway of a packet").unwrap();
    assert_eq!(
        answer,
        "\
shop/cart on node node-b1 (eu-1b, eu-1)

frontend 10.103.185.137:7070/TCP
  ClusterIP of shop/cart:grpc/TCP, traffic policy Cluster, a client keeps its endpoint for 600 s
  from a pod on this node (10.244.3.7): DNAT to one of 2 endpoints, 50.0 % each; the endpoint sees
    the client's address

endpoints of shop/cart:grpc/TCP over IPv4: level region, 2 used, 3 ready, 3 in all
  two endpoints are in this node's region eu-1; not same node: no ready endpoint is there; not same
    zone: no ready endpoint is there
  ENDPOINT          NODE     SHARE   USED  REASON
  10.244.2.11:7070  node-a2  50.0 %  yes   ready, zone eu-1a, used: in this node's region eu-1
  10.244.4.11:7070  node-c1  50.0 %  yes   ready, zone eu-1c, used: in this node's region eu-1
  10.244.6.11:7070  node-d2  -       no    ready, zone us-1a, not used: two endpoints are in this
                                           node's region eu-1
"
    );
    assert!(way.contains("goto sticky-2") && way.contains("learn-600"), "{way}");
}

#[test]
fn an_undefined_port() {
    let text = shown("node-a1", "10.97.65.144:81", None);
    let expected = "10.97.65.144 is the cluster IP of shop/web, whose ports are 80/TCP (http)";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("from outside (192.0.2.1): refused by TCP reset"), "{text}");
}
