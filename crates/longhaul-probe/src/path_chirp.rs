//! pathChirp: the available bandwidth of a path from trains whose rate rises as they go.

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
/// The gaps of a chirp shrink by a factor, so that each chirp tries all rates of a range. Where queueing delays begin to
/// rise and do not fall again, the rate is that which is available; rises that fall again show cross traffic on the way. A
/// weighted mean over the gaps is a chirp's estimate, the mean of the last chirps the session's.
///
/// A chirp of the default range, a fifth to three times the estimate, has 16 or 17 packets. It converges after 20 to 200
/// chirps at a twentieth of the rate measured. The range goes from the rate before the one at which delays rise to the one at
/// which they rise by more than noise, and has the means' 95 % confidence intervals beside; the confidence is one less its
/// width as a part of its upper end.
#[derive(Clone, Debug)]
pub struct PathChirp(Turns<Procedure>);

method_of_turns!(PathChirp, PathChirpConfig);
