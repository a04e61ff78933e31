//! Options of Pathrate.

use longhaul_units::{Bytes, Rate, Span};

use super::rules::{BinRule, ModeRule};
use crate::MethodKind;
use crate::options::{Checks, InvalidOption};
use crate::turns::Limits;

/// Options of [`Pathrate`](super::Pathrate), with their ranges and defaults. Sizes are those of IP packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathrateConfig {
    /// Smallest packet size of Phase I: 60 B to `largest`, 550 B by default.
    pub smallest: Bytes,
    /// Largest packet size: 60 B to 64 KiB, 1500 B by default.
    pub largest: Bytes,
    /// Number of single packets that measure the round trip; the first one does not count: 2 to 1000, 10 by default.
    pub exchanges: u32,
    /// Shortest rest between trains: 0 to 60 s, 20 ms by default.
    pub spacing: Span,
    /// The same in round trips: 0 to 100, 1.25 by default.
    pub spacing_rtts: f64,
    /// Largest load of all trains relative to the rate found so far: 0.001 to 1, 0.1 by default.
    pub load: f64,
    /// Number of packets of the longest train that is tried: 2 to 1000, 48 by default.
    pub longest: u32,
    /// Number of trains with a loss above which the search for the longest train ends: 0 to 1000, 3 by default.
    pub lossy_trains: u32,
    /// Number of preliminary trains per length: 1 to 1000, 7 by default.
    pub per_length: u32,
    /// Number of packets of the longest preliminary train: 2 to 1000, 10 by default.
    pub preliminary: u32,
    /// Number of preliminary samples dropped at each end: 0 to 1000, 5 by default.
    pub trim: u32,
    /// Number of preliminary samples above which samples are dropped: 0 to 10,000, 30 by default.
    pub trim_above: u32,
    /// Coefficient of variation of the preliminary samples below which their mean is the capacity: 0 to 1, 0.05 by
    /// default.
    pub quick: f64,
    /// Number of packet sizes of Phase I: 1 to 1000, 40 by default.
    pub sizes: u32,
    /// Number of samples of Phase I: 10 to 100,000, 1000 by default.
    pub pairs: u32,
    /// Fraction of ignored samples of Phase I above which its trains grow by one packet: 0.01 to 1, 0.5 by default.
    pub ignored: f64,
    /// Amount by which the smallest packets grow at the same time: 0 to 64 KiB, 275 B by default.
    pub size_step: Bytes,
    /// Number of samples of Phase II: 1 to 100,000, 500 by default.
    pub trains: u32,
    /// Number of samples of Phase II dropped at each end: 0 to 10,000, 10 by default.
    pub adr_trim: u32,
    /// Least ratio of the mean of Phase II to the preliminary mean for its only mode to be used instead of the mean: 0
    /// to 1, 0.9 by default.
    pub adr_close: f64,
    /// Dispersion at the receiver below which a train is ignored: 0 to 1 s, 0 by default. If the receiver's timestamps
    /// are not the kernel's, it should be three times the processing time of a packet.
    pub least_dispersion: Span,
    /// Rate above which samples are ignored: 1 kB/s to 1 TB/s, 10 Gb/s by default.
    pub max_rate: Rate,
    /// Fraction of gaps back to back above which interrupts are coalesced: 0.1 to 1, 0.6 by default.
    pub coalesced: f64,
    /// Fraction of the mean gap below which gaps are back to back: 0.01 to 0.9, 0.25 by default.
    pub coalesced_gap: f64,
    /// Number of long trains under interrupt coalescence: 1 to 10,000, 40 by default.
    pub coalesced_trains: u32,
    /// Width of bins.
    pub bins: BinRule,
    /// Definition of a mode.
    pub modes: ModeRule,
    /// Conditions under which the session gives up; its duration is 30 min by default.
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
    /// The same options for a path that carries packets of at most `largest` bytes. The smallest packets have at most
    /// 37 % of that, as they do by default.
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
