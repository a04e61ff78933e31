//! Pathload: available bandwidth as the rate from which periodic streams build a queue.

mod procedure;
mod rules;
mod search;
#[cfg(test)]
mod tests;

use procedure::Procedure;
pub use rules::{Band, FleetRule, StreamRule};

use longhaul_units::{Bytes, Span};

use crate::options::options;
use crate::turns::{Limits, Turns, method_of_turns};

/// Measures available bandwidth by self-loading periodic streams (M. Jain, C. Dovrolis, End-to-end available bandwidth:
/// measurement methodology, dynamics, and relation with TCP throughput, IEEE/ACM Transactions on Networking 11(4),
/// 2003; thresholds as in the tool, version 1.3.2).
///
/// If the rate of a stream exceeds the available bandwidth, each of its packets meets a longer queue, and its one-way
/// delays rise. The streams of a fleet, all at the same rate, vote on whether that rate exceeds the available
/// bandwidth, and a bisection narrows the range. Rates at which the streams disagree are grey: the available bandwidth
/// varies around them, and the reported range includes them.
///
/// A fleet has 1200 packets. At rates above 16 Mb/s it takes 1.2 s, or longer if the round trip exceeds 90 ms. Most
/// sessions take 10 to 15 fleets, and streams are sent during one tenth of the time. The confidence is 1 minus the
/// width of the range relative to its upper end, multiplied by the fraction of streams that support its ends. If even
/// streams of the highest rate build no queue, both ends of the range are that rate, and the confidence is 0.
#[derive(Clone, Debug)]
pub struct Pathload(Turns<Procedure>);

method_of_turns!(Pathload, PathloadConfig);

options! {
    /// Options of [`Pathload`], with their ranges and defaults. Sizes are those of IP packets.
    pub struct PathloadConfig[""] {
        /// Packets per stream, K: 10 to 1000, 100 by default.
        packets: u32 = 100, 10.0..=1000.0;
        /// Streams per fleet, N: 1 to 100, 12 by default.
        streams: u32 = 12, 1.0..=100.0;
        /// Largest packet size: 60 B to 64 KiB, 1500 B by default.
        largest: Bytes = Bytes(1500), 60.0..=65_536.0;
        /// Smallest packet size: 60 B to `largest`, 200 B by default.
        smallest: Bytes = Bytes(200), 60.0..=largest;
        /// Shortest gap, between the largest packets at the highest rate: 100 ns to 200 ms, 7 us by default.
        least_gap: Span = Span::from_micros(7), 1e-7..=0.2;
        /// Longest gap, between the smallest packets at the lowest rate: 10 us to 10 s, 200 ms by default.
        most_gap: Span = Span::from_millis(200), 1e-5..=10.0;
        /// Gap between packets at rates that permit it: `least_gap` to `most_gap`, 100 us by default.
        gap: Span = Span::from_micros(100), least_gap..=most_gap;
        /// Number of packets of the first train, which are sent back to back: 5 to 1000, 48 by default.
        first: u32 = 48, 5.0..=1000.0;
        /// Shortest rest between streams in durations of a stream: 0 to 1000, 9 by default. It is at least one round
        /// trip.
        rest: f64 = 9.0, 0.0..=1000.0;
        /// Resolution omega relative to the rate of the first train: 0.001 to 1, 0.02 by default.
        resolution: f64 = 0.02, 0.001..=1.0;
        /// Resolution of grey rates, chi, relative to the rate of the first train: 0.001 to 1, 0.05 by default.
        grey_resolution: f64 = 0.05, 0.001..=1.0;
        /// Upper bound of that resolution in bytes per second: 1 to 1e12, 1.5e6 (12 Mb/s) by default.
        grey_most: f64 = 1.5e6, 1.0..=1e12;
        /// Number of fleets that must confirm an end of the range: 1 to 10, 2 by default.
        verdicts: u32 = 2, 1.0..=10.0;
        /// Number of times that a fleet without enough usable streams is repeated before its rate counts as grey: 0 to
        /// 100, 3 by default.
        repeats: u32 = 3, 0.0..=100.0;
        /// Number of fleets that ends the session: 1 to 1000, 60 by default.
        fleets: u32 = 60, 1.0..=1000.0;
        /// Evaluation of a stream.
        stream: StreamRule = StreamRule::default();
        /// Evaluation of a fleet.
        fleet: FleetRule = FleetRule::default();
        /// Conditions under which the session gives up.
        limits: Limits = Limits::default();
    }
}

impl PathloadConfig {
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        Self { smallest: self.smallest.min(largest), largest: self.largest.min(largest), ..self }
    }
}
