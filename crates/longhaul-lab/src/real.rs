//! Runs of a cell in real time: longhaul's own sockets at both ends of the emulated link, in this process.
//!
//! Two runs with the same seed differ, because they depend on the real clock and on the load of the computer.
//! [`check`] returns whether a cell can be run in real time, and [`untold`] which metrics cannot be measured with
//! real sockets.

mod fit;
#[cfg(target_os = "linux")]
mod flow;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod traffic;
#[cfg(target_os = "linux")]
mod transfer;

use anyhow::Result;
use serde::Serialize;

pub use fit::{MOST_FLOWS, MOST_RATE, Misfit, check, untold};

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
    /// Errors of connections.
    pub failures: Vec<String>,
}

impl Effort {
    /// Maximum lateness of the relay at the 99th percentile, in seconds.
    const TOO_LATE: f64 = 0.001;
    /// Maximum fraction of the run for which a sender may lack a processor.
    const STARVED: f64 = 0.01;

    /// Returns whether the machine was fast enough for the results to be valid.
    #[must_use]
    pub fn kept_up(&self) -> bool {
        self.lost_datagrams == 0
            && self.lateness_seconds <= Self::TOO_LATE
            && self.starved_seconds <= Self::STARVED * self.seconds
    }

    /// Returns the processor seconds of both ends per gigabyte (10^9 bytes) read, or `None` if nothing was read.
    #[must_use]
    pub fn ends_per_gigabyte(&self) -> Option<f64> {
        (self.read_bytes > 0).then(|| self.ends_processor_seconds / (self.read_bytes as f64 * 1e-9))
    }
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
    anyhow::bail!(Misfit::System)
}
