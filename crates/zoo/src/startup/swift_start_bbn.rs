//! Swift Start as in BBN's original code, including its faults, for comparison only.

use longhaul_cc::compose::{Opening, Overlay, Stage, Startup, Step, Window};
use longhaul_cc::internal::swift_start::{Departures, FLIGHT, GAMMA, TICK, TickClock, capacity_window, grow};
use longhaul_cc::registry::Entry;
use longhaul_cc::{Ack, Path, SegmentKind, Sent};
use longhaul_units::{Bytes, Span, Time};

/// Maximum number of segments that a pacing tick releases.
const MOST_A_TICK: u64 = 2;

pub(crate) static ENTRY: Entry = Entry::startup("swift-start-bbn", |values| {
    let Options { gamma, clock } = Options::from_values(values);
    Box::new(SwiftStartBbn::new(gamma, clock))
})
.described(
    "Swift Start before NASA's corrections, with its six faults; for regression tests only",
    "NASA TM-2004-212938, Swift Start implementation problems",
)
.with_options(Options::OPTIONS)
.tested_in(&["swift-start-bbn+new-reno", "swift-start-bbn(gamma=1)+reno-classic"]);

longhaul_cc::options! {
    struct Options {
        gamma: u64 = GAMMA,
        clock: TickClock [TickClock::from_millis] = TICK,
    }
}

/// Swift Start with the faults that NASA TM-2004-212938 found in BBN's code:
///
/// 1. The SYN counts as the first data segment and the SYN-ACK as the first ACK, so `delta` is too large by an RTT.
/// 2. The estimate uses one segment, even if an ACK covers two.
/// 3. Pacing begins with the first ACK, at the current window per round trip.
/// 4. Pacing never ends, and slow start does not continue.
/// 5. No condition makes an estimate invalid.
/// 6. If the estimate is below the window, the window determines the pace.
///
/// A loss, an ECN mark or a timeout has the usual response and ends the start.
#[derive(Clone, Debug, Default)]
pub struct SwiftStartBbn {
    gamma: u64,
    clock: TickClock,
    /// Time at which the scheme took control of the window; `None` if it is not active.
    begun: Option<Time>,
    acks: u64,
    departures: Option<Departures>,
    next: Option<Time>,
    /// Time of the last tick if it released all that may be released at once; there is no further tick until a segment
    /// is sent.
    full_at: Option<Time>,
    /// Window that determines the pace, in bytes.
    cwnd: f64,
    /// Bytes that may be sent now.
    open: Bytes,
    in_flight: Bytes,
}

impl SwiftStartBbn {
    /// Creates BBN's Swift Start with divisor `gamma` and clock `clock`.
    #[must_use]
    pub fn new(gamma: u64, clock: TickClock) -> Self {
        Self { gamma, clock, ..Self::default() }
    }

    /// Paces the window from `now` on, and releases `first` segments at once.
    fn pace(&mut self, now: Time, rtt: Span, first: u64, mss: Bytes) {
        let instants = Bytes::from_f64(self.cwnd).0.div_ceil(mss.0.max(1)).max(1);
        let departures = Departures::even(now, rtt, instants, self.clock);
        (self.next, self.full_at) = (Some(departures.next(now)), None);
        self.departures = Some(departures);
        self.open += mss * first;
    }

    fn show(&self, window: &mut Window) -> Step {
        if self.departures.is_some() {
            window.cwnd = self.cwnd.min((self.in_flight + self.open).as_f64());
        }
        Step::Stay
    }

    /// Returns the estimate, with faults 1 and 2.
    fn estimate(&self, now: Time, rtt: Span, mss: Bytes) -> f64 {
        let syn_ack = self.begun.unwrap_or(now);
        let delta = self.clock.steps(syn_ack, now);
        let rtt = self.clock.steps(Time::ZERO, Time::ZERO + rtt);
        Bytes(capacity_window(mss.0, rtt, delta, self.gamma)).as_f64()
    }
}

impl Stage for SwiftStartBbn {
    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if sent.kind != SegmentKind::Probe {
            self.in_flight = sent.in_flight_before + sent.bytes;
            self.open -= sent.bytes;
            if let (Some(full_at), Some(departures)) = (self.full_at.take(), &mut self.departures) {
                departures.skip(full_at, sent.now);
                self.next = Some(departures.next(sent.now));
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
        match (self.begun, self.departures) {
            (None, _) => "handshake",
            (_, None) => "swift-start-probe",
            _ => "swift-start-paced",
        }
    }
}

impl Startup for SwiftStartBbn {
    fn begin(&mut self, opening: Opening, now: Time, path: &Path, window: &mut Window) -> Step {
        *self = Self::new(self.gamma, self.clock);
        if opening != Opening::Connection || path.handshake_lossy {
            return Step::Done;
        }
        self.begun = Some(now);
        self.cwnd = (path.mss * u64::from(FLIGHT)).as_f64();
        window.cwnd = self.cwnd;
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.in_flight = ack.in_flight;
        if ack.cumulative == Bytes::ZERO {
            return self.show(window);
        }
        self.acks += 1;
        if self.acks <= 2 {
            let mut counted = Window::new(self.cwnd);
            grow(ack, path, &mut counted);
            self.cwnd = counted.cwnd;
            // Without an RTT, data cannot be spread. The RTT is unknown if the SYN was retransmitted, and zero if a
            // coarse clock did not advance.
            let Some(rtt) = path.handshake_rtt.or(path.srtt).filter(|rtt| !rtt.is_zero()) else {
                self.departures = None;
                self.next = None;
                return Step::Done;
            };
            if self.acks == 2 {
                self.cwnd = self.cwnd.max(self.estimate(ack.now, rtt, path.mss));
            }
            let first = if self.acks == 1 { MOST_A_TICK } else { 0 };
            self.pace(ack.now, rtt, first, path.mss);
        }
        self.show(window)
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        if let Some(departures) = &mut self.departures {
            let most = path.mss * MOST_A_TICK;
            self.open = (self.open + path.mss * departures.grant(now)).min(most);
            self.full_at = (self.open == most).then_some(now);
            self.next = self.full_at.is_none().then(|| departures.next(now));
        }
        self.show(window)
    }

    fn abort(&mut self) {
        *self = Self::new(self.gamma, self.clock);
    }
}

#[cfg(test)]
mod tests;
