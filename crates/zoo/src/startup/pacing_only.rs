//! Pacing without an estimate: the second round trip sends the data that slow start would send, evenly spread.

use longhaul_cc::compose::{LossEvent, Opening, Overlay, Stage, Startup, StartupResponse, Step, Window};
use longhaul_cc::internal::swift_start::{Departures, FLIGHT, Flight, TICK, TickClock, grow, is_disturbed};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path, SegmentKind, SendLimit, Sent, initial_window};
use longhaul_units::{Bytes, Span, Time};

pub(crate) static ENTRY: Entry = Entry::startup("pacing-only", |values| {
    let Options { pattern, clock } = Options::from_values(values);
    Box::new(PacingOnly::new(pattern, clock))
})
.described("paces the second window of slow start over the RTT", "NASA TM-2004-212938, Testing with pacing only")
.with_options(Options::OPTIONS)
.tested_in(&["pacing-only+new-reno", "pacing-only(pattern=2121)+reno-classic", "pacing-only(pattern=222)+cubic"])
.internet_safe();

longhaul_cc::options! {
    struct Options {
        pattern: Pattern =
            OptionSpec::choice("pattern", Pattern::NAMES, "sizes of the groups of segments sent together"),
        clock: TickClock [TickClock::from_millis] = TICK,
    }
}

longhaul_cc::options! {
    /// Grouping of the six segments that slow start sends after four.
    #[derive(Default)]
    pub enum Pattern {
        /// Six groups of one segment.
        #[default]
        Even = "even",
        /// Groups of 2, 1, 2 and 1 segments, as NASA tested them.
        TwoOneTwoOne = "2121",
        /// Three groups of two segments, as NASA intended to test them.
        TwoTwoTwo = "222",
    }
}

impl Pattern {
    /// Returns the groups per round trip and the segments in each.
    const fn groups(self) -> (u64, &'static [u64]) {
        match self {
            Self::Even => (6, &[1]),
            Self::TwoOneTwoOne => (4, &[2, 1]),
            Self::TwoTwoTwo => (3, &[2]),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Off,
    /// The flight has been sent, and its first ACK is awaited.
    First,
    Paced(Departures),
}

/// Start-up scheme that sends four segments back to back, and, starting at the first ACK, sends the data of the next
/// round of slow start in evenly spaced groups over one round trip. The slow-start variant follows.
///
/// The round ends when everything that the ACKs of the flight allow was sent, at the first ACK of data sent in it, on
/// a loss or retransmission, or when there is no data to send.
#[derive(Clone, Debug, Default)]
pub struct PacingOnly {
    pattern: Pattern,
    clock: TickClock,
    phase: Phase,
    flight: Flight,
    mss: Bytes,
    acked: Bytes,
    /// Bytes that slow start would have released since the first ACK, and how many of them were sent.
    allowed: Bytes,
    sent: Bytes,
    /// Total length of the groups so far in bytes.
    granted: Bytes,
    in_flight: Bytes,
    next: Option<Time>,
}

impl PacingOnly {
    /// Creates a start whose second round has the given pattern and clock.
    #[must_use]
    pub fn new(pattern: Pattern, clock: TickClock) -> Self {
        Self { pattern, clock, ..Self::default() }
    }

    fn first_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        let (groups, pattern) = self.pattern.groups();
        let rtt = self.flight.sent_at.map_or(Span::ZERO, |sent_at| ack.now - sent_at);
        let mut departures = Departures::even(ack.now, rtt, groups, self.clock).grouped(pattern);
        self.granted = path.mss * departures.grant(ack.now);
        self.next = Some(departures.next(ack.now));
        self.phase = Phase::Paced(departures);
    }

    fn show(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        let all_left = self.acked >= self.flight.bytes && self.allowed < self.sent + path.mss;
        if all_left {
            return self.finish(self.in_flight, path, window);
        }
        let open = self.granted.min(self.allowed) - self.sent;
        window.cwnd = (self.in_flight + open).as_f64();
        self.next = match &self.phase {
            Phase::Paced(departures) => Some(departures.next(now)),
            Phase::Off | Phase::First => None,
        };
        Step::Stay
    }

    /// Ends the start: the window becomes the `outstanding` bytes.
    fn finish(&mut self, outstanding: Bytes, path: &Path, window: &mut Window) -> Step {
        window.cwnd = outstanding.max(initial_window::rfc6928(path.mss, FLIGHT)).as_f64();
        self.phase = Phase::Off;
        self.next = None;
        Step::Done
    }
}

impl Stage for PacingOnly {
    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if sent.kind == SegmentKind::Probe {
            return;
        }
        self.in_flight = sent.in_flight_before + sent.bytes;
        match self.phase {
            Phase::Off => {}
            Phase::First => self.flight.on_sent(sent),
            Phase::Paced(_) => {
                self.sent += sent.bytes;
                self.flight.disturbed |= sent.kind == SegmentKind::Retransmit;
            }
        }
    }

    fn next_tick(&self) -> Option<Time> {
        self.next
    }

    fn overlay(&self) -> Overlay {
        Overlay::at_once()
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Off => "handshake",
            Phase::First => "pacing-only-probe",
            Phase::Paced(_) => "pacing-only-paced",
        }
    }
}

impl Startup for PacingOnly {
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        *self = Self::new(self.pattern, self.clock);
        if opening != Opening::Connection || path.handshake_lossy {
            return Step::Done;
        }
        self.mss = path.mss;
        window.cwnd = initial_window::rfc6928(path.mss, FLIGHT).as_f64();
        self.phase = Phase::First;
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.in_flight = ack.in_flight;
        if ack.delivered == Bytes::ZERO {
            return Step::Stay;
        }
        // The round ends, or does not begin, if the flight does not fill its window, the application pauses, the pair
        // of ACKs is disturbed, or an ACK covers data sent after the flight.
        let whole = self.flight.filled(initial_window::rfc6928(self.mss, FLIGHT), self.mss);
        self.acked += ack.cumulative;
        let pauses = matches!(ack.limit, SendLimit::App | SendLimit::SendBuffer) && path.queued == Bytes::ZERO;
        if !whole || pauses || is_disturbed(&self.flight, ack) || self.acked > self.flight.bytes {
            let step = self.finish(ack.prior_in_flight, path, window);
            grow(ack, path, window);
            return step;
        }
        self.allowed += ack.cumulative;
        if ack.cwnd_limited {
            self.allowed += ack.cumulative.min(path.mss);
        }
        if matches!(self.phase, Phase::First) {
            self.first_ack(ack, path);
        }
        self.show(ack.now, path, window)
    }

    /// The usual response follows, starting from the bytes in flight.
    fn on_loss(&mut self, _loss: &LossEvent<'_>, _path: &Path, _window: &mut Window) -> StartupResponse {
        StartupResponse::Delegate
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        let Phase::Paced(departures) = &mut self.phase else { return Step::Stay };
        self.granted += path.mss * departures.grant(now);
        self.show(now, path, window)
    }

    fn abort(&mut self) {
        self.phase = Phase::Off;
        self.next = None;
    }
}

#[cfg(test)]
mod tests;
