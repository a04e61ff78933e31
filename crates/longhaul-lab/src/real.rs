//! Runs of a cell in real time: longhaul's own sockets on both sides of the emulated link, in this process.
//!
//! The clock is the computer's, and so is the work: two runs of a seed are not alike. What of an experiment fits that is said by [`check`],
//! what of it real sockets do not tell by [`untold`].

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

/// What a run in real time left.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its numbers, as a run in virtual time leaves them, without series.
    pub record: Record,
    /// What it took of the machine.
    pub effort: Effort,
}

/// What a run took of the machine: both ends, the relay between them and cross traffic are one process. Field names are those of the JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Effort {
    /// Seconds of the clock.
    pub seconds: f64,
    /// Seconds of processors, of all threads.
    pub processor_seconds: f64,
    /// Those of both ends of all flows, which have a thread of their own.
    pub ends_processor_seconds: f64,
    /// Bytes that the receivers' applications read, of all flows together.
    pub read_bytes: u64,
    /// The most memory that the process had, bytes; none where the system does not tell.
    pub memory_bytes: Option<u64>,
    /// What the relay, or cross traffic where that is worse, was late by, at the 99th percentile, seconds.
    pub lateness_seconds: f64,
    /// Datagrams that sockets lost beside the link.
    pub lost_datagrams: u64,
    /// Seconds for which a sender had more to send and no processor for it: the most of any.
    pub starved_seconds: f64,
    /// What connections failed of.
    pub failures: Vec<String>,
}

impl Effort {
    /// Later than that at the 99th percentile, the relay was too slow, seconds.
    const TOO_LATE: f64 = 0.001;
    /// What of the run a sender may be without a processor.
    const STARVED: f64 = 0.01;

    /// Whether the machine was fast enough for the run to mean something.
    #[must_use]
    pub fn kept_up(&self) -> bool {
        self.lost_datagrams == 0
            && self.lateness_seconds <= Self::TOO_LATE
            && self.starved_seconds <= Self::STARVED * self.seconds
    }

    /// Seconds of processors that both ends took for a gigabyte (10^9 bytes) read; none if nothing was.
    #[must_use]
    pub fn ends_per_gigabyte(&self) -> Option<f64> {
        (self.read_bytes > 0).then(|| self.ends_processor_seconds / (self.read_bytes as f64 * 1e-9))
    }
}

/// Runs the cell of that place, if it fits.
///
/// # Errors
/// Why it does not fit, or the system's.
#[cfg(target_os = "linux")]
pub fn run(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    check(setup)?;
    transfer::run(setup, cell, seed)
}

/// Runs nothing: the relay needs Linux.
///
/// # Errors
/// Always that.
#[cfg(not(target_os = "linux"))]
pub fn run(setup: &CellSetup, _: usize, _: u64) -> Result<Run> {
    check(setup)?;
    anyhow::bail!(Misfit::System)
}
