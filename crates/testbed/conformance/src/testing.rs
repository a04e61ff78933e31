//! Senders in virtual time for tests of single algorithms.
//!
//! [`Sender`] counts in segments and keeps the counters of a transport; [`Rounds`] is a flow in round trips for one
//! congestion-avoidance algorithm.
mod rounds;
pub mod smoothed;

pub use rounds::Rounds;

use longhaul_units::{Bytes, Rate, Span, Time};

use longhaul_cc::{
    Ack, BuildParams, Congestion, Control, Controller, Episode, Granted, NetworkHeaderKind, Path, PathEvent, RttSample,
    SavedPath, SegmentKind, Sent, Snapshot, Timeout, TxId, update,
};

/// The segment size of all tests that do not set another one.
pub const MSS: Bytes = Bytes(1460);

/// Returns `n` segments in bytes.
pub fn segments(n: u64) -> Bytes {
    MSS * n
}

/// A sender with the counters of a transport. The test calls its methods in the order of the events.
#[derive(Debug)]
pub struct Sender {
    /// Controller under test.
    pub controller: Box<dyn Controller>,
    /// The path reported to the controller.
    pub path: Path,
    /// Current time of the test.
    pub now: Time,
    /// RTT of the next ACKs.
    pub rtt: Span,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// Total bytes delivered.
    pub delivered: Bytes,
}

impl Sender {
    /// A sender after its handshake, with all grants that a transport without options offers.
    pub fn new(spec: &str) -> Self {
        let congestion: Congestion = spec.parse().expect("a name");
        Self::with(congestion.build(&BuildParams::default()), Granted::basic())
    }

    /// A sender whose transport has the cached slow-start threshold `ssthresh`.
    #[must_use]
    pub fn with_threshold(spec: &str, ssthresh: Option<Bytes>) -> Self {
        let congestion: Congestion = spec.parse().expect("a name");
        let params = update!(BuildParams { mss: MSS, initial_ssthresh: ssthresh, ..BuildParams::default() });
        Self::with(congestion.build(&params), Granted::basic())
    }

    /// A sender with `queued` segments, which are sent as the window allows and acknowledged for `rounds` round trips.
    pub fn run(spec: &str, queued: u64, rounds: u32) -> Self {
        let mut sender = Self::new(spec);
        (sender.path.handshake_rtt, sender.path.srtt) = (Some(sender.rtt), Some(sender.rtt));
        sender.event(&PathEvent::Established { now: sender.now, granted: Granted::basic() });
        sender.path.queued = segments(queued);
        for _ in 0..rounds {
            sender.send_queued();
            if sender.flight() > 0 {
                sender.ack(sender.flight());
            }
        }
        sender
    }

    /// Sends all queued data that the window allows.
    pub fn send_queued(&mut self) {
        while self.in_flight < self.cwnd() && self.path.queued > Bytes::ZERO {
            self.send(SegmentKind::Data);
            self.path.queued -= segments(1);
            if let Some(at) = self.controller.next_tick().filter(|at| *at <= self.now) {
                self.controller.on_tick(at, &self.path);
            }
        }
    }

    /// A sender after the handshake of `controller`, with these grants.
    pub fn with(controller: Box<dyn Controller>, granted: Granted) -> Self {
        Self::over(Path::new(MSS), controller, granted)
    }

    /// A sender after a handshake of 100 ms, with a saved path of 400 segments per round trip and routers that support
    /// Quick-Start.
    pub fn resumed(spec: &str) -> Self {
        let (window, rtt) = (segments(400), Span::from_millis(100));
        let saved_path = Some(SavedPath::new(window, Rate::from_bytes_over(window, rtt), rtt));
        let congestion: Congestion = spec.parse().expect("a name");
        let controller = congestion.build(&update!(BuildParams { mss: MSS, saved_path, ..BuildParams::default() }));
        let mut path = Path::new(MSS);
        (path.handshake_rtt, path.min_rtt, path.latest_rtt, path.srtt) = (Some(rtt), Some(rtt), Some(rtt), Some(rtt));
        let network_header = Some(NetworkHeaderKind::QuickStart);
        Self::over(path, controller, update!(Granted { network_header, ..Granted::basic() }))
    }

    fn over(mut path: Path, mut controller: Box<dyn Controller>, granted: Granted) -> Self {
        path.paced = granted.pacing;
        controller.on_granted(&granted, &path).expect("granted");
        let now = Time::from_nanos(1_000_000_000);
        controller.on_event(&PathEvent::Established { now, granted }, &path);
        let (in_flight, delivered) = (Bytes::ZERO, Bytes::ZERO);
        Self { controller, path, now, rtt: Span::from_millis(100), in_flight, delivered }
    }

    /// Returns the number of segments in flight.
    pub fn flight(&self) -> u64 {
        self.in_flight.0 / self.path.mss.0
    }

    /// A sender in congestion avoidance after a first loss, with its window full.
    pub fn after_a_loss(spec: &str) -> Self {
        let mut sender = Self::new(spec);
        sender.fill();
        for _ in 0..4 {
            sender.round();
        }
        sender.lose();
        sender.recover();
        sender.fill();
        sender
    }

    /// Returns the decisions.
    pub fn control(&self) -> Control {
        self.controller.control()
    }

