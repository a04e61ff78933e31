//! What a run takes of the machine.

use std::fs;

use crate::stopwatch::{ProcessorTime, Stopwatch, processor_seconds};

/// Since when it is counted, on the thread that is to be counted apart.
pub(super) struct Meter {
    clock: Stopwatch,
    processor: f64,
    here: ProcessorTime,
}

impl Meter {
    pub(super) fn start() -> Self {
        // Where that may not be done, the most memory is that of earlier runs, too (proc_pid_clear_refs(5)).
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { clock: Stopwatch::start(), processor: processor_seconds(), here: ProcessorTime::start() }
    }

    /// Seconds of the clock, of processors, and of that what this thread had.
    pub(super) fn seconds(&self) -> [f64; 3] {
        [self.clock.seconds(), processor_seconds() - self.processor, self.here.seconds()]
    }
}

/// The most memory that the process had, bytes (proc_pid_status(5)).
pub(super) fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
