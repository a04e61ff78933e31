//! Single flow in round trips for the tests of congestion-avoidance algorithms. Each segment has its own ACK, the
//! ACKs are spread evenly over the round trip, and decreases take no time.

use longhaul_units::{Bytes, Span, Time};

use super::{MSS, smoothed};
use longhaul_cc::compose::{CongestionAvoidance, CongestionEvent, Handoff, Reason, Signal, Target, Window};
use longhaul_cc::{Ack, Path, RateSample, RttSample};

/// A flow of one congestion-avoidance algorithm, without a transport.
#[derive(Debug)]
pub struct Rounds<L> {
    /// Algorithm under test.
    pub algorithm: L,
    /// Window of the flow.
    pub window: Window,
    /// The path reported to the algorithm.
    pub path: Path,
    /// Current time of the test.
    pub now: Time,
    /// Round-trip time of the following ACKs.
    pub rtt: Span,
    round_end: Time,
    /// Window at the start of the round: the amount in flight when the segments acknowledged in it were sent.
    round_window: f64,
}

impl<L: CongestionAvoidance> Rounds<L> {
    /// Creates a flow of `segments` segments over a path with `rtt`, whose congestion avoidance begins now.
    pub fn new(algorithm: L, rtt: Span, segments: f64) -> Self {
        let now = Time::from_nanos(5_000_000_000);
        let window = Window::new(segments * MSS.as_f64());
        let mut flow =
            Self { algorithm, window, path: Path::new(MSS), now, rtt, round_end: now, round_window: window.cwnd };
        flow.sample();
        flow.begin(Reason::NoLoss);
        flow
    }

    fn sample(&mut self) {
        smoothed::observe(&mut self.path, self.rtt, Bytes::from_f64(self.window.cwnd));
    }

    /// Starts congestion avoidance for `reason`.
    pub fn begin(&mut self, reason: Reason) {
        self.algorithm.begin(&Handoff::new(self.now, reason), &self.path, &mut self.window);
    }

    /// Returns the window in segments.
    pub fn cwnd(&self) -> f64 {
        self.window.cwnd / MSS.as_f64()
    }

    /// Processes an ACK for one segment, which arrives 1/window of a round trip after the previous one.
    pub fn ack(&mut self) {
        self.now += self.rtt.mul_f64(1.0 / self.cwnd());
        self.sample();
        let mut ack = Ack::new(self.now);
        ack.round_start = self.now >= self.round_end;
        if ack.round_start {
            self.round_end = self.now + self.rtt;
            self.round_window = self.window.cwnd;
        }
        (ack.delivered, ack.cumulative, ack.cwnd_limited) = (MSS, MSS, true);
        ack.prior_in_flight = Bytes::from_f64(self.window.cwnd);
        ack.flight_size = ack.prior_in_flight;
        ack.in_flight = ack.prior_in_flight - MSS;
        ack.rtt = Some(RttSample::new(self.rtt, self.now - self.rtt));
        let mut rate = RateSample::new(Bytes::from_f64(self.round_window), self.rtt);
        rate.tx_in_flight = Bytes::from_f64(self.round_window);
        ack.rate = Some(rate);
        self.algorithm.observe(&ack, &self.path);
        let ceiling = self.window.cwnd + MSS.as_f64();
        self.algorithm.on_ack(&ack, MSS, &self.path, &mut self.window);
        self.window.cwnd = self.window.cwnd.min(ceiling);
        self.window.bound(MSS, Bytes(1 << 40));
    }

    /// Processes one ACK per segment of the window and returns the increase in segments.
    pub fn round(&mut self) -> f64 {
        let before = self.cwnd();
        for _ in 0..before.round() as u64 {
            self.ack();
        }
        self.cwnd() - before
    }

    /// Processes ACKs until `seconds` have passed.
    pub fn run(&mut self, seconds: f64) {
        let until = self.now + Span::from_secs_f64(seconds);
        while self.now < until {
            self.ack();
        }
    }

    /// Returns the algorithm's response to `signal` without applying it.
    pub fn ask(&mut self, signal: Signal) -> Target {
        let event = CongestionEvent::new(self.now, signal, Bytes::from_f64(self.window.cwnd), self.window.cwnd);
        self.algorithm.reduce(&event, &self.path)
    }

    /// Simulates a loss with instant recovery and returns the share of the window that was kept.
    pub fn lose(&mut self) -> f64 {
        let before = self.window.cwnd;
        let target = self.ask(Signal::Loss);
        (self.window.cwnd, self.window.ssthresh) = (target.cwnd.min(before), target.ssthresh);
        self.begin(Reason::Loss);
        self.window.cwnd / before
    }

    /// Simulates a timeout, after which slow start has reached the threshold.
    pub fn time_out(&mut self) {
        let target = self.ask(Signal::Timeout);
        (self.window.cwnd, self.window.ssthresh) = (target.ssthresh, target.ssthresh);
        self.begin(Reason::Timeout);
    }

    /// Returns the average window in segments with one loss per `1 / p` segments, measured over `episodes` episodes
    /// after the same number of episodes to settle.
    pub fn average(&mut self, p: f64, episodes: u32) -> f64 {
        let (mut sent, mut since) = (0_u64, self.now);
        for episode in 0..2 * episodes {
            if episode == episodes {
                (sent, since) = (0, self.now);
            }
            for _ in 0..(1.0 / p) as u64 {
                self.ack();
                sent += 1;
            }
            self.lose();
        }
        sent as f64 * self.rtt.as_secs_f64() / self.now.since(since).as_secs_f64()
    }
}
