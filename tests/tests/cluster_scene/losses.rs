//! Objects that go while nobody watches: a complete list without them is believed, even an empty one.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sliceproxy_tests::agent::{Agent, printed};
use sliceproxy_tests::cluster::{Options, Restart, User, service};
use sliceproxy_tests::wait_for;

use crate::scene::{LIMIT, Scene, answers, cluster_ips, pod, populate, wait_for_answers, web_spec};

const SHOP: &str = "/api/v1/namespaces/shop";

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn what_went_while_nobody_watched_is_gone_with_the_next_list() {
    let Scene { mut cluster, lab } = Scene::new(Options::default());
    let api = cluster.api().unwrap();
    for number in [1, 2] {
        api.add_ready_pod(&pod(number)).unwrap();
    }
    let frontend =
        |name: &str| cluster_ips(&api.apply(&service("shop", name, &web_spec())).unwrap(), 80)[0];
    let (stays, goes) = (frontend("stays"), frontend("goes"));
    let kubeconfig = cluster.kubeconfig(&User::kube_proxy()).unwrap();
    let args = Scene::args(&kubeconfig, &["--cluster-cidr", "10.244.0.0/16,fd00:244::/32"]);
    let agent = Agent::start_in_sync(lab.node(), &args).unwrap();
    wait_for_answers(&lab, "at first", goes, &["web-1", "web-2"]);

    let pid = Pid::from_raw(i32::try_from(agent.pid()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    api.delete(&format!("{SHOP}/services/goes")).unwrap();
    api.remove_pod(&pod(1)).unwrap();
    api.wait_for_endpoints(LIMIT, ("shop", "stays"), "one pod", |all| all.len() == 2).unwrap();
    cluster.restart_api_server(Restart::Compacted).unwrap();
    wait_for_answers(&lab, "nobody has seen it", goes, &["web-1", "web-2"]);
    kill(pid, Signal::SIGCONT).unwrap();
    wait_for_answers(&lab, "a pod and a Service less", stays, &["web-2"]);
    wait_for("the Service to be gone", LIMIT, || {
        let answers = answers(&lab, goes);
        (!answers.iter().any(|answer| answer.starts_with("web-"))).then_some(())
    })
    .unwrap();
    assert!(agent.stop().unwrap().success());
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn an_api_server_that_lost_everything_is_believed_when_it_is_back() {
    let Scene { mut cluster, lab } = Scene::new(Options::default());
    let api = cluster.api().unwrap();
    let add_web = || {
        for number in [1, 2] {
            api.add_ready_pod(&pod(number)).unwrap();
        }
        cluster_ips(&api.apply(&service("shop", "web", &web_spec())).unwrap(), 80)[0]
    };
    let frontend = add_web();
    let kubeconfig = cluster.kubeconfig(&User::kube_proxy()).unwrap();
    let args = Scene::args(&kubeconfig, &["--cluster-cidr", "10.244.0.0/16,fd00:244::/32"]);
    let agent = Agent::start_in_sync(lab.node(), &args).unwrap();
    wait_for_answers(&lab, "at first", frontend, &["web-1", "web-2"]);

    cluster.stop_api_server();
    wait_for("the agent to notice", LIMIT, || {
        agent.log().contains("cannot reach the API server").then_some(())
    })
    .unwrap();
    wait_for_answers(&lab, "nobody says that it is gone", frontend, &["web-1", "web-2"]);
    cluster.restart_api_server(Restart::Emptied).unwrap();
    let mut services = String::new();
    wait_for("the Service to be gone", LIMIT, || {
        services = printed(&agent.ask(&["dump", "services"]).unwrap());
        (services.contains("default/kubernetes") && !services.contains("shop/web")).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}: {services}"));
    assert!(!answers(&lab, frontend).iter().any(|answer| answer.starts_with("web-")));

    populate(&api);
    let again = add_web();
    wait_for_answers(&lab, "made again", again, &["web-1", "web-2"]);
    assert!(printed(&agent.ask(&["diff"]).unwrap()).contains("no difference"));
    assert!(agent.stop().unwrap().success());
}
