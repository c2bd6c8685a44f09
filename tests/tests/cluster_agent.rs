//! The agent against a real API server and real controllers: what happens in the API is what
//! connections meet.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::TcpListener;

use serde_json::json;
use sliceproxy::lab::Lab;
use sliceproxy::lab::probe::Outcome;
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_tests::agent::{Agent, command, printed};
use sliceproxy_tests::cluster::{Node, Options, Request, Restart, User, endpoints};
use sliceproxy_tests::wait_for;

#[path = "cluster_scene/credentials.rs"]
mod credentials;
#[path = "cluster_scene/losses.rs"]
mod losses;
#[path = "cluster_scene/mod.rs"]
mod scene;

use scene::{LIMIT, NODE, Scene, cluster_ips, ip, pod, pod_ips, wait_for_answers, web_spec};

/// The role's account, as the API server knows it.
const ACCOUNT: &str = "system:serviceaccount:kube-system:sliceproxy";

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn connections_follow_pods_services_and_endpoints() {
    let scene = Scene::new(Options::default());
    let api = scene.api();
    let mut agent = scene.agent(&[]);
    let web = scene.add_service("web", &web_spec());
    let frontends = cluster_ips(&web, 80);
    assert_eq!(frontends.len(), 2, "{web}");
    let expect = |what: &str, names: &[&str]| {
        for frontend in &frontends {
            scene.wait_for_answers(what, *frontend, names);
        }
    };
    expect("a Service without endpoints refuses", &["refused"]);
    for number in [1, 2] {
        api.add_ready_pod(&pod(number)).unwrap();
    }
    expect("two pods became ready", &["web-1", "web-2"]);
    api.set_ready(&pod(1), false).unwrap();
    expect("one is not ready any more", &["web-2"]);
    api.set_ready(&pod(1), true).unwrap();
    api.add_ready_pod(&pod(3)).unwrap();
    expect("ready again, and a third", &["web-1", "web-2", "web-3"]);
    api.terminate_pod(&pod(2)).unwrap();
    expect("one is terminating", &["web-1", "web-3"]);
    api.remove_pod(&pod(2)).unwrap();
    api.set_ready(&pod(3), false).unwrap();
    expect("only one is left", &["web-1"]);
    api.terminate_pod(&pod(1)).unwrap();
    expect("a terminating pod that serves is better than none", &["web-1"]);
    api.remove_pod(&pod(1)).unwrap();
    expect("none is left", &["refused"]);
    api.set_ready(&pod(3), true).unwrap();
    expect("one is back", &["web-3"]);

    // Another port, a node port, and gone.
    let mut spec = web_spec();
    spec["type"] = json!("NodePort");
    spec["ports"][0]["port"] = json!(81);
    spec["ports"][0]["nodePort"] = json!(30080);
    let web = scene.add_service("web", &spec);
    let moved = cluster_ips(&web, 81);
    scene.wait_for_answers("the Service moved to port 81", moved[0], &["web-3"]);
    scene.wait_for_answers("nothing is left on port 80", frontends[0], &["refused"]);
    let node_port = Frontend { address: ip("172.18.0.11"), protocol: Protocol::Tcp, port: 30080 };
    scene.wait_for_answers("a node port", node_port, &["web-3"]);
    api.delete("/api/v1/namespaces/shop/services/web").unwrap();
    scene.wait_for_answers("the Service is gone", node_port, &["refused"]);

    // Endpoints written by hand, mirrored into slices by the controller.
    let legacy = scene.add_service("legacy", &json!({"ports": [{"port": 5432}]}));
    let legacy = cluster_ips(&legacy, 5432)[0];
    api.apply(&endpoints("shop", "legacy", &[pod_ips(1)[0]], 8080)).unwrap();
    scene.wait_for_answers("mirrored Endpoints", legacy, &["web-1"]);
    api.apply(&endpoints("shop", "legacy", &[pod_ips(2)[0]], 8080)).unwrap();
    scene.wait_for_answers("changed Endpoints", legacy, &["web-2"]);
    agent.wait_in_sync().unwrap();
    assert!(agent.stop().unwrap().success());
    scene.wait_for_answers("rules outlive the agent", legacy, &["web-2"]);
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn it_asks_for_what_it_needs_and_its_role_is_enough() {
    let scene = Scene::new(Options { audit: true, ..Options::default() });
    let api = scene.api();
    // Two Services want the same external IP: the younger one is told.
    let spec = json!({"externalIPs": ["192.0.2.77"], "ports": [{"port": 80}]});
    scene.add_service("first", &spec);
    wait_for("a second to pass", LIMIT, || {
        scene.add_service("second", &spec);
        let created = |name: &str| {
            let path = format!("/api/v1/namespaces/shop/services/{name}");
            api.get(&path).unwrap()["metadata"]["creationTimestamp"].clone()
        };
        let later = created("first") != created("second");
        if !later {
            api.delete("/api/v1/namespaces/shop/services/second").unwrap();
        }
        later.then_some(())
    })
    .unwrap();
    // Somebody has the port that a load balancer is to ask on.
    let taken = scene.lab.node().run(|| TcpListener::bind("0.0.0.0:32100")).unwrap().unwrap();
    let checked = json!({
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 32100,
        "ports": [{"port": 80}],
    });
    scene.add_service("checked", &checked);
    let _agent = scene.agent(&["--feature-gates", "TopologyRouting=true"]);

    let events = |namespace: &str| {
        api.list(&format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrap()
    };
    let conflict = wait_for("the Event about the conflict", LIMIT, || {
        events("shop").into_iter().find(|event| event["reason"] == "FrontendConflict")
    });
    let conflict = conflict.unwrap();
    assert_eq!(conflict["regarding"]["name"], "second", "{conflict}");
    let uid = api.get("/api/v1/namespaces/shop/services/second").unwrap();
    assert_eq!(conflict["regarding"]["uid"], uid["metadata"]["uid"], "{conflict}");
    assert_eq!(
        (&conflict["type"], &conflict["reportingInstance"]),
        (&json!("Warning"), &json!(NODE))
    );
    let check = wait_for("the Event about the health check", LIMIT, || {
        let mut all = events("shop").into_iter();
        all.find(|event| event["reason"] == "FailedToStartServiceHealthcheck")
    });
    assert_eq!(check.unwrap()["regarding"]["name"], "checked");
    drop(taken);
    let start = wait_for("the Event about the start", LIMIT, || {
        events("default").into_iter().find(|event| event["reason"] == "Starting")
    });
    let start = start.unwrap();
    assert_eq!((&start["regarding"]["kind"], &start["type"]), (&json!("Node"), &json!("Normal")));

    let expected = [
        "watch endpointslices.discovery.k8s.io !service.kubernetes.io/headless ",
        "watch nodes  metadata.name=node-1",
        "watch servicecidrs.networking.k8s.io  ",
        "watch services !service.kubernetes.io/service-proxy-name spec.clusterIP!=None",
    ];
    // A watch may be logged after it was answered.
    let mut requests = Vec::new();
    let mut seen = Vec::new();
    wait_for("all watches in the audit log", LIMIT, || {
        requests = scene.cluster.requests(ACCOUNT).ok()?;
        let read = requests.iter().filter(|request| request.verb != "create");
        seen = read.map(verb_and_selectors).collect();
        seen.sort();
        (seen.len() >= expected.len()).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}: {requests:#?}"));
    assert_eq!(seen, expected, "{requests:#?}");
    let refused: Vec<_> = requests.iter().filter(|r| !matches!(r.code, 0 | 200 | 201)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let written = requests.iter().filter(|request| request.verb == "create");
    let kinds: BTreeSet<_> = written.map(|request| request.resource.as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["events.events.k8s.io"]));
}

fn verb_and_selectors(request: &Request) -> String {
    let selector = |name: &str| request.parameter(name).unwrap_or_default();
    let (labels, fields) = (selector("labelSelector"), selector("fieldSelector"));
    format!("{} {} {labels} {fields}", request.verb, request.resource)
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn without_the_api_server_rules_stay_and_afterwards_they_are_right() {
    let mut scene = Scene::new(Options::default());
    let api = scene.api();
    for number in [1, 2] {
        api.add_ready_pod(&pod(number)).unwrap();
    }
    let frontend = cluster_ips(&scene.add_service("web", &web_spec()), 80)[0];
    let args = Scene::args(
        &scene.kubeconfig(),
        &[
            "--cluster-cidr",
            "10.244.0.0/16,fd00:244::/32",
            "--metrics-bind-address",
            "127.0.0.1:10249",
        ],
    );

    // Down at the start: nothing is written, and it waits.
    scene.cluster.stop_api_server();
    let (cluster, lab) = (&mut scene.cluster, &scene.lab);
    let mut agent = Agent::start(lab.node(), &args).unwrap();
    let complaint = "cannot reach the API server";
    wait_for("a complaint", LIMIT, || agent.log().contains(complaint).then_some(())).unwrap();
    let tables =
        lab.node().run(|| std::process::Command::new("nft").args(["list", "tables"]).output());
    assert!(!printed(&tables.unwrap().unwrap()).contains("sliceproxy"), "written without a list");
    cluster.start_api_server().unwrap();
    agent.wait_in_sync().unwrap();
    let both = ["web-1", "web-2"];
    wait_for_answers(lab, "both pods", frontend, &both);

    // It hangs: whoever connects gets no answer.
    let frozen = cluster.api_server().unwrap().freeze().unwrap();
    wait_for_answers(lab, "the server hangs", frontend, &both);
    drop(frozen);
    api.set_ready(&pod(2), false).unwrap();
    wait_for_answers(lab, "a change after it went on", frontend, &["web-1"]);
    api.set_ready(&pod(2), true).unwrap();
    wait_for_answers(lab, "and back", frontend, &both);

    for how in [Restart::AsItWas, Restart::Compacted] {
        cluster.stop_api_server();
        wait_for("the agent to notice", LIMIT, || {
            metrics(lab).contains(r#"sliceproxy_watch_connected{watch="services"} 0"#).then_some(())
        })
        .unwrap();
        wait_for_answers(lab, "the server is away", frontend, &both);
        assert!(metrics(lab).contains("sliceproxy_watch_age_seconds "), "{}", metrics(lab));
        cluster.restart_api_server(how).unwrap();
        api.set_ready(&pod(1), false).unwrap();
        wait_for_answers(lab, "a change after the return", frontend, &["web-2"]);
        api.set_ready(&pod(1), true).unwrap();
        wait_for_answers(lab, "and back", frontend, &both);
    }
    assert!(agent.stop().unwrap().success());
}

fn metrics(lab: &Lab) -> String {
    let output = lab.node().run(|| {
        std::process::Command::new("curl").args(["-sf", "http://127.0.0.1:10249/metrics"]).output()
    });
    printed(&output.unwrap().unwrap())
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn a_token_without_rights_is_told_what_it_lacks() {
    let nobody = User::new("nobody");
    let users = vec![nobody.clone()];
    let scene = Scene::new(Options { users, controllers: Vec::new(), ..Options::default() });
    let kubeconfig = scene.cluster.kubeconfig(&nobody).unwrap();
    let agent = Agent::start(scene.lab.node(), &Scene::args(&kubeconfig, &[])).unwrap();
    for part in ["we may not watch services", "endpointslices", "verbs: [\"list\", \"watch\"]"] {
        let found = wait_for(part, LIMIT, || agent.log().contains(part).then_some(()));
        assert!(found.is_ok(), "{part}\n{}", agent.log());
    }
    // One agent at a time.
    drop(agent);
    let missing = command(scene.lab.node(), &["run", "--kubeconfig", "/nonexistent"]).unwrap();
    assert_eq!(missing.status.code(), Some(1), "{}", printed(&missing));
    assert!(printed(&missing).contains("/nonexistent"), "{}", printed(&missing));
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn in_mode_node_cidr_the_program_follows_the_node() {
    let scene = Scene::new(Options::default());
    let api = scene.api();
    api.add_ready_pod(&pod(1)).unwrap();
    let frontend = cluster_ips(&scene.add_service("web", &web_spec()), 80)[0];
    let nft = |arguments: &[&str]| {
        let run = || std::process::Command::new("nft").args(arguments).output();
        printed(&scene.lab.node().run(run).unwrap().unwrap())
    };

    // A Node that has no pod networks yet: nothing is written before it has.
    let new = Node {
        name: "node-3".to_owned(),
        zone: "eu-1a".to_owned(),
        region: "eu-1".to_owned(),
        pod_cidrs: Vec::new(),
        addresses: vec![ip("172.18.0.11"), ip("fd00:18::b")],
    };
    api.add_node(&new).unwrap();
    let kubeconfig = scene.kubeconfig();
    let mut args = Scene::args(&kubeconfig, &["--detect-local-mode", "NodeCIDR"]);
    args.extend(["--node-name", "node-3"].map(str::to_owned));
    let mut agent = Agent::start(scene.lab.node(), &args).unwrap();
    wait_for("the agent to know its Node", LIMIT, || {
        let events = api.list("/apis/events.k8s.io/v1/namespaces/default/events").unwrap();
        events.iter().any(|event| event["regarding"]["name"] == "node-3").then_some(())
    })
    .unwrap();
    assert!(!nft(&["list", "tables"]).contains("sliceproxy"), "written without pod networks");
    let networks = json!({"spec": {"podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24"]}});
    api.patch("/api/v1/nodes/node-3", &networks).unwrap();
    agent.wait_in_sync().unwrap();
    assert!(nft(&["list", "table", "ip", "sliceproxy"]).contains("10.244.3.0/24"));
    assert!(agent.stop().unwrap().success());

    // Started again for another Node, whose program replaces that one.
    let args = Scene::args(&kubeconfig, &["--detect-local-mode", "NodeCIDR"]);
    let _agent = Agent::start_in_sync(scene.lab.node(), &args).unwrap();
    scene.wait_for_answers("the pod", frontend, &["web-1"]);
    let program = || {
        let list =
            std::process::Command::new("nft").args(["list", "table", "ip", "sliceproxy"]).output();
        printed(&list.unwrap())
    };
    let program = scene.lab.node().run(program).unwrap();
    assert!(program.contains("10.244.1.0/24"), "{program}");
    // A pod of the node is seen as itself.
    let caller = scene.lab.machine("caller").unwrap().vantage();
    match caller.connect(frontend).unwrap() {
        Outcome::Answered { seen_source, .. } => assert_eq!(seen_source, ip("10.244.1.200")),
        other => panic!("{other}"),
    }
}
