#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn leaving_all_alone() -> Conntrack {
    Conntrack {
        max_per_core: 0,
        min: 0,
        tcp_established_timeout: Duration::ZERO,
        tcp_close_wait_timeout: Duration::ZERO,
        tcp_be_liberal: false,
        udp_timeout: Duration::ZERO,
        udp_stream_timeout: Duration::ZERO,
    }
}

/// A machine with these settings.
struct Machine(tempfile::TempDir);

impl Machine {
    fn with(files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            let path = machine.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        machine
    }

    fn apply(&self, conntrack: &Conntrack) -> Result<Made, SysctlError> {
        apply_below(self.0.path(), conntrack, 4)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).unwrap()
    }
}

#[test]
fn nothing_is_set_that_is_to_be_left_alone() {
    assert_eq!(settings(&leaving_all_alone(), 4), []);
}

#[test]
fn every_setting_has_its_file() {
    let second = Duration::from_secs(1);
    let conntrack = Conntrack {
        max_per_core: 100_000,
        min: 0,
        tcp_established_timeout: second * 86_400,
        tcp_close_wait_timeout: second * 3_600,
        tcp_be_liberal: true,
        udp_timeout: Duration::from_millis(10),
        udp_stream_timeout: second * 120,
    };
    let all: Vec<(&str, u64)> = settings(&conntrack, 4)
        .iter()
        .map(|s| (s.path.rsplit('/').next().unwrap(), s.value))
        .collect();
    assert_eq!(
        all,
        [
            ("hashsize", 100_000),
            ("nf_conntrack_max", 400_000),
            ("nf_conntrack_tcp_timeout_established", 86_400),
            ("nf_conntrack_tcp_timeout_close_wait", 3_600),
            ("nf_conntrack_udp_timeout", 1),
            ("nf_conntrack_udp_timeout_stream", 120),
            ("nf_conntrack_tcp_be_liberal", 1),
        ]
    );
}

#[test]
fn only_what_differs_is_written_and_the_hash_table_never_shrinks() {
    let conntrack = Conntrack { max_per_core: 1_000, min: 0, ..leaving_all_alone() };
    for (hash_before, max_before, hash, max) in [
        ("100\n", "65536\n", "1000", "4000"),
        ("1000\n", "4000\n", "1000\n", "4000\n"),
        ("99999\n", "4000\n", "99999\n", "4000\n"),
    ] {
        let machine = Machine::with(&[(HASH_SIZE, hash_before), (MAX, max_before)]);
        machine.apply(&conntrack).unwrap();
        assert_eq!((machine.text(HASH_SIZE), machine.text(MAX)), (hash.into(), max.into()));
    }
}

/// C43: the module is not loaded, so there are no files.
#[test]
fn a_kernel_without_connection_tracking_is_no_failure() {
    let conntrack = Conntrack { max_per_core: 1_000, tcp_be_liberal: true, ..leaving_all_alone() };
    let machine = Machine::with(&[]);
    machine.apply(&conntrack).unwrap();
    let missing = Path::new("/proc/sys/net/netfilter/no_such_setting");
    assert_eq!(write(missing, &settings(&conntrack, 4)[0]).unwrap(), Outcome::Missing);
}

#[test]
fn what_cannot_be_set_is_said_with_the_way_out() {
    let conntrack = Conntrack { max_per_core: 1_000, ..leaving_all_alone() };
    let machine = Machine::with(&[(HASH_SIZE, "1000"), (MAX, "many\n")]);
    let error = machine.apply(&conntrack).unwrap_err().to_string();
    assert!(error.ends_with("nf_conntrack_max: \"many\" is not a number"), "{error}");
    // The kernel takes nothing but numbers here.
    let setting = Setting {
        path: "",
        value: u64::MAX,
        at_least: false,
        left_alone_by: "--conntrack-max-per-core=0",
    };
    let error = write(Path::new("/proc/self/oom_score_adj"), &setting).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot set /proc/self/oom_score_adj to 18446744073709551615"),
        "{text}"
    );
    assert!(text.ends_with("leave the setting alone with --conntrack-max-per-core=0"), "{text}");
}

#[test]
fn a_file_that_nobody_can_write_is_left_as_it_is() {
    // Read-only on every machine, for root too.
    let path = Path::new("/proc/sys/kernel/ngroups_max");
    let is = read_number(path).unwrap().unwrap();
    let setting =
        Setting { path: "", value: is + 1, at_least: false, left_alone_by: "--conntrack-min=0" };
    assert_eq!(write(path, &setting).unwrap(), Outcome::ReadOnly(is));
}
