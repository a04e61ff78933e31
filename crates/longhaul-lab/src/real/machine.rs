//! Resource usage of a run.

use std::fs;

use crate::stopwatch::{ProcessorTime, Stopwatch, processor_seconds};

/// Resource usage since its start, with the processor time of the current thread separately.
pub(super) struct Meter {
    clock: Stopwatch,
    processor: f64,
    here: ProcessorTime,
}

impl Meter {
    pub(super) fn start() -> Self {
        // Without permission to reset the peak memory, it includes earlier runs (proc_pid_clear_refs(5)).
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { clock: Stopwatch::start(), processor: processor_seconds(), here: ProcessorTime::start() }
    }

    /// Returns wall-clock seconds, processor seconds of the process, and those of this thread.
    pub(super) fn seconds(&self) -> [f64; 3] {
        [self.clock.seconds(), processor_seconds() - self.processor, self.here.seconds()]
    }
}

/// Returns the peak memory of the process in bytes (proc_pid_status(5)).
pub(super) fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
