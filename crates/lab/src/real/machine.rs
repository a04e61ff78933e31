//! Resource usage of a run.

use std::fs;

use crate::stopwatch::{ProcessorTime, Stopwatch, processor_seconds};

/// Resource usage since its start.
pub(super) struct Meter {
    clock: Stopwatch,
    processor: f64,
    here: ProcessorTime,
    waited: f64,
}

/// Wall-clock seconds, processor seconds of the process and of this thread, and seconds for which this thread was
/// ready to run but had no processor.
pub(super) struct Usage {
    pub(super) seconds: f64,
    pub(super) processor_seconds: f64,
    pub(super) ends_processor_seconds: f64,
    pub(super) waited_seconds: f64,
}

impl Meter {
    pub(super) fn start() -> Self {
        // Without permission to reset the peak memory, it includes earlier runs (proc_pid_clear_refs(5)).
        let _ = fs::write("/proc/self/clear_refs", "5");
        let (processor, waited) = (processor_seconds(), waited_seconds());
        Self { clock: Stopwatch::start(), processor, here: ProcessorTime::start(), waited }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            seconds: self.clock.seconds(),
            processor_seconds: processor_seconds() - self.processor,
            ends_processor_seconds: self.here.seconds(),
            waited_seconds: waited_seconds() - self.waited,
        }
    }
}

/// Returns the seconds for which this thread waited for a processor: the second number of schedstat (Linux,
/// Documentation/scheduler/sched-stats.rst), or 0 if the kernel does not count.
fn waited_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().nth(1).and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.map_or(0.0, |nanos| nanos * 1e-9)
}

/// Returns the peak memory of the process in bytes (proc_pid_status(5)).
pub(super) fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