    /// Returns the congestion window.
    pub fn cwnd(&self) -> Bytes {
        self.control().cwnd
    }

    /// Returns the values for logs.
    pub fn snapshot(&self) -> Snapshot {
        self.controller.snapshot()
    }

    /// Returns the slow-start threshold.
    pub fn ssthresh(&self) -> Bytes {
        self.control().ssthresh.expect("a threshold")
    }

    /// Sends one segment regardless of the window.
    pub fn send(&mut self, kind: SegmentKind) {
        let mut event = Sent::new(self.now, TxId(0), self.path.mss);
        (event.in_flight_before, event.kind) = (self.in_flight, kind);
        self.in_flight += self.path.mss;
        self.controller.on_sent(&event, &self.path);
    }

    /// Sends all that the window allows, and returns the number of segments.
    pub fn fill(&mut self) -> u64 {
        let mut count = 0;
        while self.in_flight + self.path.mss <= self.cwnd() {
            self.send(SegmentKind::Data);
            count += 1;
        }
        count
    }

    /// Returns an ACK that delivers `count` segments in sequence to a sender limited by its window.
    pub fn acked(&mut self, count: u64) -> Ack<'static> {
        let bytes = self.path.mss * count;
        let mut ack = Ack::new(self.now);
        (ack.cumulative, ack.delivered) = (bytes, bytes);
        (ack.prior_in_flight, ack.flight_size) = (self.in_flight, self.in_flight);
        self.in_flight -= bytes;
        self.delivered += bytes;
        (ack.in_flight, ack.total_delivered) = (self.in_flight, self.delivered);
        ack.cwnd_limited = true;
        let rtt = self.rtt;
        smoothed::observe(&mut self.path, rtt, ack.flight_size);
        ack.rtt = Some(RttSample::new(rtt, self.now - rtt));
        ack
    }

    /// Passes an ACK to the controller.
    pub fn tell(&mut self, ack: &Ack<'_>) {
        self.controller.on_ack(ack, &self.path);
    }

    /// Passes [`Self::acked`] to the controller.
    pub fn ack(&mut self, count: u64) {
        let ack = self.acked(count);
        self.tell(&ack);
    }

    /// One round trip later, everything in flight is acknowledged by one ACK per segment, and the window is filled
    /// again.
    pub fn round(&mut self) {
        self.now += self.rtt;
        for index in 0..self.flight() {
            let mut ack = self.acked(1);
            ack.round_start = index == 0;
            self.tell(&ack);
        }
        self.fill();
    }

    /// Third duplicate ACK: one segment is lost, one more is delivered, and the retransmission is sent.
    pub fn lose(&mut self) {
        let mut ack = self.acked(1);
        ack.cumulative = Bytes::ZERO;
        ack.recover_flight = ack.prior_in_flight;
        ack.newly_lost = self.path.mss;
        self.in_flight -= self.path.mss;
        ack.in_flight = self.in_flight;
        ack.episode = Episode::Enter;
        self.tell(&ack);
        self.send(SegmentKind::Retransmit);
    }

    /// Everything in flight arrives and ends the episode.
    pub fn recover(&mut self) {
        self.now += self.rtt;
        let mut ack = self.acked(self.flight());
        ack.episode = Episode::Exit;
        self.tell(&ack);
    }

    /// One segment is delivered with an ECN mark.
    pub fn mark(&mut self) {
        let mut ack = self.acked(1);
        ack.ecn_echo = true;
        self.tell(&ack);
    }

    /// The `nth` consecutive timeout: everything in flight is lost.
    pub fn time_out(&mut self, nth: u32) {
        let event = Timeout::new(self.now, nth, self.in_flight);
        self.in_flight = Bytes::ZERO;
        self.controller.on_timeout(&event, &self.path);
    }

    /// Passes an event to the controller.
    pub fn event(&mut self, event: &PathEvent) {
        self.controller.on_event(event, &self.path);
    }
}

/// The decisions of a window-based composition before its first congestion event.
pub fn slow_start(cwnd: Bytes) -> Control {
    update!(Control { ssthresh: Some(Bytes::MAX), ..Control::window(cwnd) })
}

/// Checks that a decrease by a loss or by a timeout is undone if it was spurious.
pub fn assert_undone(sender: &mut Sender, timeout: bool) {
    let before = (sender.cwnd(), sender.snapshot());
    if timeout {
        sender.time_out(1)
    } else {
        sender.lose()
    }
    assert!(sender.cwnd() < before.0);
    sender.event(&PathEvent::Spurious { now: sender.now, timeout, in_flight: sender.in_flight });
    assert_eq!((sender.cwnd(), sender.snapshot()), before);
}

/// Checks that a cached threshold ends the first slow start of a composition, and does not set the initial window (RFC
/// 9040, section 6.1).
pub fn assert_cached_threshold(spec: &str) {
    let mut sender = Sender::with_threshold(spec, Some(segments(25)));
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(10), segments(25)), "{spec}");
    sender.fill();
    sender.round();
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(20), "slow-start"), "{spec}");
    sender.round();
    let cwnd = sender.cwnd();
    assert!(sender.snapshot().phase != "slow-start", "{spec}");
    assert!(cwnd >= segments(25) && cwnd < segments(27), "{spec}: {cwnd}");
}
