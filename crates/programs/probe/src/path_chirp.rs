//! pathChirp: available bandwidth from trains whose rate rises from packet to packet.
//!
//! Measures available bandwidth with chirps (V. Ribeiro, R. Riedi, R. Baraniuk, J. Navratil, L. Cottrell, pathChirp:
//! efficient available bandwidth estimation for network paths, PAM 2003).
//!
//! Each gap of a chirp is shorter than the previous one by a constant factor, so that a chirp covers a range of rates.
//! The rate at which queueing delays start to rise and do not fall again is the available bandwidth; delays that rise
//! and fall again show bursts of cross traffic. The estimate of a chirp is a weighted mean over its gaps, and the
//! estimate of the session is the mean over the last chirps.
//!
//! With the default range, from a fifth of the estimate to three times the estimate, a chirp has 16 or 17 packets. The
//! session converges after 20 to 200 chirps, which take one twentieth of the measured rate. The range of the estimate
//! starts one rate step below the rate at which delays rise, and ends at the rate at which they rise by more than
//! noise; both ends include the 95 % confidence intervals of the means. The confidence is 1 minus the width of the
//! range relative to its upper end.

mod procedure;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use procedure::Procedure;
use rules::ExcursionRule;

use longhaul_units::{Bytes, Rate, Span};

use crate::options::options;

options! {
    /// Constants of the method. Sizes are those of IP packets.
    pub(crate) struct PathChirpConfig {
        size: Bytes = Bytes(1200);
        /// Ratio of successive gaps.
        spread: f64 = 1.2;
        /// Highest rate of the first chirps.
        high: Rate = Rate::from_bits_per_sec(200_000_000);
        /// Lowest rate of the first chirps.
        low: Rate = Rate::from_bits_per_sec(1_000_000);
        /// Lowest rate of later chirps relative to the estimate.
        below: f64 = 0.2;
        /// Highest rate of later chirps relative to the estimate.
        above: f64 = 3.0;
        /// Number of initial chirps, which only find the range of rates.
        warm_up: u32 = 5;
        /// Load of all chirps relative to the estimate.
        load: f64 = 0.05;
        /// Longest rest between chirps.
        most_rest: Span = Span::from_secs(1);
        /// Number of chirps over which the estimate is averaged.
        window: u32 = 200;
        /// Minimum number of chirps for convergence.
        least: u32 = 20;
        /// Half-width of the 95 % confidence interval for convergence, relative to the mean.
        half_width: f64 = 0.1;
        /// Number of chirps that ends the session.
        chirps: u32 = 400;
        /// Definition of excursions and of valid chirps.
        excursions: ExcursionRule = ExcursionRule::default();
    }
}

impl PathChirpConfig {
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        Self { size: self.size.min(largest), ..self }
    }
}
