//! A first flight of all that there is to send, spread over the handshake's round trip: what Jump-Start and Halfback begin
//! with.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::compose::{Overlay, Window};
use crate::{Ack, Pace, Path, SegmentKind, Sent};

/// The flight: how much it is to be, and how far it has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstFlight {
    /// The most that it may be.
    limit: Bytes,
    /// The time that it is spread over.
    rtt: Span,
    /// The window that the connection would have without it, bytes.
    initial: f64,
    goal: Bytes,
    sent: Bytes,
    segments: u32,
    delivered: Bytes,
    /// Whether more was known when a part of it left.
    spread: bool,
    /// When more became known to be sent, if nobody has looked since.
    grown_at: Option<Time>,
}

impl FirstFlight {
    /// One of `limit` bytes at most over a round trip of `rtt`, where `initial` bytes are what would leave without it.
    pub(super) const fn new(limit: Bytes, rtt: Span, initial: f64) -> Self {
        Self {
            limit,
            rtt,
            initial,
            goal: Bytes::ZERO,
            sent: Bytes::ZERO,
            segments: 0,
            delivered: Bytes::ZERO,
            spread: false,
            grown_at: None,
        }
    }

    /// A segment left. What is known of the flow is what was sent and what waits; a writer writes more as that leaves, so the flight
    /// grows while it leaves. It never shrinks: of a window that the peer takes back, the transport makes sure.
    pub(super) fn on_sent(&mut self, sent: &Sent, path: &Path) {
        if sent.kind != SegmentKind::Data || sent.bytes == Bytes::ZERO {
            return;
        }
        self.sent += sent.bytes;
        self.segments = self.segments.saturating_add(1);
        let goal = (self.sent + path.queued).min(path.peer_window).min(self.limit);
        self.spread |= goal > self.sent;
        if goal > self.goal {
            self.goal = goal;
            self.grown_at = Some(sent.now);
        }
    }

    /// When the window and the pace should follow the flight: at once where it has grown.
    pub(super) const fn grown_at(&self) -> Option<Time> {
        self.grown_at
    }

    /// Opens the window for the flight as it is known now.
    pub(super) fn open(&mut self, window: &mut Window) {
        self.grown_at = None;
        window.cwnd = self.goal.as_f64().max(self.initial);
    }

    /// Whether it is more than what would leave without it.
    pub(super) fn exceeds_initial(&self) -> bool {
        self.goal.as_f64() > self.initial
    }

    /// Whether there was something to spread: a few bytes with nothing behind them hold back nothing that comes later.
    pub(super) const fn is_spread(&self) -> bool {
        self.spread
    }

    /// Evenly over the round trip.
    pub(super) fn pace(&self) -> Rate {
        Rate::from_bytes_over(self.goal, self.rtt.max(Span::from_nanos(1))).max(Rate::from_bytes_per_sec(1))
    }

    pub(super) fn overlay(&self) -> Overlay {
        Overlay { pace: Some(Pace { rate: self.pace(), quantum: None }), ..Overlay::default() }
    }

    /// The first ACK: the window is what was sent, and not what might have been; the ACKs are the clock from now on.
    pub(super) fn close(&mut self, window: &mut Window) {
        self.grown_at = None;
        window.cwnd = self.sent.as_f64().max(self.initial);
    }

    pub(super) fn on_delivered(&mut self, delivered: Bytes) {
        self.delivered += delivered;
    }

    /// Whether as much has been delivered as was sent in it.
    pub(super) fn is_delivered(&self) -> bool {
        self.delivered >= self.sent
    }

    pub(super) const fn delivered(&self) -> Bytes {
        self.delivered
    }

    pub(super) const fn segments(&self) -> u32 {
        self.segments
    }

    pub(super) const fn initial(&self) -> f64 {
        self.initial
    }
}

/// A flight under repair, its window held as in RFC 6675: at half of the flight, which the pipe has to drain to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Repair {
    /// FlightSize when the loss was found; no more than the window, though what is SACKed lets more go.
    pub(super) flight: Bytes,
    /// Bytes of it that arrived by retransmission.
    pub(super) repaired: Bytes,
}

impl Repair {
    /// A loss was found.
    pub(super) fn begin(ack: &Ack<'_>, path: &Path, window: &mut Window) -> Self {
        let flight = ack.flight_size.min(Bytes::from_f64(window.cwnd));
        halve(flight.as_f64(), path, window);
        Self { flight, repaired: Bytes::ZERO }
    }

    /// A retransmission was lost: a second sign of congestion (RFC 5681, section 4.3).
    pub(super) fn again(path: &Path, window: &mut Window) {
        halve(window.cwnd, path, window);
    }

    /// Counts what an ACK says to have arrived by retransmission.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) {
        let resent = ack.acked.iter().filter(|segment| segment.kind == SegmentKind::Retransmit);
        self.repaired += resent.map(|segment| segment.bytes).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
    }
}

/// Half of `base`, in the window and the threshold (RFC 5681, equation 4).
fn halve(base: f64, path: &Path, window: &mut Window) {
    let half = (base / 2.0).max(2.0 * path.mss.as_f64());
    window.cwnd = window.cwnd.min(half);
    window.ssthresh = half;
}
