//! pathChirp: available bandwidth from trains whose rate rises from packet to packet.

mod procedure;
mod rules;
#[cfg(test)]
mod tests;

use procedure::Procedure;
pub use rules::ExcursionRule;

use longhaul_units::{Bytes, Rate, Span};

use crate::options::options;
use crate::turns::{Limits, Turns, method_of_turns};

/// Measures available bandwidth with chirps (V. Ribeiro, R. Riedi, R. Baraniuk, J. Navratil, L. Cottrell, pathChirp:
/// efficient available bandwidth estimation for network paths, PAM 2003).
///
/// Each gap of a chirp is shorter than the one before by a constant factor, so that a chirp covers a range of rates.
/// The rate at which queueing delays start to rise and do not fall again is the available bandwidth; delays that rise
/// and fall again show bursts of cross traffic. The estimate of a chirp is a weighted mean over its gaps, and the
/// estimate of the session is the mean over the last chirps.
///
/// With the default range, from a fifth of the estimate to three times the estimate, a chirp has 16 or 17 packets. The
/// session converges after 20 to 200 chirps, which take one twentieth of the measured rate. The range of the estimate
/// starts one rate step below the rate at which delays rise, and ends at the rate at which they rise by more than
/// noise; both ends include the 95 % confidence intervals of the means. The confidence is 1 minus the width of the
/// range relative to its upper end.
#[derive(Clone, Debug)]
pub struct PathChirp(Turns<Procedure>);

method_of_turns!(PathChirp, PathChirpConfig);

options! {
    /// Options of [`PathChirp`], with their ranges and defaults. Sizes are those of IP packets.
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
