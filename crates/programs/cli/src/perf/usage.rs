//! Processor and memory use of this process.

use serde::{Deserialize, Serialize};

use crate::report::Stopwatch;

/// Processor time and memory at one point in time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Seconds on the clock of the test.
    at: f64,
    /// Processor time of all threads in user and kernel mode, in seconds.
    total: f64,
    user: f64,
    rss: u64,
}

/// Processor use between two readings, in percent of one processor, as in iperf3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// CPU use in user and kernel mode, in percent.
    pub total: f64,
    /// Use in user mode.
    pub user: f64,
    /// Use in kernel mode.
    pub system: f64,
}

impl Reading {
    /// Takes a reading of this process at the current time of `clock`. All other values are 0 on systems other than
    /// Linux.
    pub(crate) fn take(clock: Stopwatch) -> Self {
        let (total, user, rss) = read_process();
        Self { at: clock.elapsed().as_secs_f64(), total, user, rss }
    }

    pub(crate) fn since(&self, earlier: &Self) -> Cpu {
        let seconds = self.at - earlier.at;
        if seconds <= 0.0 {
            return Cpu::default();
        }
        let percent = |now: f64, then: f64| 100.0 * (now - then).max(0.0) / seconds;
        let total = percent(self.total, earlier.total);
        let user = percent(self.user, earlier.user).min(total);
        Cpu { total, user, system: total - user }
    }

    /// Returns the resident memory in bytes at the time of the reading.
    pub(crate) fn rss(&self) -> u64 {
        self.rss
    }
}

#[cfg(target_os = "linux")]
fn read_process() -> (f64, f64, u64) {
    let total = longhaul_sys::linux::process_cpu_time().as_secs_f64();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    (total, total * user_share(&stat).unwrap_or_default(), resident(&status).unwrap_or_default())
}

#[cfg(not(target_os = "linux"))]
fn read_process() -> (f64, f64, u64) {
    (0.0, 0.0, 0)
}

/// Returns the fraction of the processor time spent in user mode. The two times are in ticks, too coarse to be used
/// directly.
#[cfg(any(target_os = "linux", test))]
fn user_share(stat: &str) -> Option<f64> {
    // The name in parentheses may contain any characters. The third field follows it (proc_pid_stat(5)); user time is
    // the 14th field, kernel time the 15th.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    let (user, system) = (ticks()?, ticks()?);
    (user + system > 0.0).then(|| user / (user + system))
}

/// Returns `VmRSS` in bytes (proc_pid_status(5)).
#[cfg(any(target_os = "linux", test))]
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_even_with_an_odd_name() {
        let stat = "4 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 30 10 0 0";
        assert_eq!(user_share(stat), Some(0.75));
        assert_eq!(user_share("4 (x"), None);
        assert_eq!(resident("VmHWM:\t 9 kB\nVmRSS:\t    12 kB\n"), Some(12_288));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_and_memory_show() {
        let clock = Stopwatch::start();
        let before = Reading::take(clock);
        assert!(before.rss() > 0);
        let mut now = before;
        while now.total <= before.total {
            now = Reading::take(clock);
        }
        assert!(now.since(&before).total > 0.0);
    }
}
