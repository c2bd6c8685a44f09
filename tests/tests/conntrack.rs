//! UDP flows follow their Service, with real packets: a client that never closes its socket is not
//! stuck with an endpoint that is gone, and nobody else's flow is touched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use sliceproxy::conntrack;
use sliceproxy::driver::Observer as _;
use sliceproxy::engine::Engine;
use sliceproxy::lab::probe::Connection;
use sliceproxy::lab::{Lab, Machine, Netns, NodeAddresses, Pod, Port as PodPort};
use sliceproxy::model::{Event, SlicePort};
use sliceproxy_dataplane::conntrack::{Flow, Swept};
use sliceproxy_dataplane::fake::FakeKernel;
use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend, Protocol};
use sliceproxy_dataplane::netlink::NetlinkConntrack;
use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::flows::{UdpClient, of_family, remembered};
use sliceproxy_tests::manifest::{Manifests, Port, Service};
use sliceproxy_tests::{generate, require_root, wait_for};

const SOON: Duration = Duration::from_secs(10);
const PODS: [&str; 4] = ["dns-0", "dns-1", "dns-2", "dns-3"];
const NODE: NodeAddresses = NodeAddresses {
    v4: std::net::Ipv4Addr::new(192, 0, 2, 1),
    v6: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
};

/// A node with four pods that answer on UDP and TCP 5353, one that only calls, and a client outside.
struct World {
    lab: Lab,
    manifests: Manifests,
}

impl World {
    fn new() -> Self {
        require_root();
        let mut lab = Lab::new(NODE).unwrap();
        let outside: [IpAddr; 2] = ["203.0.113.9".parse().unwrap(), "2001:db8::9".parse().unwrap()];
        lab.add_outside("client", &outside).unwrap();
        for (name, number) in PODS.into_iter().zip(0..) {
            let ports = vec![PodPort::udp(5353), PodPort::tcp(5353)];
            lab.add_pods(&[Pod { name: name.into(), addresses: pod(number).to_vec(), ports }])
                .unwrap();
        }
        let caller = Pod { name: "caller".into(), addresses: pod(99).to_vec(), ports: vec![] };
        lab.add_pods(&[caller]).unwrap();
        let manifests = Manifests::new("node-1", &[NODE.v4.into(), NODE.v6.into()]).unwrap();
        Self { lab, manifests }
    }

    fn agent(&self) -> Agent<'_> {
        let manifests = self.manifests.path();
        let args = ["--manifests", manifests.to_str().unwrap(), "--node-name", "node-1", "-v2"];
        let cidrs = ["--cluster-cidr", "10.244.0.0/16,fd00:244::/32"];
        Agent::start_in_sync(self.lab.node(), &[&args[..], &cidrs[..]].concat()).unwrap()
    }

    fn client(&self, machine: &str, target: Frontend) -> UdpClient {
        let machine: &Machine = self.lab.machine(machine).unwrap();
        let source = of_family(target.family(), machine.addresses()).unwrap();
        UdpClient::new(machine.netns(), source, target).unwrap()
    }

    fn remembered(&self, frontend: Frontend) -> Vec<Flow> {
        remembered(self.lab.node(), frontend).unwrap()
    }
}

/// Waits until a pass is over that was started after `said` bytes of the log.
fn wait_for_pass(agent: &Agent<'_>, said: usize) {
    wait_for("a look at the flows", SOON, || {
        agent.log()[said..].contains("looked for stale UDP flows").then_some(())
    })
    .unwrap();
}

fn pod(number: u8) -> [IpAddr; 2] {
    let v6 = [0xfd00, 0x244, 0, 0, 0, 0, 0, u16::from(number) + 1];
    [[10, 244, 0, number + 1].into(), v6.into()]
}

fn endpoints(numbers: &[u8]) -> Vec<IpAddr> {
    numbers.iter().flat_map(|number| pod(*number)).collect()
}

