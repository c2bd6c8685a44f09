//! Prometheus' customary metrics of a process, read from `/proc` when asked for.

use nix::unistd::{SysconfVar, sysconf};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::moment::Moment;

/// Reads `/proc/self` at each scrape.
#[derive(Debug)]
pub(super) struct Process {
    start: Moment,
}

/// What `/proc/self` says.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_files: u64,
}

impl Process {
    /// Of a process that started at `start`.
    pub(super) fn new(start: Moment) -> Self {
        Self { start }
    }
}

/// Resident memory of this process in bytes; `None` if `/proc` does not say.
pub fn resident_bytes() -> Option<u64> {
    usage().map(|usage| usage.resident_bytes)
}

fn usage() -> Option<Usage> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let number = |var, default| sysconf(var).ok().flatten().map_or(default, i64::unsigned_abs);
    let ticks = number(SysconfVar::CLK_TCK, 100);
    let page = number(SysconfVar::PAGE_SIZE, 4096);
    parse(&stat, ticks, page, files as u64)
}

/// Fields of `/proc/pid/stat`; the name in parentheses may hold anything.
fn parse(stat: &str, ticks_per_second: u64, page_size: u64, open_files: u64) -> Option<Usage> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first field here is number 3 of the manual page.
    let field = |number: usize| fields.get(number - 3)?.parse::<u32>().ok();
    let large = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = f64::from(field(14)?) + f64::from(field(15)?);
    let per_second = f64::from(u32::try_from(ticks_per_second).ok()?);
    Some(Usage {
        cpu_seconds: ticks / per_second,
        virtual_bytes: large(23)?,
        resident_bytes: large(24)?.checked_mul(page_size)?,
        open_files,
    })
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(usage) = usage() else { return Ok(()) };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        let name = "process_cpu_seconds";
        let help = "User and system CPU time in seconds";
        cpu.encode(encoder.encode_descriptor(name, help, None, cpu.metric_type())?)?;
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory in bytes", usage.resident_bytes),
            ("process_virtual_memory_bytes", "Virtual memory in bytes", usage.virtual_bytes),
            ("process_open_fds", "Open file descriptors", usage.open_files),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let start = ConstGauge::new(self.start.unix_seconds());
        let name = "process_start_time_seconds";
        let help = "Start of the process in seconds since the epoch";
        start.encode(encoder.encode_descriptor(name, help, None, start.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 4 0 99 1048576 25 184467";
        let expected = Usage {
            cpu_seconds: 2.0,
            virtual_bytes: 1_048_576,
            resident_bytes: 102_400,
            open_files: 9,
        };
        assert_eq!(parse(stat, 100, 4096, 9), Some(expected));
        assert_eq!(parse("nothing", 100, 4096, 9), None);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_bytes() > Some(100_000));
    }
}
