use longhaul_units::Time;

use super::*;
use crate::tests::smoothed;
use crate::tests::{MSS, segments, sender};

fn slow_start(agile: bool) -> Astart {
    Astart { train: 2.0, agile, ..Astart::default() }
}

/// A path of `rate` segments/s with an RTT of 100 ms and no queue, over which each ACK immediately releases whatever
/// the window allows.
struct Flow {
    slow_start: Astart,
    window: Window,
    path: Path,
    /// Send time and ACK time of each segment in flight.
    acks: std::collections::VecDeque<(Time, Time)>,
    /// Time at which the bottleneck becomes idle.
    free: Time,
    rate: f64,
    now: Time,
}

impl Flow {
    fn new(slow_start: Astart, rate: f64) -> Self {
        let now = Time::from_nanos(5_000_000_000);
        let window = Window::new(segments(10).as_f64());
        let acks = std::collections::VecDeque::new();
        let mut flow = Self { slow_start, window, path: Path::new(MSS), acks, free: now, rate, now };
        flow.slow_start.begin(Reason::NoLoss, &flow.path, &flow.window);
        flow.fill();
        flow
    }

    fn fill(&mut self) {
        while ((self.acks.len() + 1) as f64) * MSS.as_f64() <= self.window.cwnd {
            self.free = self.free.max(self.now) + Span::from_secs_f64(1.0 / self.rate);
            self.acks.push_back((self.now, self.free + Span::from_millis(100)));
        }
    }

    fn ack(&mut self) -> Step {
        let in_flight = segments(self.acks.len() as u64);
        let (left, comes) = self.acks.pop_front().expect("something in flight");
        self.now = comes;
        let rtt = comes - left;
        smoothed::observe(&mut self.path, rtt, in_flight);
        let mut ack = Ack::new(self.now);
        (ack.delivered, ack.cumulative, ack.cwnd_limited) = (MSS, MSS, true);
        ack.prior_in_flight = in_flight;
        self.slow_start.observe(&ack, &self.path);
        let ceiling = self.window.cwnd + MSS.as_f64();
        let step = self.slow_start.on_ack(&ack, MSS, &self.path, &mut self.window);
        assert!(self.window.cwnd <= ceiling);
        self.fill();
        step
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd / MSS.as_f64()
    }
}

/// At 10,000 segments/s, 1000 segments fill the path. In alternating exponential and linear phases, the window reaches
/// 90 % of that within 2 s, for which growth by one segment per round trip needs 89 s. It overshoots by less than half
/// a window, slow start by a whole one.
#[test]
fn it_finds_the_capacity_in_pieces() {
    let mut flow = Flow::new(slow_start(false), 10_000.0);
    let (mut pieces, mut linear) = (0, true);
    let start = flow.now;
    let mut found = None;
    while flow.now < start + Span::from_secs(8) {
        assert_eq!(flow.ack(), Step::Stay);
        let now_linear = !flow.window.below_threshold();
        pieces += u32::from(now_linear != linear);
        linear = now_linear;
        if flow.cwnd() > 900.0 {
            found.get_or_insert(flow.now.since(start));
        }
    }
    let found = found.expect("90 % of the path");
    assert!(found < Span::from_secs(2), "{found}");
    assert!(pieces >= 4, "{pieces}");
    assert!(flow.cwnd() < 1500.0, "{}", flow.cwnd());
}

/// Above the estimate, the window grows by one segment per round trip.
#[test]
fn it_is_linear_above_the_estimate() {
    let mut flow = Flow::new(slow_start(false), 1000.0);
    flow.window = update!(Window { ssthresh: segments(10).as_f64(), ..Window::new(segments(500).as_f64()) });
    flow.fill();
    let before = flow.cwnd();
    for _ in 0..500 {
        flow.ack();
    }
    assert!((flow.cwnd() - before - 1.0).abs() < 0.01, "{}", flow.cwnd() - before);
    assert!(flow.window.ssthresh / MSS.as_f64() < 110.0);
}

/// After a loss, and when congestion avoidance requests it, this is slow start up to the threshold; Agile Probing
/// adapts on request.
#[test]
fn only_a_start_adapts() {
    for (reason, agile, adapts) in [
        (Reason::NoLoss, false, true),
        (Reason::Timeout, false, true),
        (Reason::Loss, true, false),
        (Reason::Ecn, true, false),
        (Reason::Idle, true, false),
        (Reason::Asked, false, false),
        (Reason::Asked, true, true),
    ] {
        let mut slow_start = slow_start(agile);
        let mut window = update!(Window { ssthresh: segments(20).as_f64(), ..Window::new(segments(20).as_f64()) });
        slow_start.begin(reason, &Path::new(MSS), &window);
        let step = slow_start.on_ack(&Ack::new(Time::ZERO), MSS, &Path::new(MSS), &mut window);
        assert_eq!(step == Step::Stay, adapts, "{reason:?}, agile: {agile}");
        assert_eq!(window.cwnd > segments(20).as_f64(), adapts);
    }
}

/// In a complete controller: the threshold adapts, trains are sent at twice the window per round trip, and after a
/// loss congestion avoidance follows.
#[test]
fn a_loss_ends_it() {
    let mut sender = sender("abse");
    sender.fill();
    sender.round();
    assert_eq!(sender.snapshot().phase, "adaptive-start");
    assert!(sender.ssthresh() < segments(1000), "{}", sender.ssthresh());
    let pace = sender.control().pace.expect("a pace");
    assert!(pace.rate.as_bytes_per_sec() >= segments(200).0, "{:?}", pace.rate);
    sender.lose();
    sender.recover();
    sender.fill();
    sender.round();
    assert_ne!(sender.snapshot().phase, "adaptive-start");
}

/// Eight windows of ten segments per round trip of 100 ms are 800 segments/s. A host that does not pace sends the
/// first window at once.
#[test]
fn the_first_window_is_a_train() {
    let mut path = Path::new(MSS);
    path.srtt = Some(Span::from_millis(100));
    for (pacing, expected) in [(true, Some(segments(800).0)), (false, None)] {
        let mut slow_start = Astart { train: 8.0, ..slow_start(false) };
        path.paced = pacing;
        let window = Window::new(segments(10).as_f64());
        slow_start.begin(Reason::NoLoss, &path, &window);
        assert_eq!(slow_start.overlay().pace.map(|pace| pace.rate.as_bytes_per_sec()), expected);
        // After another start-up scheme, this is not a first window.
        slow_start.observe(&Ack::new(Time::ZERO), &path);
        slow_start.begin(Reason::NoLoss, &path, &window);
        assert!(slow_start.overlay().pace.is_none());
    }
}
