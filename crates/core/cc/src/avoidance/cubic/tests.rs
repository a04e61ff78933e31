use super::*;
use crate::tests::{MSS, segments};

const RTT: Span = Span::from_millis(100);

/// CUBIC alone, with one ACK per segment, evenly spaced over the round trip; a decrease takes no time.
struct Flow {
    algorithm: Cubic,
    window: Window,
    path: Path,
    /// Time in seconds since `BASE`.
    time: f64,
}

const BASE: Time = Time::from_nanos(5_000_000_000);

impl Flow {
    fn new(config: CubicConfig, rtt: Span, cwnd: f64) -> Self {
        let mut path = Path::new(MSS);
        path.srtt = Some(rtt);
        let mut flow =
            Self { algorithm: Cubic::new(config), window: Window::new(cwnd * MSS.as_f64()), path, time: 0.0 };
        flow.begin(Reason::NoLoss);
        flow
    }

    fn now(&self) -> Time {
        BASE + Span::from_secs_f64(self.time)
    }

    fn begin(&mut self, reason: Reason) {
        self.algorithm.begin(&Handoff::new(self.now(), reason), &self.path, &mut self.window);
    }

    fn rtt_secs(&self) -> f64 {
        self.path.srtt.map_or(0.1, Span::as_secs_f64)
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd / MSS.as_f64()
    }

    fn ack(&mut self, limited: bool) {
        self.time += self.rtt_secs() / self.cwnd();
        let mut ack = Ack::new(self.now());
        ack.cwnd_limited = limited;
        let grow = if limited { MSS } else { Bytes::ZERO };
        self.algorithm.on_ack(&ack, grow, &self.path, &mut self.window);
    }

    fn run_until(&mut self, time: f64) {
        while self.time < time {
            self.ack(true);
        }
    }

    fn reduce(&mut self, signal: Signal) -> Target {
        let cwnd = self.window.cwnd;
        let event = CongestionEvent::new(self.now(), signal, Bytes::from_f64(cwnd), cwnd);
        let target = self.algorithm.reduce(&event, &self.path);
        self.window = Window { cwnd: target.cwnd, ssthresh: target.ssthresh };
        target
    }

    fn lose(&mut self) {
        self.reduce(Signal::Loss);
        self.begin(Reason::Loss);
    }
}

/// Returns the average window in segments with one loss per `1 / p` segments, over `episodes` after as many to
/// settle, from a window of `start` segments.
fn average_window(rtt: Span, p: f64, start: f64, episodes: u32) -> f64 {
    let config = CubicConfig { fast_convergence: false, ..CubicConfig::default() };
    let mut flow = Flow::new(config, rtt, start);
    flow.lose();
    let (mut sent, mut since) = (0_u64, 0.0);
    for episode in 0..2 * episodes {
        if episode == episodes {
            (sent, since) = (0, flow.time);
        }
        for _ in 0..(1.0 / p) as u64 {
            flow.ack(true);
            sent += 1;
        }
        flow.lose();
    }
    sent as f64 * rtt.as_secs_f64() / (flow.time - since)
}

/// RFC 9438, table 1 (RTT 0.1 s) and table 2 (0.01 s): average window under deterministic loss. The formula behind
/// the tables assumes a window that follows the curve exactly; here it moves in steps of a segment and aims one round
/// trip ahead, so that 0.5 % deviation is allowed. Another start window converges only slowly, because an epoch ends
/// on the flat part of the curve. The flow therefore starts at its maximum, average / 0.925, and must stay there.
#[test]
fn the_response_function_is_rfc_9438s() {
    for (rtt, p, expected) in [(100, 1e-4, 187.0), (100, 1e-5, 1054.0), (100, 1e-6, 5926.0), (10, 1e-7, 5926.0)] {
        let episodes = if p < 1e-6 { 1 } else { 5 };
        let average = average_window(Span::from_millis(rtt), p, expected / 0.925, episodes);
        assert!((average / expected - 1.0).abs() < 0.005, "RTT {rtt} ms, p = {p}: {average}, not {expected}");
    }
}

#[test]
fn other_windows_converge_to_the_response_function() {
    for start in [100.0, 400.0] {
        let average = average_window(RTT, 1e-4, start, 200);
        assert!((average / 187.0 - 1.0).abs() < 0.08, "from {start}: {average}, not 187");
    }
}

/// Rows of the same tables in the Reno-friendly region: 12, 38, 120 and 379 segments, or sqrt(1.5 / p). AIMD(0.53,
/// 0.7), with an increase of one segment above the old window, stays within 10 % of them.
#[test]
fn the_friendly_region_is_renos() {
    for (rtt, p, expected) in [(100, 1e-2, 12.2), (100, 1e-3, 38.7), (10, 1e-4, 122.5), (10, 1e-5, 387.3)] {
        let average = average_window(Span::from_millis(rtt), p, expected, 40);
        assert!((average / expected - 1.0).abs() < 0.10, "RTT {rtt} ms, p = {p}: {average}, not {expected}");
    }
}

