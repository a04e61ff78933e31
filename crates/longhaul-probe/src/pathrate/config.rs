//! Pathrate's options.

use longhaul_units::{Bytes, Rate, Span};

use super::rules::{BinRule, ModeRule};
use crate::MethodKind;
use crate::options::{Checks, InvalidOption};
use crate::turns::Limits;

/// The options of [`Pathrate`](super::Pathrate), with their ranges and defaults. Sizes are those of whole IP packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathrateConfig {
    /// The smallest packets of Phase I: 60 B to `largest`, 550 B.
    pub smallest: Bytes,
    /// The largest packets: 60 B to 64 kB, 1500 B.
    pub largest: Bytes,
    /// Single packets that find the round trip, the first of which does not count: 2 to 1000, 10.
    pub exchanges: u32,
    /// The least rest between trains: 0 to 60 s, 20 ms.
    pub spacing: Span,
    /// The same in round trips: 0 to 100, 1.25.
    pub spacing_rtts: f64,
    /// The part of the rate found so far that all trains together may take: 0.001 to 1, 0.1.
    pub load: f64,
    /// The longest train that is tried: 2 to 1000 packets, 48.
    pub longest: u32,
    /// More trains with a loss than this end the search for the longest: 0 to 1000, 3.
    pub lossy_trains: u32,
    /// Preliminary trains of each length: 1 to 1000, 7.
    pub per_length: u32,
    /// The longest preliminary train: 2 to 1000 packets, 10.
    pub preliminary: u32,
    /// Preliminary samples dropped at each end: 0 to 1000, 5 ...
    pub trim: u32,
    /// ... if there are more than this: 0 to 10,000, 30.
    pub trim_above: u32,
    /// Under this standard deviation over the mean the preliminary mean is the capacity: 0 to 1, 0.05.
    pub quick: f64,
    /// How many sizes Phase I has: 1 to 1000, 40.
    pub sizes: u32,
    /// Samples of Phase I: 10 to 100,000, 1000.
    pub pairs: u32,
    /// The part of Phase I's samples ignored from which its trains grow by a packet: 0.01 to 1, 0.5.
    pub ignored: f64,
    /// By how much its smallest packets grow then: 0 to 64 kB, 275 B.
    pub size_step: Bytes,
    /// Samples of Phase II: 1 to 100,000, 500.
    pub trains: u32,
    /// Samples of Phase II dropped at each end: 0 to 10,000, 10.
    pub adr_trim: u32,
    /// Phase II's only mode counts instead of its mean if that is above this part of the preliminary mean: 0 to 1, 0.9.
    pub adr_close: f64,
    /// Shorter trains at the receiver are ignored: 0 to 1 s, 0. Three times what the receiver takes for a packet, where its
    /// clock is not the kernel's.
    pub least_dispersion: Span,
    /// Faster samples are ignored: 1 kB/s to 1 TB/s, 10 Gb/s.
    pub max_rate: Rate,
    /// More than this part of the gaps back to back is interrupt coalescence: 0.1 to 1, 0.6.
    pub coalesced: f64,
    /// Gaps under this part of the mean are back to back: 0.01 to 0.9, 0.25.
    pub coalesced_gap: f64,
    /// Long trains under interrupt coalescence: 1 to 10,000, 40.
    pub coalesced_trains: u32,
    /// The width of bins.
    pub bins: BinRule,
    /// What a mode is.
    pub modes: ModeRule,
    /// When it gives up; its time is 30 min.
    pub limits: Limits,
}

