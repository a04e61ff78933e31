//! Pathload: available bandwidth as the rate at which periodic streams begin to build a queue.
//!
//! Measures available bandwidth by self-loading periodic streams (M. Jain, C. Dovrolis, End-to-end available bandwidth:
//! measurement methodology, dynamics, and relation with TCP throughput, IEEE/ACM Transactions on Networking 11(4),
//! 2003; thresholds as in the tool, version 1.3.2).
//!
//! If the rate of a stream exceeds the available bandwidth, each of its packets encounters a longer queue, and its
//! one-way delays rise. The streams of a fleet, all at the same rate, vote on whether that rate exceeds the available
//! bandwidth, and a bisection narrows the range. Rates at which the streams disagree are grey: the available bandwidth
//! varies around them, and the reported range includes them.
//!
//! A fleet has 1200 packets. At rates above 16 Mb/s it takes 1.2 s, or longer if the round trip exceeds 90 ms. Most
//! sessions take 10 to 15 fleets, and streams are sent during one tenth of the time. The confidence is 1 minus the
//! width of the range relative to its upper end, multiplied by the fraction of streams that support its ends. If even
//! streams of the highest rate build no queue, both ends of the range are that rate, and the confidence is 0.

mod procedure;
mod rules;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use procedure::Procedure;
use rules::{FleetRule, StreamRule};

use longhaul_units::{Bytes, Span};

use crate::options::options;

options! {
    /// Constants of the method. Sizes are those of IP packets.
    pub(crate) struct PathloadConfig {
        /// Number of packets per stream, K.
        packets: u32 = 100;
        /// Number of streams per fleet, N.
        streams: u32 = 12;
        largest: Bytes = Bytes(1500);
        smallest: Bytes = Bytes(200);
        /// Shortest gap, between the largest packets at the highest rate.
        least_gap: Span = Span::from_micros(7);
        /// Longest gap, between the smallest packets at the lowest rate.
        most_gap: Span = Span::from_millis(200);
        /// Gap between packets at rates that permit it.
        gap: Span = Span::from_micros(100);
        /// Number of packets of the first train, which are sent back to back.
        first: u32 = 48;
        /// Shortest rest between streams in durations of a stream. It is at least one round trip.
        rest: f64 = 9.0;
        /// Resolution omega relative to the rate of the first train.
        resolution: f64 = 0.02;
        /// Resolution of grey rates, chi, relative to the rate of the first train.
        grey_resolution: f64 = 0.05;
        /// Upper bound of the resolution in bytes per second.
        grey_most: f64 = 1.5e6;
        /// Number of fleets that must confirm an end of the range.
        verdicts: u32 = 2;
        /// Number of times that a fleet without enough usable streams is repeated before its rate counts as grey.
        repeats: u32 = 3;
        /// Number of fleets that ends the session.
        fleets: u32 = 60;
        stream: StreamRule = StreamRule::default();
        fleet: FleetRule = FleetRule::default();
    }
}

impl PathloadConfig {
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        Self { smallest: self.smallest.min(largest), largest: self.largest.min(largest), ..self }
    }
}
