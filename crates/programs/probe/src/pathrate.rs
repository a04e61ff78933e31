//! Pathrate: capacity from the modes of packet pairs, one of which is selected by the rate of long trains.
//!
//! Measures capacity as Pathrate 2.4.1 does (C. Dovrolis, P. Ramanathan, D. Moore, Packet-dispersion techniques and a
//! capacity-estimation methodology, IEEE/ACM Transactions on Networking 12(6), 2004; constants as in the tool's
//! receiver).
//!
//! Cross traffic spreads the rates of packet pairs over several modes. One of them is the capacity, and often not the
//! highest one. Long trains have a single mode, the asymptotic dispersion rate (ADR), which lies between the available
//! bandwidth and the capacity. The capacity is therefore the best mode of the pairs above the ADR. If preliminary
//! trains of all lengths agree, the path is idle, and their mean is the result.
//!
//! An idle path takes 90 trains with 726 packets and 1.1 MB. A path with cross traffic takes 1500 more trains: 2 MB in
//! Phase I and 36 MB in Phase II. The load of all trains together is at most a tenth of the rate found so far
//! ([`PathrateConfig::load`]). The session converges if each phase obtains all its samples and a mode is found. The
//! confidence is 1 minus the coefficient of variation of the preliminary trains or, after Phase II, the fraction of
//! Phase I's samples in the chosen bin.

mod procedure;
pub(crate) mod rules;

pub(crate) use procedure::Procedure;
use rules::{BinRule, ModeRule};

use longhaul_units::{Bytes, Rate, Span};

use crate::options::options;

options! {
    /// Constants of the method. Sizes are those of IP packets.
    pub(crate) struct PathrateConfig {
        largest: Bytes = Bytes(1500);
        /// Smallest packet size of Phase I.
        smallest: Bytes = Bytes(550);
        /// Number of single packets that measure the round trip; the first one does not count.
        exchanges: u32 = 10;
        /// Shortest rest between trains.
        spacing: Span = Span::from_millis(20);
        /// Shortest rest between trains in round trips.
        spacing_rtts: f64 = 1.25;
        /// Largest load of all trains relative to the rate found so far.
        load: f64 = 0.1;
        /// Maximum number of packets in a train.
        longest: u32 = 48;
        /// Number of trains with a loss above which the search for the longest train ends.
        lossy_trains: u32 = 3;
        /// Number of preliminary trains per length.
        per_length: u32 = 7;
        /// Number of packets of the longest preliminary train.
        preliminary: u32 = 10;
        /// Number of preliminary samples dropped at each end.
        trim: u32 = 5;
        /// Number of preliminary samples above which samples are dropped.
        trim_above: u32 = 30;
        /// Coefficient of variation of the preliminary samples below which their mean is the capacity.
        quick: f64 = 0.05;
        /// Number of packet sizes of Phase I.
        sizes: u32 = 40;
        /// Number of samples of Phase I.
        pairs: u32 = 1000;
        /// Fraction of ignored samples of Phase I above which its trains grow by one packet.
        ignored: f64 = 0.5;
        /// Amount by which the smallest packet size increases at the same time.
        size_step: Bytes = Bytes(275);
        /// Number of samples of Phase II.
        trains: u32 = 500;
        /// Number of samples of Phase II dropped at each end.
        adr_trim: u32 = 10;
        /// Minimum ratio of the mean of Phase II to the preliminary mean for its only mode to be used instead of the
        /// mean.
        adr_close: f64 = 0.9;
        /// Dispersion at the receiver below which a train is ignored. If the receiver's timestamps are not the
        /// kernel's, it should be three times the processing time of a packet.
        least_dispersion: Span = Span::ZERO;
        /// Rate above which samples are ignored.
        max_rate: Rate = Rate::from_bits_per_sec(10_000_000_000);
        /// Fraction of gaps back to back above which interrupts are coalesced.
        coalesced: f64 = 0.6;
        /// Fraction of the mean gap below which gaps are back to back.
        coalesced_gap: f64 = 0.25;
        /// Number of long trains under interrupt coalescence.
        coalesced_trains: u32 = 40;
        bins: BinRule = BinRule::default();
        modes: ModeRule = ModeRule::default();
        /// Duration of the session.
        time: Span = Span::from_secs(1800);
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