fn udp(node_port: u16) -> Port {
    Port { protocol: Protocol::Udp, number: 53, target: 5353, node_port }
}

fn tcp(node_port: u16) -> Port {
    Port { protocol: Protocol::Tcp, ..udp(node_port) }
}

fn dns(pods: &[u8]) -> Service {
    Service {
        name: "dns",
        cluster_ips: vec!["10.96.0.10".parse().unwrap(), "fd00:96::a".parse().unwrap()],
        external_ips: vec![],
        ports: vec![udp(0), tcp(0)],
        endpoints: endpoints(pods),
    }
}

fn other(pods: &[u8]) -> Service {
    Service {
        name: "other",
        cluster_ips: vec!["10.96.0.11".parse().unwrap(), "fd00:96::b".parse().unwrap()],
        ..dns(pods)
    }
}

fn at(address: IpAddr, port: u16) -> Frontend {
    Frontend { address, protocol: Protocol::Udp, port }
}

fn on_cluster_ip(service: &Service, family: Family) -> Frontend {
    at(of_family(family, &service.cluster_ips).unwrap(), 53)
}

/// Asks again and again, as a resolver does, until that pod answers.
fn wait_for_pod(client: &UdpClient, pod: &str) {
    let mut last = None;
    let result = wait_for(pod, SOON, || {
        last = client.ask();
        (last.as_deref() == Some(pod)).then_some(())
    });
    assert!(result.is_ok(), "expected {pod}, the last to answer was {last:?}");
}

/// The order is rules, then clean-up (C63): a client that sends all the time would otherwise get its
/// old endpoint back.
#[test]
fn a_flow_moves_on_when_its_endpoint_is_gone_and_tcp_stays() {
    let world = World::new();
    world.manifests.set(&[dns(&[0]), other(&[1])]).unwrap();
    let _agent = world.agent();
    for family in Family::ALL {
        let frontend = on_cluster_ip(&dns(&[]), family);
        let client = world.client("caller", frontend);
        let bystander = world.client("caller", on_cluster_ip(&other(&[]), family));
        wait_for_pod(&client, "dns-0");
        wait_for_pod(&bystander, "dns-1");
        let others = world.remembered(on_cluster_ip(&other(&[]), family));
        let caller = world.lab.machine("caller").unwrap().netns();
        let target = SocketAddr::new(frontend.address, frontend.port);
        let mut connection = Connection::open(caller, target).unwrap();
        assert_eq!(connection.pod, "dns-0");

        // The pod that is replaced still runs: only the proxy can take the flow away from it.
        world.manifests.set(&[dns(&[2]), other(&[1])]).unwrap();
        wait_for_pod(&client, "dns-2");
        // C61
        connection.echo().unwrap();
        let still = world.remembered(on_cluster_ip(&other(&[]), family));
        assert_eq!(others, still, "a flow of another Service on the same port was touched");
        assert_eq!(others.len(), 1);

        world.manifests.set(&[dns(&[0]), other(&[1])]).unwrap();
        wait_for_pod(&client, "dns-0");
    }
}

/// C58
#[test]
fn a_flow_that_began_before_the_first_endpoint_reaches_it() {
    let world = World::new();
    let frontend = on_cluster_ip(&dns(&[]), Family::V4);
    let client = world.client("caller", frontend);
    world.manifests.set(&[dns(&[])]).unwrap();
    let agent = world.agent();
    assert_eq!(client.ask(), None);
    // A flow as it begins in the moment between the Service and its rules.
    let untranslated = Flow {
        client: client.source().unwrap(),
        frontend,
        answers_from: Endpoint { address: frontend.address, port: 53 },
        zone: 0,
    };
    wait_for_pass(&agent, 0);
    let plant = || NetlinkConntrack::open()?.plant([&untranslated]);
    assert_eq!(world.lab.node().run(plant).unwrap().unwrap(), 1);
    assert_eq!(client.ask(), None);
    world.manifests.set(&[dns(&[3])]).unwrap();
    wait_for_pod(&client, "dns-3");
}

