//! Wall-clock and processor time of the program, which are not part of an experiment.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a run takes is the computer's time, and no part of the run"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Measures the processor time of the current thread. On systems other than Linux, it measures wall-clock time.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorTime(f64);

#[cfg(target_os = "linux")]
impl ProcessorTime {
    pub(crate) fn start() -> Self {
        Self(Self::now())
    }

    pub(crate) fn seconds(self) -> f64 {
        Self::now() - self.0
    }

    fn now() -> f64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
    }
}

/// Returns the processor seconds of all threads of the process.
#[cfg(target_os = "linux")]
pub(crate) fn processor_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

#[cfg(not(target_os = "linux"))]
pub(crate) type ProcessorTime = Stopwatch;
