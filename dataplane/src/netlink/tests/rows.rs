//! Rows, written and read back.

use super::in_namespace;
use super::sample::{affinity, everything, rows};
use crate::frontend::Family;
use crate::kernel::Kernel as _;
use crate::netlink::NetlinkKernel;
use crate::program::ProgramConfig;

#[test]
fn rows_of_every_kind_come_back_as_they_were_written() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = NetlinkKernel::open(&config).unwrap();
        kernel.commit(&everything(&config, &Family::ALL)).unwrap();
        let state = kernel.read().unwrap();
        for family in Family::ALL {
            let table = state.table(family).unwrap();
            assert_eq!(table.damage, Vec::<String>::new());
            assert_eq!(table.strays, []);
            let (mut read, mut written) = (table.rows.clone(), rows(family));
            read.sort();
            written.sort();
            assert_eq!(read, written);
            let remembered = kernel.read_affinity(family).unwrap();
            let [row] = remembered[..] else { panic!("{remembered:?}") };
            assert!((5_300_000..=5_400_000).contains(&row.expires_ms), "{row:?}");
            assert_eq!(
                row,
                crate::rows::AffinityRow { expires_ms: row.expires_ms, ..affinity(family) }
            );
        }
    });
}