/// RFC 9438, section 4.3: the increase is 3 (1 - beta) / (1 + beta) segments per round trip up to the old window,
/// then one.
#[test]
fn the_friendly_window_rises_by_alpha_and_then_by_one() {
    let mut flow = Flow::new(CubicConfig::default(), Span::from_millis(1), 20.0);
    flow.lose();
    let mut rounds = [0.0; 30];
    for round in &mut rounds {
        let before = flow.cwnd();
        flow.time += 0.001;
        let mut ack = Ack::new(flow.now());
        ack.cwnd_limited = true;
        flow.algorithm.on_ack(&ack, Bytes::from_f64(flow.window.cwnd), &flow.path, &mut flow.window);
        *round = flow.cwnd() - before;
    }
    // From 14 to 20 segments takes 12 round trips.
    for (index, raised) in rounds.into_iter().enumerate() {
        let expected = if index < 12 { 0.9 / 1.7 } else { 1.0 };
        assert!((raised - expected).abs() < 1e-3, "round {index} raised by {raised}, not {expected}");
    }
}

/// RFC 9438, figures 1 and 2: the window returns from 0.7 W to W in K = cbrt(0.3 W / C) seconds, along the cubic
/// curve.
#[test]
fn the_window_follows_the_closed_form() {
    let (w_max, c) = (2000.0, 0.4);
    let mut flow = Flow::new(CubicConfig::default(), RTT, w_max);
    flow.lose();
    let k = (w_max * 0.3 / c).cbrt();
    let start = flow.time;
    for step in 1..=20 {
        let t = f64::from(step) * k / 10.0;
        flow.run_until(start + t);
        let curve = c * (t - k).powi(3) + w_max;
        assert!((flow.cwnd() / curve - 1.0).abs() < 0.003, "after {t} s: {}, not {curve}", flow.cwnd());
    }
}

/// RFC 9438, section 4.2: the window grows by at most half per round trip, however far above it the curve is.
#[test]
fn one_round_trip_raises_by_half_at_most() {
    let config = CubicConfig { c: 4.0, ..CubicConfig::default() };
    let mut flow = Flow::new(config, Span::from_secs(10), 100.0);
    flow.lose();
    flow.time += 20.0;
    let before = flow.cwnd();
    flow.path.srtt = Some(Span::from_secs(10));
    let mut ack = Ack::new(flow.now());
    ack.cwnd_limited = true;
    flow.algorithm.on_ack(&ack, Bytes::from_f64(flow.window.cwnd), &flow.path, &mut flow.window);
    assert!((flow.cwnd() / before - 1.5).abs() < 1e-9, "{before} to {}", flow.cwnd());
}

/// RFC 9438, section 5.8: pauses do not advance the curve.
#[test]
fn time_without_growth_does_not_count() {
    let run = |pause: f64| {
        let mut flow = Flow::new(CubicConfig::default(), RTT, 1000.0);
        flow.lose();
        flow.run_until(3.0);
        flow.ack(false);
        flow.time += pause;
        flow.ack(false);
        let from = flow.time;
        flow.run_until(from + 2.0);
        flow.cwnd()
    };
    let (without, with) = (run(0.0), run(60.0));
    assert!((with / without - 1.0).abs() < 1e-3, "{with} after a pause, {without} without");
}

/// RFC 9438, sections 4.8 and 4.10: after a timeout, and after slow start without loss, the curve starts at its
/// plateau.
#[test]
fn after_a_timeout_and_after_a_lossless_start_k_is_zero() {
    for reason in [Reason::Timeout, Reason::NoLoss] {
        let mut flow = Flow::new(CubicConfig::default(), RTT, 1000.0);
        flow.reduce(Signal::Timeout);
        flow.begin(reason);
        let (plateau, from) = (flow.cwnd(), flow.time);
        flow.run_until(from + 8.0);
        let curve = 0.4 * 8.0_f64.powi(3) + plateau;
        assert!((flow.cwnd() / curve - 1.0).abs() < 0.01, "{reason:?}: {}, not {curve}", flow.cwnd());
    }
}

/// RFC 9438, section 4.7.
#[test]
fn fast_convergence_lowers_the_plateau() {
    for (fast_convergence, plateau) in [(true, 700.0 * 0.85), (false, 700.0)] {
        let mut flow = Flow::new(CubicConfig { fast_convergence, ..CubicConfig::default() }, RTT, 1000.0);
        flow.lose();
        flow.lose();
        let k = ((plateau - 490.0) / 0.4_f64).cbrt();
        let from = flow.time;
        flow.run_until(from + k);
        assert!((flow.cwnd() / plateau - 1.0).abs() < 0.01, "{}, not {plateau}", flow.cwnd());
    }
}

/// RFC 9438, section 4.6: losses and marks have different floors.
#[test]
fn marks_may_leave_one_segment() {
    let mut flow = Flow::new(CubicConfig::default(), RTT, 1.2);
    assert_eq!(flow.reduce(Signal::Ecn), Target { ssthresh: segments(2).as_f64(), cwnd: segments(1).as_f64() });
    let mut flow = Flow::new(CubicConfig::default(), RTT, 2.2);
    assert_eq!(flow.reduce(Signal::Loss).cwnd, segments(2).as_f64());
}

/// A new segment size keeps the window and the plateau.
#[test]
fn a_new_segment_size_leads_to_the_same_plateau() {
    let mut flow = Flow::new(CubicConfig::default(), RTT, 1000.0);
    flow.lose();
    flow.run_until(2.0);
    flow.path.mss = MSS / 2;
    let before = flow.window;
    flow.algorithm.on_event(&StageEvent::Mss { now: flow.now(), old: MSS, window: flow.window }, &flow.path);
    assert_eq!(flow.window, before);
    let k = ((1000.0 * MSS.as_f64() - before.cwnd) / (0.4 * 730.0)).cbrt();
    let from = flow.time;
    flow.run_until(from + k);
    assert!((flow.cwnd() / 1000.0 - 1.0).abs() < 0.01, "{}", flow.cwnd());
}
