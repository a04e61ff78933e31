use longhaul_cc::RateSample;

use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

fn flow(alpha: f64, base_ms: u64, segments: f64) -> Rounds<Fast> {
    Rounds::new(Fast { alpha, ..Fast::default() }, Span::from_millis(base_ms), segments)
}

/// Updates computed by hand. At W = W_old = 1000 and 125 ms over a base of 100 ms, the result is 500 + 0.5 (800 +
/// 100) = 950 and takes effect at once. Without a queue it is 500 + 0.5 (1000 + 100) = 1050, spread over a round
/// trip. Every other round trip holds the window.
#[test]
fn an_update_moves_half_way_every_second_round_trip() {
    let mut algorithm = Fast { rtt_gain: 1.0, ..Fast::default() };
    algorithm.delay = Delay { base: 0.1, average: Some(0.125) };
    let mut window = Window::new(1000.0 * MSS.as_f64());
    let (mut ack, path) = (Ack::new(Time::from_nanos(1_000_000_000)), Path::new(MSS));
    ack.cwnd_limited = true;
    ack.round_start = true;
    algorithm.on_ack(&ack, MSS, &path, &mut window);
    assert!((window.cwnd / MSS.as_f64() - 950.0).abs() < 1e-9, "{}", window.cwnd);

    // With 900 segments in flight when the segment was sent: 500 + 0.5 (720 + 100).
    let mut rate = RateSample::new(Bytes(1_460_000), Span::from_millis(100));
    rate.tx_in_flight = MSS * 900;
    ack.rate = Some(rate);
    let mut algorithm = Fast { delay: Delay { base: 0.1, average: Some(0.125) }, ..Fast::default() };
    let mut window = Window::new(1000.0 * MSS.as_f64());
    algorithm.on_ack(&ack, MSS, &path, &mut window);
    assert!((window.cwnd / MSS.as_f64() - 910.0).abs() < 1e-9, "{}", window.cwnd);

    let mut flow = flow(100.0, 100, 1000.0);
    let changes: Vec<_> = (0..6).map(|_| flow.round()).collect();
    let updates = changes.iter().filter(|change| **change > 20.0).count();
    assert!((2..=4).contains(&updates), "{changes:?}");
    assert!(changes.iter().all(|change| *change < 51.0), "{changes:?}");
    let total: f64 = changes.iter().sum();
    assert!((100.0..=175.0).contains(&total), "{changes:?}");
}

#[test]
fn an_update_doubles_at_most_and_leaves_two_segments() {
    let mut small = flow(1000.0, 100, 10.0);
    // The first round trip holds the window, the second doubles it, the third holds it.
    let changes: Vec<_> = (0..3).map(|_| small.round()).collect();
    assert!((small.cwnd() - 20.0).abs() < 0.1, "{changes:?}");
    let mut late = flow(1.0, 1, 4.0);
    late.round();
    late.rtt = Span::from_secs(10);
    for _ in 0..20 {
        late.round();
    }
    assert!((late.cwnd() - 2.0).abs() < 0.01, "{}", late.cwnd());
}

/// One flow has its equilibrium at alpha segments in the queue, from below and from above.
#[test]
fn one_flow_keeps_alpha_segments_in_the_queue() {
    let (capacity, base) = (10_000.0, Span::from_millis(100));
    for (alpha, start) in [(100.0, 300.0), (100.0, 2000.0), (20.0, 1000.0), (200.0, 1000.0)] {
        let mut flow = flow(alpha, 100, start);
        flow.round(); // a round at the base RTT
        for _ in 0..120 * 1000 {
            flow.rtt = base.max(Span::from_secs_f64(flow.cwnd() / capacity));
            flow.ack();
        }
        let queue = flow.cwnd() - capacity * 0.1;
        assert!((queue / alpha - 1.0).abs() < 0.05, "alpha {alpha} from {start}: {queue}");
    }
}

/// Returns the queueing delay that flows of these windows and base RTTs share at a bottleneck of `capacity`
/// segments/s.
fn shared_queue(flows: &[Rounds<Fast>], bases: &[f64], capacity: f64) -> f64 {
    let rate = |q: f64| flows.iter().zip(bases).map(|(flow, base)| flow.cwnd() / (base + q)).sum::<f64>();
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if rate(middle) > capacity { low = middle } else { high = middle }
    }
    low
}