#[test]
fn flows_end_with_the_last_endpoint_and_with_the_service() {
    let world = World::new();
    let (dns_at, other_at) =
        (on_cluster_ip(&dns(&[]), Family::V4), on_cluster_ip(&other(&[]), Family::V4));
    world.manifests.set(&[dns(&[0]), other(&[0])]).unwrap();
    let _agent = world.agent();
    let (client, bystander) = (world.client("caller", dns_at), world.client("caller", other_at));
    wait_for_pod(&client, "dns-0");
    wait_for_pod(&bystander, "dns-0");
    assert_eq!((world.remembered(dns_at).len(), world.remembered(other_at).len()), (1, 1));

    world.manifests.set(&[dns(&[]), other(&[0])]).unwrap();
    wait_for("the flow to end", SOON, || world.remembered(dns_at).is_empty().then_some(()))
        .unwrap();
    assert_eq!(client.ask(), None, "refused");
    world.manifests.set(&[dns(&[0]), other(&[0])]).unwrap();
    wait_for_pod(&client, "dns-0");

    world.manifests.set(&[other(&[0])]).unwrap();
    wait_for("the flow to end", SOON, || world.remembered(dns_at).is_empty().then_some(()))
        .unwrap();
    assert_eq!(world.remembered(other_at).len(), 1);
    let counted = "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 2";
    wait_for("both to be counted", SOON, || metrics(&world).contains(counted).then_some(()))
        .unwrap();
}

/// The agent's metrics.
fn metrics(world: &World) -> String {
    let get = || {
        let mut stream = TcpStream::connect("127.0.0.1:10249")?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        io::read_to_string(stream)
    };
    world.lab.node().run(get).unwrap().unwrap()
}

/// A UDP flow that began before an external IP was added stays stuck on the untranslated path.
#[test]
fn a_flow_that_began_before_an_external_ip_was_added_is_translated() {
    let world = World::new();
    let external: IpAddr = "198.51.100.7".parse().unwrap();
    world.manifests.set(&[dns(&[0])]).unwrap();
    let _agent = world.agent();
    let client = world.client("caller", at(external, 53));
    // It goes out to the Internet, where nobody answers.
    assert_eq!(client.ask(), None);
    assert_eq!(world.remembered(at(external, 53)).len(), 1);
    let with_external = Service { external_ips: vec![external], ..dns(&[0]) };
    world.manifests.set(&[with_external]).unwrap();
    wait_for_pod(&client, "dns-0");
}

/// C64, and what happens to have the same port number elsewhere.
#[test]
fn node_ports_are_matched_on_the_nodes_addresses_and_by_protocol() {
    let world = World::new();
    let node_port = at(NODE.v4.into(), 30_053);
    // A server outside that listens on the same port number.
    let elsewhere = at("203.0.113.9".parse().unwrap(), 30_053);
    let with_ports = |pods: &[u8], ports| Service { ports, ..dns(pods) };
    world.manifests.set(&[with_ports(&[0], vec![udp(30_053)])]).unwrap();
    let agent = world.agent();
    let client = world.client("client", node_port);
    wait_for_pod(&client, "dns-0");
    assert_eq!(world.client("caller", elsewhere).ask(), None);
    let before = (world.remembered(node_port), world.remembered(elsewhere));
    assert_eq!((before.0.len(), before.1.len()), (1, 1));

    let said = agent.log().len();
    world.manifests.set(&[with_ports(&[0], vec![udp(30_053), tcp(30_053)])]).unwrap();
    wait_for("the TCP port", SOON, || {
        let target = SocketAddr::new(node_port.address, node_port.port);
        let outside = world.lab.machine("client").unwrap().netns();
        Connection::open(outside, target).ok()
    })
    .unwrap();
    assert_eq!(world.remembered(node_port), before.0, "adding TCP touched UDP");
    assert_eq!(client.ask().as_deref(), Some("dns-0"));
    assert!(!agent.log()[said..].contains("looked for stale UDP flows"));

    world.manifests.set(&[with_ports(&[1], vec![udp(30_053), tcp(30_053)])]).unwrap();
    wait_for_pod(&client, "dns-1");
    assert_eq!(world.remembered(elsewhere), before.1, "not the node's address");
}

