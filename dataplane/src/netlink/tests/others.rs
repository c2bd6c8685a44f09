use super::nft;
use super::{in_namespace, installed};
use crate::netlink::{OtherChain, other_chains};
use crate::program::ProgramConfig;

const OTHERS: &str = "
table inet filter {
    chain reached {
        drop
    }
    chain forward {
        type filter hook forward priority -5; policy accept;
        jump reached
    }
    chain nothing {
        type filter hook input priority 0; policy accept;
    }
}
table ip6 closed {
    chain out {
        type filter hook output priority 10; policy drop;
    }
}
table arp filter {
    chain input {
        type filter hook input priority 0; policy drop;
    }
}
";

#[test]
fn chains_of_others_that_may_come_in_the_way_are_listed() {
    in_namespace(|| {
        let _ours = installed(&ProgramConfig::default());
        for nft in nft::all() {
            nft.run_with(&["-f", "-"], OTHERS);
            let found = other_chains(OtherChain::may_interfere).unwrap();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(
                found,
                [
                    "table inet filter, chain forward (forward, priority -5)",
                    "table ip6 closed, chain out (output, priority 10, policy drop)",
                ]
            );
            let reached = other_chains(|chain| chain.name == "reached").unwrap();
            assert_eq!(reached.len(), 1);
            assert_eq!(reached[0].hook, None);
            for table in ["inet filter", "ip6 closed", "arp filter"] {
                nft.run(&[&format!("delete table {table}")]);
            }
            assert_eq!(other_chains(|_| true).unwrap(), []);
        }
    });
}
