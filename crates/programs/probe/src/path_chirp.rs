//! pathChirp: available bandwidth from trains whose rate rises from packet to packet.

mod config;
mod procedure;
mod rules;
#[cfg(test)]
mod tests;

pub use config::PathChirpConfig;
use procedure::Procedure;
pub use rules::ExcursionRule;

use crate::turns::{Turns, method_of_turns};

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
