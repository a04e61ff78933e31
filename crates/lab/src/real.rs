//! Runs of a cell in real time: sockets at both ends of the emulated link, in this process.
//!
//! The link is a UDP relay, or, in experiments with `real-time = true`, a network namespace behind two devices, which
//! also the kernel's TCP can cross. Two runs with the same seed differ, because they depend on the real clock and on
//! the load of the computer. [`check`] returns whether a cell can be run in real time, and [`untold`] which metrics
//! cannot be measured with real sockets.

mod fit;
#[cfg(target_os = "linux")]
mod flow;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod series;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod traffic;
#[cfg(target_os = "linux")]
mod transfer;

use anyhow::{Result, bail};
use serde::Serialize;

pub use fit::{MOST_FLOWS, MOST_RATE, Misfit, check, fits, untold};

use crate::experiment::CellSetup;
use crate::record::Record;

/// Result of a run in real time.
#[derive(Clone, Debug)]
pub struct Run {
    /// The record, as of a run in virtual time, but without series.
    pub record: Record,
    /// Resources that the run used.
    pub effort: Effort,
}

/// Resources that a run used. Both ends, the relay between them and cross traffic are one process. Field names are
/// those of the JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Effort {
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Processor seconds of all threads.
    pub processor_seconds: f64,
    /// Processor seconds of both ends of all flows, which share a thread.
    pub ends_processor_seconds: f64,
    /// Bytes that the receiving applications read, of all flows together.
    pub read_bytes: u64,
    /// Peak memory of the process in bytes, or `None` if the system does not report it.
    pub memory_bytes: Option<u64>,
    /// 99th percentile of the lateness, in seconds, of the relay or of cross traffic, whichever is larger.
    pub lateness_seconds: f64,
    /// Datagrams that sockets dropped outside the emulated link.
    pub lost_datagrams: u64,
    /// Seconds for which a sender had data to send but no processor; the maximum over the senders.
    pub starved_seconds: f64,
    /// Seconds for which the thread of both ends was ready to run, but had no processor.
    pub waited_seconds: f64,
    /// Errors of connections.
    pub failures: Vec<String>,
}

impl Effort {
    /// Maximum lateness of the relay at the 99th percentile, in seconds.
    const TOO_LATE: f64 = 0.001;
    /// Maximum fraction of the run for which a sender may lack a processor.
    const STARVED: f64 = 0.01;
    /// Maximum fraction of the run for which the thread of both ends may wait for a processor.
    const WAITED: f64 = 0.25;

    /// Returns whether the machine was fast enough for the results to be valid.
    #[must_use]
    pub fn kept_up(&self) -> bool {
        self.disturbance() <= 1.0
    }

    /// Returns the largest ratio of a disturbance to its maximum, which is infinite if datagrams were lost outside the
    /// link.
    fn disturbance(&self) -> f64 {
        let of_run = |seconds: f64, most: f64| if seconds > 0.0 { seconds / (most * self.seconds) } else { 0.0 };
        let lost = if self.lost_datagrams > 0 { f64::INFINITY } else { 0.0 };
        let late = self.lateness_seconds / Self::TOO_LATE;
        let kept = of_run(self.starved_seconds, Self::STARVED).max(of_run(self.waited_seconds, Self::WAITED));
        late.max(kept).max(lost)
    }

    /// Returns the processor seconds of both ends per gigabyte (10^9 bytes) read, or `None` if nothing was read.
    #[must_use]
    pub fn ends_per_gigabyte(&self) -> Option<f64> {
        (self.read_bytes > 0).then(|| self.ends_processor_seconds / (self.read_bytes as f64 * 1e-9))
    }
}

/// Maximum number of repetitions of a disturbed run.
const REPEATS: usize = 2;

/// Runs the cell with this index, and repeats the run if the machine was too slow for it. The record is that of the
/// least disturbed run, and says whether this was disturbed, too.
///
/// # Errors
/// Returns the errors of [`run`], or that of a connection.
pub fn record(setup: &CellSetup, cell: usize, seed: u64) -> Result<Record> {
    let best = least_disturbed(|| run(setup, cell, seed))?;
    if let Some(failure) = best.effort.failures.first() {
        bail!("a connection failed: {failure}");
    }
    let disturbed = !best.effort.kept_up();
    Ok(Record { disturbed, ..best.record })
}

/// Makes a run, and repeats it at most [`REPEATS`] times while the least disturbed one was disturbed.
fn least_disturbed(mut make: impl FnMut() -> Result<Run>) -> Result<Run> {
    let mut best = make()?;
    for _ in 0..REPEATS {
        if best.effort.kept_up() {
            break;
        }
        let again = make()?;
        if again.effort.disturbance() < best.effort.disturbance() {
            best = again;
        }
    }
    Ok(best)
}

/// Runs the cell with this index, if it can be run in real time.
///
/// # Errors
/// Returns why the cell cannot be run in real time, or an error of the system.
#[cfg(target_os = "linux")]
pub fn run(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    check(setup)?;
    transfer::run(setup, cell, seed)
}

/// Fails, because the relay needs Linux.
///
/// # Errors
/// Always returns an error.
#[cfg(not(target_os = "linux"))]
pub fn run(setup: &CellSetup, _: usize, _: u64) -> Result<Run> {
    check(setup)?;
    bail!(Misfit::System)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(lateness_seconds: f64, starved_seconds: f64, waited_seconds: f64, lost_datagrams: u64) -> Effort {
        let seconds = 10.0;
        Effort { seconds, lateness_seconds, starved_seconds, waited_seconds, lost_datagrams, ..Effort::default() }
    }

    #[test]
    fn late_and_starved_and_lossy_runs_are_disturbed() {
        let efforts =
            [(9e-4, 0.09, 2.4, 0), (1.1e-3, 0.0, 0.0, 0), (0.0, 0.11, 0.0, 0), (0.0, 0.0, 2.6, 0), (0.0, 0.0, 0.0, 1)];
        let kept_up = efforts.map(|(late, starved, waited, lost)| effort(late, starved, waited, lost).kept_up());
        assert_eq!(kept_up, [true, false, false, false, false]);
    }

    #[test]
    fn disturbed_runs_are_repeated_and_the_least_disturbed_counts() {
        let chosen = |lateness: &[f64]| {
            let mut made = 0;
            let run = least_disturbed(|| {
                made += 1;
                Ok(Run { record: Record::default(), effort: effort(lateness[made - 1], 0.0, 0.0, 0) })
            });
            (run.unwrap().effort.lateness_seconds, made)
        };
        assert_eq!(chosen(&[0.0]), (0.0, 1));
        assert_eq!(chosen(&[0.3, 0.0]), (0.0, 2));
        assert_eq!(chosen(&[0.3, 0.2, 0.4]), (0.2, 3));
    }
}
