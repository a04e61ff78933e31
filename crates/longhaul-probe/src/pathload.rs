//! Pathload: the available bandwidth of a path as the rate from which periodic streams build a queue.

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
/// measurement methodology, dynamics, and relation with TCP throughput, IEEE/ACM Transactions on Networking 11(4), 2003;
/// thresholds as in the tool, version 1.3.2).
///
/// A stream above the available bandwidth finds a longer queue with every packet: its one-way delays rise. Fleets of
/// streams at one rate vote on whether it is above; a bisection narrows the range. Rates at which the streams disagree are
/// grey: there the available bandwidth itself comes and goes, and the reported range holds them.
///
/// A fleet is 1200 packets, at rates over 16 Mb/s within 1.2 s unless the round trip is longer than 90 ms; ten to fifteen
/// fleets are the rule. Over all, streams are a tenth of the time. The confidence is one less the width of the range as a
/// part of its upper end, times the part of their fleets that stands for its ends; where streams of the highest rate build no
/// queue, all ends are that rate and it is 0.
#[derive(Clone, Debug)]
pub struct Pathload(Turns<Procedure>);

method_of_turns!(Pathload, PathloadConfig);
