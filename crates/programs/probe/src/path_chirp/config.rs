//! Options of pathChirp.

use longhaul_units::{Bytes, Rate, Span};

use super::rules::ExcursionRule;
use crate::options::options;
use crate::turns::Limits;

options! {
    /// Options of [`PathChirp`](super::PathChirp), with their ranges and defaults. Sizes are those of IP packets.
    pub struct PathChirpConfig[""] {
        /// Packet size: 60 B to 64 KiB, 1200 B by default.
        size: Bytes = Bytes(1200), 60.0..=65_536.0;
        /// Ratio of successive gaps: 1.01 to 2, 1.2 by default.
        spread: f64 = 1.2, 1.01..=2.0;
        /// Highest rate of the first chirps: 1 kB/s to 1 TB/s, 200 Mb/s by default.
        high: Rate = Rate::from_bits_per_sec(200_000_000), 1e3..=1e12;
        /// Lowest rate of the first chirps: 1 kB/s to `high`, 1 Mb/s by default.
        low: Rate = Rate::from_bits_per_sec(1_000_000), 1e3..=high;
        /// Lowest rate of later chirps relative to the estimate: 0.01 to 0.9, 0.2 by default.
        below: f64 = 0.2, 0.01..=0.9;
        /// Highest rate of later chirps relative to the estimate: 1.1 to 100, 3 by default.
        above: f64 = 3.0, 1.1..=100.0;
        /// Number of first chirps, which only find the range of rates: 0 to 1000, 5 by default.
        warm_up: u32 = 5, 0.0..=1000.0;
        /// Load of all chirps relative to the estimate: 0.001 to 1, 0.05 by default.
        load: f64 = 0.05, 0.001..=1.0;
        /// Longest rest between chirps: 1 ms to 60 s, 1 s by default.
        most_rest: Span = Span::from_secs(1), 0.001..=60.0;
        /// Number of chirps over which the estimate is the mean: 2 to 10,000, 200 by default.
        window: u32 = 200, 2.0..=10_000.0;
        /// Least number of chirps for convergence: 2 to 10,000, 20 by default.
        least: u32 = 20, 2.0..=10_000.0;
        /// Half-width of the 95 % confidence interval for convergence, relative to the mean: 0.001 to 1, 0.1 by
        /// default.
        half_width: f64 = 0.1, 0.001..=1.0;
        /// Number of chirps that ends the session: 1 to 100,000, 400 by default.
        chirps: u32 = 400, 1.0..=100_000.0;
        /// Definition of excursions and of valid chirps.
        excursions: ExcursionRule = ExcursionRule::default();
        /// Conditions under which the session gives up.
        limits: Limits = Limits::default();
    }
}

impl PathChirpConfig {
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        Self { size: self.size.min(largest), ..self }
    }
}
