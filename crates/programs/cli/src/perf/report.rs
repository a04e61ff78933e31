//! Data of a test, which the modules `text` and `json` format.

use super::protocol::Params;
use super::results::{Interval, Results, StreamResult, Sum};
use super::session::Facts;

/// A test since its start.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub(super) client: bool,
    pub params: Params,
    /// Address and port of the other end: as given by the client, or as seen by the server.
    pub(super) peer: (String, u16),
    pub(super) cookie: String,
    /// The streams by number.
    pub(super) streams: Vec<Facts>,
    /// Intervals so far, if they are shown at the end.
    pub(super) intervals: Vec<Interval>,
    /// The server's report, if requested.
    pub(super) server_output: Option<String>,
}

impl Report {
    /// Returns, for each stream, whether this end sends.
    pub(super) fn sends(&self) -> Vec<bool> {
        self.params.client_sends().into_iter().map(|client| client == self.client).collect()
    }
}

/// Results of a stream at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) sends: bool,
    pub(super) sender: &'a StreamResult,
    pub(super) receiver: &'a StreamResult,
}

/// Returns the streams of a test by number.
pub(super) fn pairs<'a>(ours: &'a Results, theirs: &'a Results) -> Vec<Pair<'a>> {
    let streams = ours.streams.iter().zip(&theirs.streams);
    let pair = |(ours, theirs): (&'a StreamResult, &'a StreamResult)| match ours.sender {
        true => Pair { sends: true, sender: ours, receiver: theirs },
        false => Pair { sends: false, sender: theirs, receiver: ours },
    };
    streams.map(pair).collect()
}

/// Returns the sums at the senders and at the receivers of the streams on which this end sends or receives.
pub(super) fn sums(pairs: &[Pair<'_>], sends: bool) -> (Sum, Sum) {
    let of = || pairs.iter().filter(|pair| pair.sends == sends);
    (Sum::of(of().map(|pair| pair.sender)), Sum::of(of().map(|pair| pair.receiver)))
}

/// Returns a stream's identifier, where iperf3 shows its socket's number.
pub(super) fn stream_id(number: usize) -> usize {
    5 + 2 * number
}

/// Returns a rate in bit/s, or 0 if the duration is too short for a finite one.
pub(super) fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    let rate = bytes as f64 * 8.0 / seconds;
    if seconds > 0.0 && rate.is_finite() { rate } else { 0.0 }
}
