//! Congestion-avoidance algorithm in another crate than longhaul: GAIMD (Yang and Lam, General AIMD Congestion Control,
//! ICNP 2000).
//!
//! After a loss, the window is multiplied by `keep`. Between losses, it grows more slowly than NewReno's, so that the
//! throughput equals that of NewReno. A larger `keep` makes the rate smoother.
//!
//! [`register`] adds `gaimd` to the names that programs, their command lines and experiments of the laboratory accept
//! in compositions such as `"slow-start+gaimd(keep=0.9)"`.

use longhaul_cc::compose::{AvoidanceStep, CongestionAvoidance, CongestionEvent, Stage, Target, Window};
use longhaul_cc::compose::{ECN_BETA, additive};
use longhaul_cc::registry::{self, Entry, OptionSpec};
use longhaul_cc::{Ack, Path, options};
use longhaul_units::Bytes;

options! {
    /// Option of `gaimd` in a composition.
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

/// Registers `gaimd` in this process. Call this once, at the start of `main`.
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
    /// Creates the algorithm. After a loss, the window is multiplied by `keep`.
    #[must_use]
    pub fn new(keep: f64) -> Self {
        // With this increase, the throughput equals that of NewReno (RFC 9438, section 4.3).
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
