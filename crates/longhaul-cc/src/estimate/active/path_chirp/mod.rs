//! pathChirp: the available bandwidth of a path from trains whose rate rises as they go.

mod config;
mod procedure;
pub mod rules;
#[cfg(test)]
mod tests;

use longhaul_units::Time;

pub use config::PathChirpConfig;
use procedure::Procedure;

use super::options::InvalidOption;
use super::turns::Turns;
use super::{Estimate, Method, Next, TrainReport};

/// Measures available bandwidth with chirps (V. Ribeiro, R. Riedi, R. Baraniuk, J. Navratil, L. Cottrell, pathChirp:
/// efficient available bandwidth estimation for network paths, PAM 2003).
///
/// The gaps of a chirp shrink by a factor, so that each chirp tries all rates of a range. Where queueing delays begin to
/// rise and do not fall again, the rate is that which is available; rises that fall again show cross traffic on the way. A
/// weighted mean over the gaps is a chirp's estimate, the mean of the last chirps the session's.
///
/// A chirp of the default range, a fifth to three times the estimate, has 16 or 17 packets. It converges after 20 to 200
/// chirps at a twentieth of the rate measured. The range is the mean's 95 % confidence interval, and the confidence one less
/// its half-width as a part of the mean.
#[derive(Clone, Debug)]
pub struct PathChirp {
    turns: Turns,
    procedure: Procedure,
}

impl PathChirp {
    /// A session with `config`.
    ///
    /// # Errors
    ///
    /// An option is out of its range.
    pub fn new(config: PathChirpConfig) -> Result<Self, InvalidOption> {
        config.check()?;
        Ok(Self { turns: Turns::new(config.limits), procedure: Procedure::new(config) })
    }
}

impl Method for PathChirp {
    fn name(&self) -> &'static str {
        "pathchirp"
    }

    fn poll(&mut self, now: Time) -> Next {
        self.turns.poll(now, &mut self.procedure)
    }

    fn on_report(&mut self, _now: Time, report: &TrainReport) {
        self.turns.on_report(report, &mut self.procedure);
    }

    fn estimate(&self) -> Estimate {
        self.procedure.estimate()
    }
}
