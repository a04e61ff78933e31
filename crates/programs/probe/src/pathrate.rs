//! Pathrate: capacity from the modes of packet pairs, one of which the rate of long trains selects.

mod procedure;
pub(crate) mod rules;

use procedure::Procedure;
pub use rules::{BinRule, ModeRule};

use longhaul_units::{Bytes, Rate, Span};

use crate::options::options;
use crate::turns::{Limits, Turns, method_of_turns};

/// Measures capacity as Pathrate 2.4.1 does (C. Dovrolis, P. Ramanathan, D. Moore, Packet-dispersion techniques and a
/// capacity-estimation methodology, IEEE/ACM Transactions on Networking 12(6), 2004; constants as in the tool's
/// receiver).
///
/// Cross traffic spreads the rates of packet pairs over several modes. One of them is the capacity, and often not the
/// highest one. Long trains have a single mode, the asymptotic dispersion rate (ADR), which lies between the available
/// bandwidth and the capacity. The capacity is therefore the best mode of the pairs above the ADR. If preliminary
/// trains of all lengths agree, the path is idle, and their mean is the result.
///
/// An idle path takes 90 trains with 726 packets and 1.1 MB. A path with cross traffic takes 1500 more trains: 2 MB in
/// Phase I and 36 MB in Phase II. The load of all trains together is at most a tenth of the rate found so far
/// ([`PathrateConfig::load`]). The session converges if each phase gets all its samples and a mode is found. The
/// confidence is 1 minus the coefficient of variation of the preliminary trains or, after Phase II, the fraction of
/// Phase I's samples in the chosen bin.
#[derive(Clone, Debug)]
pub struct Pathrate(Turns<Procedure>);

method_of_turns!(Pathrate, PathrateConfig);

options! {
    /// Options of [`Pathrate`], with their ranges and defaults. Sizes are those of IP packets.
    pub struct PathrateConfig[""] {
        /// Largest packet size: 60 B to 64 KiB, 1500 B by default.
        largest: Bytes = Bytes(1500), 60.0..=65_536.0;
        /// Smallest packet size of Phase I: 60 B to `largest`, 550 B by default.
        smallest: Bytes = Bytes(550), 60.0..=largest;
        /// Number of single packets that measure the round trip; the first one does not count: 2 to 1000, 10 by
        /// default.
        exchanges: u32 = 10, 2.0..=1000.0;
        /// Shortest rest between trains: 0 to 60 s, 20 ms by default.
        spacing: Span = Span::from_millis(20), 0.0..=60.0;
        /// The same in round trips: 0 to 100, 1.25 by default.
        spacing_rtts: f64 = 1.25, 0.0..=100.0;
        /// Largest load of all trains relative to the rate found so far: 0.001 to 1, 0.1 by default.
        load: f64 = 0.1, 0.001..=1.0;
        /// Number of packets of the longest train that is tried: 2 to 1000, 48 by default.
        longest: u32 = 48, 2.0..=1000.0;
        /// Number of trains with a loss above which the search for the longest train ends: 0 to 1000, 3 by default.
        lossy_trains: u32 = 3, 0.0..=1000.0;
        /// Number of preliminary trains per length: 1 to 1000, 7 by default.
        per_length: u32 = 7, 1.0..=1000.0;
        /// Number of packets of the longest preliminary train: 2 to 1000, 10 by default.
        preliminary: u32 = 10, 2.0..=1000.0;
        /// Number of preliminary samples dropped at each end: 0 to 1000, 5 by default.
        trim: u32 = 5, 0.0..=1000.0;
        /// Number of preliminary samples above which samples are dropped: 0 to 10,000, 30 by default.
        trim_above: u32 = 30, 0.0..=10_000.0;
        /// Coefficient of variation of the preliminary samples below which their mean is the capacity: 0 to 1, 0.05 by
        /// default.
        quick: f64 = 0.05, 0.0..=1.0;
        /// Number of packet sizes of Phase I: 1 to 1000, 40 by default.
        sizes: u32 = 40, 1.0..=1000.0;
        /// Number of samples of Phase I: 10 to 100,000, 1000 by default.
        pairs: u32 = 1000, 10.0..=100_000.0;
        /// Fraction of ignored samples of Phase I above which its trains grow by one packet: 0.01 to 1, 0.5 by default.
        ignored: f64 = 0.5, 0.01..=1.0;
        /// Amount by which the smallest packets grow at the same time: 0 to 64 KiB, 275 B by default.
        size_step: Bytes = Bytes(275), 0.0..=65_536.0;
        /// Number of samples of Phase II: 1 to 100,000, 500 by default.
        trains: u32 = 500, 1.0..=100_000.0;
        /// Number of samples of Phase II dropped at each end: 0 to 10,000, 10 by default.
        adr_trim: u32 = 10, 0.0..=10_000.0;
        /// Least ratio of the mean of Phase II to the preliminary mean for its only mode to be used instead of the
        /// mean: 0 to 1, 0.9 by default.
        adr_close: f64 = 0.9, 0.0..=1.0;
        /// Dispersion at the receiver below which a train is ignored: 0 to 1 s, 0 by default. If the receiver's
        /// timestamps are not the kernel's, it should be three times the processing time of a packet.
        least_dispersion: Span = Span::ZERO, 0.0..=1.0;
        /// Rate above which samples are ignored: 1 kB/s to 1 TB/s, 10 Gb/s by default.
        max_rate: Rate = Rate::from_bits_per_sec(10_000_000_000), 1e3..=1e12;
        /// Fraction of gaps back to back above which interrupts are coalesced: 0.1 to 1, 0.6 by default.
        coalesced: f64 = 0.6, 0.1..=1.0;
        /// Fraction of the mean gap below which gaps are back to back: 0.01 to 0.9, 0.25 by default.
        coalesced_gap: f64 = 0.25, 0.01..=0.9;
        /// Number of long trains under interrupt coalescence: 1 to 10,000, 40 by default.
        coalesced_trains: u32 = 40, 1.0..=10_000.0;
        /// Width of bins.
        bins: BinRule = BinRule::default();
        /// Definition of a mode.
        modes: ModeRule = ModeRule::default();
        /// Conditions under which the session gives up; its duration is 30 min by default.
        limits: Limits = Limits { time: Span::from_secs(1800), ..Limits::default() };
    }
}

impl PathrateConfig {
    /// The same options for a path that carries packets of at most `largest` bytes. The smallest packets have at most
    /// 37 % of that, as they do by default.
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        let smallest = largest.mul_f64(0.37).max(Bytes(60));
        Self { smallest: self.smallest.min(smallest), largest: self.largest.min(largest), ..self }
    }
}
