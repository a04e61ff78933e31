//! First flight of all data available, spread over the RTT of the handshake, as Jump-Start and Halfback send it.

use longhaul_cc::compose::{Overlay, Window};
use longhaul_cc::{Ack, Pace, Path, SegmentKind, Sent, update};
use longhaul_units::{Bytes, Rate, Span, Time};

/// Size and progress of the flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstFlight {
    /// Upper bound of its size.
    limit: Bytes,
    /// Time over which it is spread.
    rtt: Span,
    /// Window that the connection would have without it, in bytes.
    initial: f64,
    goal: Bytes,
    sent: Bytes,
    segments: u32,
    delivered: Bytes,
    /// Whether more data was known when a part of it was sent.
    spread: bool,
    /// Time at which more data became known, if the window has not followed yet.
    grown_at: Option<Time>,
}

impl FirstFlight {
    /// Creates a flight of at most `limit` bytes over a round trip of `rtt`. Without it, `initial` bytes would be
    /// sent.
    pub(super) fn new(limit: Bytes, rtt: Span, initial: f64) -> Self {
        Self { limit, rtt, initial, ..Self::default() }
    }

    /// Records that a segment was sent. The known size of the flow is what was sent and what is queued. An application
    /// writes more while data leaves, so the flight may grow while it is sent. It never shrinks: if the peer reduces
    /// its window, the transport enforces that.
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

    /// Returns when the window and the pace should follow the flight: at once if it has grown.
    pub(super) const fn grown_at(&self) -> Option<Time> {
        self.grown_at
    }

    /// Opens the window for the flight as far as it is known.
    pub(super) fn open(&mut self, window: &mut Window) {
        self.grown_at = None;
        window.cwnd = self.goal.as_f64().max(self.initial);
    }

    /// Returns whether the flight is larger than the window without it.
    pub(super) fn exceeds_initial(&self) -> bool {
        self.goal.as_f64() > self.initial
    }

    /// Returns whether there was anything to spread. A few bytes with nothing queued behind them must not delay data
    /// that is written later.
    pub(super) const fn is_spread(&self) -> bool {
        self.spread
    }

    /// Returns the rate that spreads the flight evenly over the round trip.
    pub(super) fn pace(&self) -> Rate {
        Rate::from_bytes_over(self.goal, self.rtt.max(Span::from_nanos(1))).max(Rate::from_bytes_per_sec(1))
    }

    pub(super) fn overlay(&self) -> Overlay {
        update!(Overlay { pace: Some(Pace::new(self.pace())), ..Overlay::default() })
    }

    /// Closes the flight at the first ACK. The window becomes what was sent, not what could have been sent, and ACKs
    /// clock the sender from then on.
    pub(super) fn close(&mut self, window: &mut Window) {
        self.grown_at = None;
        window.cwnd = self.sent.as_f64().max(self.initial);
    }

    pub(super) fn on_delivered(&mut self, delivered: Bytes) {
        self.delivered += delivered;
    }

    /// Returns whether as many bytes were delivered as the flight has.
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

/// Recovery of a flight. The window is held as in RFC 6675: at half of the flight, to which the data in flight has to
/// drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FlightRecovery {
    /// FlightSize when the loss was detected, limited to the window, because SACKed data allows more to be sent.
    pub(super) flight: Bytes,
    /// Bytes of the flight that arrived as retransmissions.
    pub(super) retransmitted: Bytes,
}

impl FlightRecovery {
    /// Begins recovery after a loss was detected.
    pub(super) fn begin(ack: &Ack<'_>, path: &Path, window: &mut Window) -> Self {
        let flight = ack.flight_size.min(Bytes::from_f64(window.cwnd));
        halve(flight.as_f64(), path, window);
        Self { flight, retransmitted: Bytes::ZERO }
    }

    /// Halves the window again after a retransmission was lost, which is a second sign of congestion (RFC 5681,
    /// section 4.3).
    pub(super) fn again(path: &Path, window: &mut Window) {
        halve(window.cwnd, path, window);
    }

    /// Counts the bytes that an ACK reports as arrived by retransmission.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) {
        let resent = ack.acked.iter().filter(|segment| segment.kind == SegmentKind::Retransmit);
        self.retransmitted += resent.map(|segment| segment.bytes).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
    }
}

/// Sets the window and the threshold to half of `base` (RFC 5681, equation 4).
fn halve(base: f64, path: &Path, window: &mut Window) {
    let half = (base / 2.0).max(2.0 * path.mss.as_f64());
    window.cwnd = window.cwnd.min(half);
    window.ssthresh = half;
}
