//! Pathload: available bandwidth as the rate from which periodic streams build a queue.

mod config;
mod procedure;
mod rules;
mod search;
#[cfg(test)]
mod tests;

pub use config::PathloadConfig;
use procedure::Procedure;
pub use rules::{Band, FleetRule, StreamRule};

use crate::turns::{Turns, method_of_turns};

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
