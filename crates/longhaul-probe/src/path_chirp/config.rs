//! Options of pathChirp.

use longhaul_units::{Bytes, Rate, Span};

use super::rules::ExcursionRule;
use crate::MethodKind;
use crate::options::{Checks, InvalidOption};
use crate::turns::Limits;

/// Options of [`PathChirp`](super::PathChirp), with their ranges and defaults. Sizes are those of IP packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathChirpConfig {
    /// Packet size: 60 B to 64 KiB, 1200 B by default.
    pub size: Bytes,
    /// Ratio of successive gaps: 1.01 to 2, 1.2 by default.
    pub spread: f64,
    /// Lowest rate of the first chirps: 1 kB/s to `high`, 1 Mb/s by default.
    pub low: Rate,
    /// Highest rate of the first chirps: 1 kB/s to 1 TB/s, 200 Mb/s by default.
    pub high: Rate,
    /// Lowest rate of later chirps relative to the estimate: 0.01 to 0.9, 0.2 by default.
    pub below: f64,
    /// Highest rate of later chirps relative to the estimate: 1.1 to 100, 3 by default.
    pub above: f64,
    /// Number of first chirps, which only find the range of rates: 0 to 1000, 5 by default.
    pub warm_up: u32,
    /// Load of all chirps relative to the estimate: 0.001 to 1, 0.05 by default.
    pub load: f64,
    /// Longest rest between chirps: 1 ms to 60 s, 1 s by default.
    pub most_rest: Span,
    /// Number of chirps over which the estimate is the mean: 2 to 10,000, 200 by default.
    pub window: u32,
    /// Least number of chirps for convergence: 2 to 10,000, 20 by default.
    pub least: u32,
    /// Half-width of the 95 % confidence interval for convergence, relative to the mean: 0.001 to 1, 0.1 by default.
    pub half_width: f64,
    /// Number of chirps that ends the session: 1 to 100,000, 400 by default.
    pub chirps: u32,
    /// Definition of excursions and of valid chirps.
    pub excursions: ExcursionRule,
    /// Conditions under which the session gives up.
    pub limits: Limits,
}

impl Default for PathChirpConfig {
    fn default() -> Self {
        Self {
            size: Bytes(1200),
            spread: 1.2,
            low: Rate::from_bits_per_sec(1_000_000),
            high: Rate::from_bits_per_sec(200_000_000),
            below: 0.2,
            above: 3.0,
            warm_up: 5,
            load: 0.05,
            most_rest: Span::from_secs(1),
            window: 200,
            least: 20,
            half_width: 0.1,
            chirps: 400,
            excursions: ExcursionRule::default(),
            limits: Limits::default(),
        }
    }
}

impl PathChirpConfig {
    /// The same options for a path that carries packets of at most `largest` bytes.
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        Self { size: self.size.min(largest), ..self }
    }

    pub(super) fn check(&self) -> Result<(), InvalidOption> {
        let checks = Checks(MethodKind::PathChirp.name());
        let count = |name, value: u32, range| checks.within(name, f64::from(value), range);
        checks.within("size", self.size.as_f64(), (60.0, 65_536.0))?;
        checks.within("spread", self.spread, (1.01, 2.0))?;
        checks.within("high", self.high.as_bytes_per_sec() as f64, (1e3, 1e12))?;
        checks.within("low", self.low.as_bytes_per_sec() as f64, (1e3, self.high.as_bytes_per_sec() as f64))?;
        checks.within("below", self.below, (0.01, 0.9))?;
        checks.within("above", self.above, (1.1, 100.0))?;
        count("warm_up", self.warm_up, (0.0, 1000.0))?;
        checks.within("load", self.load, (0.001, 1.0))?;
        checks.within("most_rest", self.most_rest.as_secs_f64(), (0.001, 60.0))?;
        count("window", self.window, (2.0, 10_000.0))?;
        count("least", self.least, (2.0, 10_000.0))?;
        checks.within("half_width", self.half_width, (0.001, 1.0))?;
        count("chirps", self.chirps, (1.0, 100_000.0))?;
        let ExcursionRule { fall, least, slope, noise, misordered } = self.excursions;
        checks.within("excursions.fall", fall, (1.0, 100.0))?;
        count("excursions.least", least, (1.0, 1000.0))?;
        checks.within("excursions.slope", slope, (0.0, 0.1))?;
        checks.within("excursions.noise", noise, (0.0, 10.0))?;
        checks.within("excursions.misordered", misordered, (1.0, 100.0))?;
        self.limits.check(checks)
    }
}