/// Several flows have their equilibrium at a throughput of alpha / q, for any RTT (Infocom 2004).
#[test]
fn flows_share_by_alpha_and_not_by_round_trip() {
    let capacity = 10_000.0;
    for alphas in [[100.0, 100.0], [150.0, 50.0]] {
        let bases = [0.05, 0.2];
        let mut flows = vec![flow(alphas[0], 50, 500.0), flow(alphas[1], 200, 500.0)];
        // Each flow has seen its path empty.
        for flow in &mut flows {
            flow.round();
        }
        for _ in 0..4000 {
            let q = shared_queue(&flows, &bases, capacity);
            for (flow, base) in flows.iter_mut().zip(bases) {
                flow.rtt = Span::from_secs_f64(base + q);
                flow.run(0.02);
            }
        }
        let q = shared_queue(&flows, &bases, capacity);
        assert!((q * capacity / (alphas[0] + alphas[1]) - 1.0).abs() < 0.05, "{q}");
        for ((flow, base), alpha) in flows.iter().zip(bases).zip(alphas) {
            let rate = flow.cwnd() / (base + q);
            assert!((rate / (alpha / q) - 1.0).abs() < 0.05, "base {base}: {rate}, not {}", alpha / q);
        }
    }
}

/// A base RTT measured with a queue includes that queue. This is the known unfairness towards flows that started
/// earlier.
#[test]
fn a_latecomer_takes_the_standing_queue_for_the_path() {
    let capacity = 10_000.0;
    let mut flow = flow(100.0, 120, 1200.0);
    for _ in 0..200 * 1000 {
        // 20 ms are the queue of other flows, taken for base RTT.
        flow.rtt = Span::from_millis(120).max(Span::from_secs_f64(flow.cwnd() / capacity));
        flow.ack();
    }
    let in_queue = flow.cwnd() - capacity * 0.1;
    assert!((in_queue - 300.0).abs() < 10.0, "{in_queue}");
}

/// Alpha follows the throughput with hysteresis: 8, 20, 200.
#[test]
fn alpha_can_follow_the_throughput() {
    let mut algorithm = Fast { tuning: true, ..Fast::default() };
    algorithm.delay = Delay { base: 0.1, average: Some(0.1) };
    let steps = [(100, 8.0), (1600, 20.0), (1300, 20.0), (1200, 8.0), (20_000, 200.0), (13_000, 200.0), (12_000, 20.0)];
    for (rate, alpha) in steps {
        assert_eq!(algorithm.alpha(f64::from(rate) * 0.1), alpha, "{rate} segments/s");
    }
    assert_eq!(Fast::default().alpha(1e6), 100.0);
}

#[test]
fn a_loss_halves_and_the_next_round_trip_holds() {
    let mut flow = flow(100.0, 100, 1000.0);
    flow.run(1.0);
    assert!((flow.lose() - 0.5).abs() < 1e-5);
    let before = flow.cwnd();
    for _ in 0..400 {
        flow.ack();
    }
    assert_eq!(flow.cwnd(), before);
}

/// The average follows a third of a window's samples, and no sample weighs more than the gain.
#[test]
fn the_average_spans_a_third_of_the_window() {
    let mut delay = Delay::default();
    delay.sample(Span::from_millis(100), 300.0, 0.25);
    for _ in 0..100 {
        delay.sample(Span::from_millis(200), 300.0, 0.25);
    }
    let expected = 0.1 * (1.0 - 0.99_f64.powi(100));
    assert!((delay.queueing() - expected).abs() < 1e-9, "{}", delay.queueing());
    let mut small = Delay::default();
    small.sample(Span::from_millis(100), 2.0, 0.25);
    small.sample(Span::from_millis(200), 2.0, 0.25);
    assert!((small.queueing() - 0.025).abs() < 1e-9);
}

/// After a timeout the rest of a long flight is retransmitted within the window of congestion avoidance. Without an
/// increase, a hundred segments at one per round trip would take a hundred round trips.
#[test]
fn the_window_rises_while_recovery_follows_a_timeout() {
    let after = |episode| {
        let mut algorithm = Fast { delay: Delay { base: 0.1, average: Some(0.1) }, ..Fast::default() };
        let (mut window, path) = (Window::new(MSS.as_f64()), Path::new(MSS));
        for round in 0..20 {
            let mut ack = Ack::new(Time::ZERO + Span::from_millis(1000 + 100 * round));
            (ack.cwnd_limited, ack.round_start, ack.episode) = (true, true, episode);
            algorithm.on_ack(&ack, Bytes(window.cwnd as u64), &path, &mut window);
        }
        window.cwnd / MSS.as_f64()
    };
    assert!(after(Episode::Rto) > 30.0, "{}", after(Episode::Rto));
    assert!(after(Episode::In) <= 1.0, "fast recovery is not congestion avoidance");
}
