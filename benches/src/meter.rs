//! Wall time, CPU time of this process, and CPU time of the whole machine.

use std::fs;

use anyhow::{Context, Result};
use longhaul_sys::linux::{monotonic_now, process_cpu_time};
use serde::{Deserialize, Serialize};

/// Ticks per second in `/proc/stat` (`USER_HZ`), which do not depend on the kernel's timer frequency.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running measurement.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    wall_ns: u64,
    cpu_s: f64,
    machine_s: f64,
}

/// Resource usage between start and stop of a [`Meter`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// CPU time of all threads of this process in seconds, in user and kernel mode.
    pub cpu_s: f64,
    /// CPU time of the whole machine in seconds, without idle time, with an error of 0.01 s per CPU.
    pub machine_s: f64,
}

impl Meter {
    /// Starts a measurement.
    ///
    /// # Errors
    /// Returns an error if `/proc/stat` cannot be read.
    pub fn start() -> Result<Self> {
        let machine_s = machine_busy()?;
        Ok(Self { wall_ns: monotonic_now(), cpu_s: process_cpu_time().as_secs_f64(), machine_s })
    }

    /// Returns the usage since the start.
    ///
    /// # Errors
    /// Returns an error if `/proc/stat` cannot be read.
    pub fn stop(&self) -> Result<Usage> {
        Ok(Usage {
            seconds: seconds_since(self.wall_ns),
            cpu_s: process_cpu_time().as_secs_f64() - self.cpu_s,
            machine_s: machine_busy()? - self.machine_s,
        })
    }
}

/// Returns the seconds since `start`, a value of [`monotonic_now`].
#[must_use]
pub fn seconds_since(start: u64) -> f64 {
    monotonic_now().saturating_sub(start) as f64 / 1e9
}

/// Returns the CPU seconds of all CPUs since boot, without idle time. Steal time is included, because it was not
/// available to this machine.
fn machine_busy() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq, steal; user and nice include the fields after them (proc_stat(5)).
    let ticks: Vec<f64> = all.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks[..] else {
        anyhow::bail!("unknown format of /proc/stat: {all}");
    };
    Ok((user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND)
}

/// Returns the resident memory of this process in bytes.
///
/// # Errors
/// Returns an error if `/proc/self/status` cannot be read.
pub fn resident() -> Result<u64> {
    resident_of("self")
}

/// Returns the resident memory of a process, named as in `/proc`, in bytes.
///
/// # Errors
/// Returns an error if its file in `/proc` cannot be read.
pub(crate) fn resident_of(process: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("reading the status of a process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().context("VmRSS")?;
    Ok(kib * 1024)
}

/// Returns the CPU time of a process in seconds, in user and kernel mode, in steps of 0.01 s.
///
/// # Errors
/// Returns an error if its file in `/proc` cannot be read.
pub(crate) fn cpu_of(process: &str) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).context("reading the times of a process")?;
    // The name, in parentheses, may contain spaces. utime and stime are the 12th and 13th field after it (proc_pid_stat(5)).
    let (_, rest) = stat.rsplit_once(')').context("unknown format of /proc/PID/stat")?;
    let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}
