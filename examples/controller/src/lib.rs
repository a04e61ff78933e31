//! A congestion-avoidance algorithm outside of longhaul: GAIMD (Yang and Lam, General AIMD Congestion Control, ICNP 2000).
//!
//! After a loss it keeps the fraction `keep` of its window, and it grows by so much less than NewReno per round trip that
//! both have the same throughput. A larger `keep` makes the rate smoother.
//!
//! [`register`] adds the name `gaimd` to those that can be used in text, such as `"slow-start+gaimd(keep=0.9)"`, by programs,
//! their command lines, and experiments of the laboratory.

use longhaul_cc::compose::{AvoidanceStep, CongestionAvoidance, CongestionEvent, Stage, Target, Window};
use longhaul_cc::compose::{ECN_BETA, additive};
use longhaul_cc::registry::{self, Entry, OptionSpec};
use longhaul_cc::{Ack, Path, options};
use longhaul_units::Bytes;

options! {
    /// The parameter of GAIMD.
    struct Config {
        /// Fraction of the window that is kept after a loss. The paper recommends 7/8.
        keep: f64 = OptionSpec::float("keep", 0.5, 0.95, 0.875, "fraction of the window kept after a loss"),
        _ = ECN_BETA,
    }
}

static ENTRY: Entry = Entry::avoidance("gaimd", |values| Box::new(Gaimd::new(Config::from_values(values).keep)))
    .described("decreases less than NewReno, and increases less", "Yang and Lam, ICNP 2000")
    .with_options(Config::OPTIONS)
    .internet_safe();

/// Makes `gaimd` known to this process. Call it once, at the start of `main`.
///
/// # Errors
/// Returns an error if the name is taken.
pub fn register() -> anyhow::Result<()> {
    Ok(registry::register(&[&ENTRY], &[])?)
}

/// GAIMD congestion avoidance.
#[derive(Clone, Debug)]
pub struct Gaimd {
    keep: f64,
    /// Increase per round trip in segments.
    increase: f64,
}

impl Gaimd {
    /// Creates the algorithm, which keeps the fraction `keep` of the window after a loss.
    #[must_use]
    pub fn new(keep: f64) -> Self {
        // The increase with which the throughput is that of NewReno (RFC 9438, section 4.3).
        Self { keep, increase: 3.0 * (1.0 - keep) / (1.0 + keep) }
    }
}

impl Stage for Gaimd {}

impl CongestionAvoidance for Gaimd {
    fn on_ack(&mut self, _: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        additive(window, self.increase, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, self.keep, path.mss)
    }
}
