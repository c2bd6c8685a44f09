use super::in_namespace;
use super::nft;
use crate::frontend::Family;
use crate::netlink::NetlinkKernel;
use crate::program::ProgramConfig;

/// As kube-proxy's iptables mode leaves it, with somebody else's rules in between.
const LEFT: &str = "
table ip nat {
    chain KUBE-SEP-A {
        meta l4proto tcp dnat to 10.244.0.1:8080
    }
    chain KUBE-SVC-A {
        jump KUBE-SEP-A
    }
    chain KUBE-SERVICES {
        ip daddr 10.96.0.1 tcp dport 80 jump KUBE-SVC-A
    }
    chain KUBE-POSTROUTING {
        masquerade
    }
    chain CNI-CHAIN {
        ip saddr 10.1.1.1 accept
        jump KUBE-SERVICES
    }
    chain PREROUTING {
        type nat hook prerouting priority -100
        ip saddr 10.9.9.9 accept
        counter jump KUBE-SERVICES
        jump CNI-CHAIN
    }
    chain KUBE-BASE {
        type nat hook postrouting priority 100
        goto KUBE-POSTROUTING
    }
}
table ip filter {
    chain KUBE-SERVICES {
        drop
    }
}
";

#[test]
fn only_the_named_chains_and_the_ways_to_them_go() {
    in_namespace(|| {
        for nft in nft::all() {
            nft.run(&["flush", "ruleset"]);
            nft.run_with(&["-f", "-"], LEFT);
            let mut kernel = NetlinkKernel::open(&ProgramConfig::default()).unwrap();
            let mut remove = |family, table| {
                kernel.remove_chains(family, table, |name| name.starts_with("KUBE-")).unwrap()
            };
            assert_eq!(remove(Family::V4, "nat"), 4);
            assert_eq!(remove(Family::V4, "nat"), 0);
            assert_eq!(remove(Family::V6, "nat"), 0, "there is no such table");
            let left = nft.run(&["list", "ruleset"]);
            for gone in ["KUBE-SVC", "KUBE-SEP", "KUBE-POSTROUTING", "jump KUBE", "10.244.0.1"] {
                assert!(!left.contains(gone), "{gone} in {left}");
            }
            for kept in ["10.9.9.9", "10.1.1.1", "jump CNI-CHAIN", "KUBE-BASE", "table ip filter"] {
                assert!(left.contains(kept), "{kept} not in {left}");
            }
            assert!(left.contains("KUBE-SERVICES"), "another table's chain: {left}");
        }
    });
}
