//! Wall time, CPU time of this process, and CPU time of the whole machine.

use std::fs;

use anyhow::{Context, Result};
use longhaul_sys::linux::{monotonic_now, process_cpu_time};
use serde::{Deserialize, Serialize};

/// Ticks a second of `/proc/stat`: fixed by the kernel's interface to programs, whatever the kernel's own tick is.
const TICKS_PER_SECOND: f64 = 100.0;

/// A measurement under way.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    wall_ns: u64,
    cpu_s: f64,
    machine_s: f64,
}

/// What a [`Meter`] read between its start and its stop.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time, seconds.
    pub seconds: f64,
    /// CPU time of all threads of this process, user and kernel mode, seconds.
    pub cpu_s: f64,
    /// CPU time that the whole machine spent on anything but idling, seconds, good to 0.01 a CPU.
    pub machine_s: f64,
}

impl Meter {
    /// Starts.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn start() -> Result<Self> {
        let machine_s = machine_busy()?;
        Ok(Self { wall_ns: monotonic_now(), cpu_s: process_cpu_time().as_secs_f64(), machine_s })
    }

    /// What was used since the start.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn stop(&self) -> Result<Usage> {
        Ok(Usage {
            seconds: seconds_since(self.wall_ns),
            cpu_s: process_cpu_time().as_secs_f64() - self.cpu_s,
            machine_s: machine_busy()? - self.machine_s,
        })
    }
}

/// Seconds since `start`, a value of [`monotonic_now`].
#[must_use]
pub fn seconds_since(start: u64) -> f64 {
    monotonic_now().saturating_sub(start) as f64 / 1e9
}

/// Seconds of CPU time spent on anything but idling by all CPUs since boot. Time that a hypervisor gave to others
/// counts as spent: it was not ours to use.
fn machine_busy() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is contained in user and nice (proc_stat(5)).
    let ticks: Vec<f64> = all.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks[..] else {
        anyhow::bail!("unknown format of /proc/stat: {all}");
    };
    Ok((user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND)
}

/// Memory of this process that is resident, bytes.
///
/// # Errors
/// `/proc/self/status` cannot be read.
pub fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().context("VmRSS")?;
    Ok(kib * 1024)
}
