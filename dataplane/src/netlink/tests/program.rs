//! The program as `nft` sees it.

use super::sample::everything;
use super::{in_namespace, installed, nft};
use crate::frontend::Family;
use crate::kernel::Kernel as _;
use crate::netlink::NetlinkKernel;
use crate::program::ProgramConfig;

#[test]
fn an_installed_program_is_whole() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let state = kernel.read().unwrap();
        for table in [state.v4, state.v6] {
            let table = table.unwrap();
            assert_eq!(table.damage, Vec::<String>::new());
            assert!(table.identity.is_some());
        }
    });
}

#[test]
fn nft_lists_it() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = NetlinkKernel::open(&config).unwrap();
        kernel.commit(&everything(&config, &Family::ALL)).unwrap();
        println!("{}", nft(&["list", "ruleset"]));
    });
}
