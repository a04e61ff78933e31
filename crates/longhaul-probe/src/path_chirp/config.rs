//! pathChirp's options.

use longhaul_units::{Bytes, Rate, Span};

use super::rules::ExcursionRule;
use crate::MethodKind;
use crate::options::{Checks, InvalidOption};
use crate::turns::Limits;

/// The options of [`PathChirp`](super::PathChirp), with their ranges and defaults. Sizes are those of whole IP packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathChirpConfig {
    /// Bytes of a packet: 60 B to 64 kB, 1200 B.
    pub size: Bytes,
    /// By which factor gaps shrink: 1.01 to 2, 1.2.
    pub spread: f64,
    /// The lowest rate of the first chirps: 1 kB/s to `high`, 1 Mb/s.
    pub low: Rate,
    /// The highest rate of the first chirps: 1 kB/s to 1 TB/s, 200 Mb/s.
    pub high: Rate,
    /// The lowest rate of other chirps, as a part of the estimate: 0.01 to 0.9, 0.2.
    pub below: f64,
    /// The highest, likewise: 1.1 to 100, 3.
    pub above: f64,
    /// The first chirps, which only find the range: 0 to 1000, 5.
    pub warm_up: u32,
    /// The part of the estimate that chirps take: 0.001 to 1, 0.05.
    pub load: f64,
    /// The longest rest: 1 ms to 60 s, 1 s.
    pub most_rest: Span,
    /// Chirps that the estimate is the mean of: 2 to 10,000, 200.
    pub window: u32,
    /// It does not converge with fewer: 2 to 10,000, 20.
    pub least: u32,
    /// It converges with a half-width of the 95 % confidence interval under this part of the mean: 0.001 to 1, 0.1.
    pub half_width: f64,
    /// So many chirps end the session: 1 to 100,000, 400.
    pub chirps: u32,
    /// What an excursion is, and which chirps are valid.
    pub excursions: ExcursionRule,
    /// When it gives up.
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
