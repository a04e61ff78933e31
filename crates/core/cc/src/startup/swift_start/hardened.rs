//! Measurements of the hardened Swift Start by reported arrival times, during and after the start.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::dispersion::Dispersion;
use super::pacing::RoundPlan;
use super::spacing::Spacing;
use super::{ABORT, Flight, GAMMA, SwiftStart};
use crate::compose::Window;
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Path, SegmentKind, Sent, TxId};

/// Factor by which the arrival rate must have risen, the RTT fallen, and the capacity exceeded the window before slow
/// start resumes.
const CLEARLY: f64 = 1.25;
/// Factor on the minimum RTT up to which there is no standing queue. It exceeds one by an eighth, as in HyStart++ (RFC
/// 9406, section 4.3).
const NO_QUEUE: f64 = 1.125;

/// Minimum number of gaps in a round trip for its measurements to be used. With this many, most samples of the median
/// are from that round trip.
const TELLING_GAPS: u32 = 32;

pub(crate) static ENTRY: Entry = Entry::startup("swift-start-hardened", |values| {
    Box::new(SwiftStart::hardened(HardenedConfig::from_values(values)))
})
.described(
    "Swift Start from arrival times at the receiver; its estimate sets the slow-start threshold",
    "after NASA TM-2004-212938",
)
.with_options(HardenedConfig::OPTIONS)
.tested_in(&[
    "swift-start-hardened+cubic",
    "swift-start-hardened(gamma=1)+cubic",
    "swift-start-hardened(gamma=1)+new-reno",
])
.internet_safe();

crate::options! {
    pub(crate) struct HardenedConfig {
        gamma: u64 = GAMMA,
        flight: u32 = OptionSpec::int("iw", 4, 10, 10, "segments of the first burst"),
        abort: Span [Span::from_millis] = ABORT,
        follow: bool =
            OptionSpec::flag("follow", true, "keep estimating until the first loss, and update the threshold"),
    }
}

/// Measurements based on the receiver's arrival times.
///
/// The estimate follows further gaps while slow start approaches it. While congestion avoidance has the window and
/// there is no loss, the gaps of each round trip are compared with those of the first one. If the path has become
/// faster by a quarter, the earlier standing queue has drained, and the estimate divided by gamma exceeds the window by
/// a quarter, slow start resumes up to that estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    pub(super) flight: Flight,
    /// Last segment of the flight and its transmission time.
    last: Option<(TxId, Time)>,
    pub(super) acked: Bytes,
    pub(super) sent: Bytes,
    gaps: Dispersion,
    /// RTT without a queue.
    rtt: Option<Span>,
    pub(super) rate: Option<Rate>,
    /// Spacing of the ACKs, if it bounds the paced round.
    pub(super) spacing: Option<Spacing>,
    /// Whether estimation continues, and whether the estimate was queried at the last ACK. Without queries, it ends.
    pub(super) follows: bool,
    pub(super) asked: bool,
    after: After,
}

#[derive(Clone, Copy, Debug, Default)]
struct After {
    /// Whether congestion avoidance rather than slow start controls the window.
    in_avoidance: bool,
    again: bool,
    /// Whether a round trip has begun since the start.
    round: bool,
    /// Minimum RTT in this round trip.
    least: Option<Span>,
    /// Measurements of the last complete round trip.
    seen: Option<Seen>,
    /// Reference for comparison: measurements of the first round trip, later of the one in which slow start resumed.
    usual: Option<Seen>,
}

/// Measurements of one round trip in congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Seen {
    rate: Rate,
    /// Minimum RTT of this round trip, which reveals a standing queue.
    rtt: Span,
}

impl Seen {
    /// Returns whether other flows have left, in comparison with `usual` on a path with a minimum RTT of `rtt`: segments
    /// then arrive closer together, and the standing queue has disappeared. One of the two alone may be
    /// coincidence, for instance if a flow of constant rate falls in or out of step with the pairs.
    fn tells_of_room(&self, usual: &Self, rtt: Span) -> bool {
        let queue_is_gone = usual.rtt >= rtt.mul_f64(CLEARLY) && self.rtt <= rtt.mul_f64(NO_QUEUE);
        queue_is_gone && self.rate >= usual.rate.mul_f64(CLEARLY)
    }
}

impl Arrivals {
    /// Forgets the measurements of an earlier start.
    pub(super) fn reset(&mut self) {
        *self = Self { spacing: self.spacing.map(|_| Spacing::default()), follows: self.follows, ..Self::default() };
    }

    /// Starts measuring; `follows` states whether to continue after the start.
    pub(super) fn begin(&mut self, follows: bool) {
        (self.follows, self.after) = (follows, After::default());
    }