/// C59 and C60
#[test]
fn a_restart_ends_the_flows_of_pods_that_went_meanwhile_and_no_others() {
    let world = World::new();
    let frontend = on_cluster_ip(&dns(&[]), Family::V4);
    world.manifests.set(&[dns(&[0, 1, 2])]).unwrap();
    let agent = world.agent();
    let clients: Vec<UdpClient> = (0..20).map(|_| world.client("caller", frontend)).collect();
    for client in &clients {
        wait_for("an answer", SOON, || client.ask()).unwrap();
    }
    let before = world.remembered(frontend);
    assert_eq!(before.len(), clients.len());
    agent.stop().unwrap();

    let agent = world.agent();
    wait_for_pass(&agent, 0);
    assert_eq!(world.remembered(frontend), before, "a restart without changes deletes nothing");
    agent.stop().unwrap();

    world.manifests.set(&[dns(&[1, 2, 3])]).unwrap();
    let agent = world.agent();
    wait_for_pass(&agent, 0);
    let gone = pod(0)[0];
    let (lost, kept): (Vec<Flow>, Vec<Flow>) =
        before.into_iter().partition(|flow| flow.answers_from.address == gone);
    assert!(!lost.is_empty() && !kept.is_empty(), "20 flows over 3 pods");
    assert_eq!(world.remembered(frontend), kept);
    assert!(clients.iter().all(|client| client.ask().is_some_and(|pod| pod != "dns-0")));
}

/// C62, small: one dump, and nothing is deleted but what is stale.
#[test]
fn fifty_stale_flows_among_five_hundred_are_deleted_in_one_dump() {
    require_root();
    let frontend = on_cluster_ip(&dns(&[]), Family::V4);
    let flows: Vec<Flow> = (0..500)
        .map(|n| Flow {
            client: SocketAddr::from(([10, 244, 0, 100], 10_000 + n)),
            frontend,
            answers_from: Endpoint { address: pod(u8::from(n % 10 != 0))[0], port: 5353 },
            zone: 0,
        })
        .collect();
    let netns = Netns::new().unwrap();
    let mut table = netns.run(NetlinkConntrack::open).unwrap().unwrap();
    assert_eq!(table.plant(&flows).unwrap(), 500);
    let (sender, passes) = std::sync::mpsc::channel();
    let mut stale = conntrack::start(table, move |pass| sender.send(pass).unwrap()).unwrap();

    let mut engine = Engine::new(generate::settings(), FakeKernel::new()).unwrap();
    let mut service = (*generate::service(1)).clone();
    service.cluster_ips = vec![frontend.address];
    service.ports[0].protocol = Protocol::Udp;
    service.ports[0].port = frontend.port;
    let mut slice = (*generate::slice(1, 0, [1])).clone();
    slice.ports[0] = SlicePort { protocol: Protocol::Udp, port: 5353, ..slice.ports[0].clone() };
    slice.endpoints[0].address = pod(1)[0];
    engine.apply(Event::AllSlices(vec![slice.into()]));
    engine.apply(Event::AllServices(vec![service.into()]));
    let synced = engine.sync().unwrap();
    stale.synced(&engine, &synced, Duration::ZERO);

    let pass = passes.recv_timeout(SOON).unwrap();
    assert_eq!(pass.swept, Swept { dumps: 1, seen: 500, deleted: 50 });
    let left = remembered(&netns, frontend).unwrap();
    assert_eq!(left.len(), 450);
    assert!(left.iter().all(|flow| flow.answers_from.address == pod(1)[0]));
    assert!(passes.try_recv().is_err(), "one pass");
}