impl Default for PathrateConfig {
    fn default() -> Self {
        Self {
            smallest: Bytes(550),
            largest: Bytes(1500),
            exchanges: 10,
            spacing: Span::from_millis(20),
            spacing_rtts: 1.25,
            load: 0.1,
            longest: 48,
            lossy_trains: 3,
            per_length: 7,
            preliminary: 10,
            trim: 5,
            trim_above: 30,
            quick: 0.05,
            sizes: 40,
            pairs: 1000,
            ignored: 0.5,
            size_step: Bytes(275),
            trains: 500,
            adr_trim: 10,
            adr_close: 0.9,
            least_dispersion: Span::ZERO,
            max_rate: Rate::from_bits_per_sec(10_000_000_000),
            coalesced: 0.6,
            coalesced_gap: 0.25,
            coalesced_trains: 40,
            bins: BinRule::default(),
            modes: ModeRule::default(),
            limits: Limits { time: Span::from_secs(1800), ..Limits::default() },
        }
    }
}

impl PathrateConfig {
    /// The same options for a path that carries packets of at most `largest` bytes. The smallest packets have at most 37 %
    /// of that, as they do by default.
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        let smallest = largest.mul_f64(0.37).max(Bytes(60));
        Self { smallest: self.smallest.min(smallest), largest: self.largest.min(largest), ..self }
    }

    pub(super) fn check(&self) -> Result<(), InvalidOption> {
        let checks = Checks(MethodKind::Pathrate.name());
        let count = |name, value: u32, range| checks.within(name, f64::from(value), range);
        checks.within("largest", self.largest.as_f64(), (60.0, 65_536.0))?;
        checks.within("smallest", self.smallest.as_f64(), (60.0, self.largest.as_f64()))?;
        count("exchanges", self.exchanges, (2.0, 1000.0))?;
        checks.within("spacing", self.spacing.as_secs_f64(), (0.0, 60.0))?;
        checks.within("spacing_rtts", self.spacing_rtts, (0.0, 100.0))?;
        checks.within("load", self.load, (0.001, 1.0))?;
        count("longest", self.longest, (2.0, 1000.0))?;
        count("lossy_trains", self.lossy_trains, (0.0, 1000.0))?;
        count("per_length", self.per_length, (1.0, 1000.0))?;
        count("preliminary", self.preliminary, (2.0, 1000.0))?;
        count("trim", self.trim, (0.0, 1000.0))?;
        count("trim_above", self.trim_above, (0.0, 10_000.0))?;
        checks.within("quick", self.quick, (0.0, 1.0))?;
        count("sizes", self.sizes, (1.0, 1000.0))?;
        count("pairs", self.pairs, (10.0, 100_000.0))?;
        checks.within("ignored", self.ignored, (0.01, 1.0))?;
        checks.within("size_step", self.size_step.as_f64(), (0.0, 65_536.0))?;
        count("trains", self.trains, (1.0, 100_000.0))?;
        count("adr_trim", self.adr_trim, (0.0, 10_000.0))?;
        checks.within("adr_close", self.adr_close, (0.0, 1.0))?;
        checks.within("least_dispersion", self.least_dispersion.as_secs_f64(), (0.0, 1.0))?;
        checks.within("max_rate", self.max_rate.as_bytes_per_sec() as f64, (1e3, 1e12))?;
        checks.within("coalesced", self.coalesced, (0.1, 1.0))?;
        checks.within("coalesced_gap", self.coalesced_gap, (0.01, 0.9))?;
        count("coalesced_trains", self.coalesced_trains, (1.0, 10_000.0))?;
        self.check_modes(checks)?;
        self.limits.check(checks)
    }

    fn check_modes(&self, checks: Checks) -> Result<(), InvalidOption> {
        checks.within("bins.part", self.bins.part, (0.01, 1.0))?;
        checks.within("bins.narrow", self.bins.narrow, (0.0, 1e9))?;
        checks.within("bins.narrow_part", self.bins.narrow_part, (0.01, 1.0))?;
        checks.within("bins.flat", self.bins.flat, (1.0, 1e12))?;
        checks.within("bins.flat_part", self.bins.flat_part, (0.001, 1.0))?;
        checks.within("modes.noise", self.modes.noise, (0.0, 1.0))?;
        checks.within("modes.least_part", self.modes.least_part, (0.0, 1.0))
    }
}