    /// Records a segment of the flight, or one after it.
    pub(super) fn on_sent(&mut self, of_flight: bool, sent: &Sent) {
        if of_flight {
            self.flight.on_sent(sent);
            self.last = Some((sent.tx, sent.now));
        } else {
            self.sent += sent.bytes;
            self.flight.disturbed |= sent.kind == SegmentKind::Retransmit;
        }
    }

    /// Returns whether the whole flight is acknowledged.
    pub(super) fn are_complete(&self) -> bool {
        self.acked >= self.flight.bytes
    }

    /// Returns the number of bytes that the path holds.
    pub(super) fn holds(&self, path: &Path) -> Option<Bytes> {
        Some(self.rate?.bytes_in(self.rtt?).min(path.peer_window * 2))
    }

    /// Returns the plan of a round with the estimate divided by `gamma`, or the peer's window if that is less, because
    /// the peer would not accept more. The spacing of the ACKs may bound the estimate.
    pub(super) fn plan(&self, gamma: u64, path: &Path) -> Option<RoundPlan> {
        let rtt = self.rtt?;
        let most = self.spacing.and_then(|spacing| spacing.most_in(rtt)).unwrap_or(path.peer_window);
        let window = Bytes(self.holds(path)?.min(most).0 / gamma.max(1)).min(path.peer_window);
        Some(RoundPlan { window, sent: self.sent, rtt, mss: path.mss })
    }

    /// Returns whether `ack` reports anything that was sent after the flight.
    pub(super) fn is_past_flight(&self, ack: &Ack<'_>) -> bool {
        ack.acked.last().zip(self.last).is_some_and(|(segment, (last, _))| segment.tx > last)
    }

    /// Returns when ACKs of all segments of the flight can be expected, at its first ACK. It may acknowledge a segment
    /// that was sent long before the others.
    pub(super) fn expected(&self, first: Time) -> Time {
        let last = self.last.zip(self.rtt).map_or(first, |((_, sent), rtt)| sent + rtt);
        first.max(last)
    }

    /// Processes an ACK during or after the start.
    pub(super) fn observe(&mut self, in_start: bool, ack: &Ack<'_>, path: &Path) {
        if let Some(sample) = ack.rtt {
            let rtt = path.handshake_rtt.unwrap_or(sample.rtt).min(sample.rtt);
            self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
        }
        self.follows &= in_start || std::mem::take(&mut self.asked);
        if !in_start && !self.follows {
            return;
        }
        // The interval before the first ACK of the paced round, or of a segment sent long before the others, would
        // include a pause.
        let of_flight = in_start && !self.is_past_flight(ack) && self.expected(ack.now) == ack.now;
        if let Some(spacing) = self.spacing.as_mut().filter(|_| of_flight) {
            spacing.on_ack(ack);
        }
        self.after.seen = None;
        if ack.round_start && !in_start {
            self.end_round();
        }
        if let Some(sample) = ack.rtt {
            self.after.least = Some(self.after.least.map_or(sample.rtt, |least| least.min(sample.rtt)));
        }
        ack.acked.iter().for_each(|segment| self.gaps.note(segment));
        let newest = if self.after.in_avoidance { self.after.seen.map(|seen| seen.rate) } else { self.gaps.rate() };
        self.rate = newest.or(self.rate);
    }

    /// Ends a round trip after the start, and begins the next one.
    fn end_round(&mut self) {
        let rate = self.gaps.rate().filter(|_| self.after.round && self.gaps.gaps >= TELLING_GAPS);
        self.after.seen = rate.zip(self.after.least.take()).map(|(rate, rtt)| Seen { rate, rtt });
        self.after.round = true;
        self.gaps.restart();
    }

    /// Returns the threshold while slow start continues.
    pub(super) fn ceiling(&mut self, gamma: f64, path: &Path) -> Option<f64> {
        self.after.in_avoidance = false;
        let part = if self.after.again { gamma } else { 1.0 };
        self.holds(path).filter(|_| self.follows).map(|holds| holds.as_f64() / part)
    }

    /// Returns the threshold up to which slow start resumes, if the path holds clearly more than the window. The
    /// transport must pace the resumed slow start.
    pub(super) fn room(&mut self, paces: bool, gamma: f64, path: &Path, window: &Window) -> Option<f64> {
        self.after.in_avoidance = true;
        let seen = self.after.seen.filter(|_| self.follows && paces)?;
        let usual = *self.after.usual.get_or_insert(seen);
        let room = self.holds(path)?.as_f64() / gamma;
        let found = room >= window.cwnd * CLEARLY && seen.tells_of_room(&usual, self.rtt?);
        if found {
            (self.after.usual, self.after.again) = (Some(seen), true);
        }
        found.then_some(room)
    }
}

#[cfg(test)]
mod tests;
