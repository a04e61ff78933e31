use longhaul_cc::compose::{LossCause, Signal};
use longhaul_cc::update;
use longhaul_units::Time;

use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

const MS100: Span = Span::from_millis(100);

fn algorithm() -> Abse {
    Abse::default()
}

/// Returns a flow that has held 1000 segments for 20 s over a path of 100 ms with `queue_ms` of queue.
fn flow(queue_ms: u64) -> Rounds<Abse> {
    let mut flow = Rounds::new(algorithm(), MS100, 1000.0);
    flow.run(0.2);
    flow.rtt = MS100 + Span::from_millis(queue_ms);
    let until = flow.now + Span::from_secs(20);
    while flow.now < until {
        flow.ack();
        flow.window.cwnd = 1000.0 * MSS.as_f64();
    }
    flow
}

/// A loss keeps RTTmin / RTT of the window, which is all of it without a queue.
#[test]
fn a_loss_leaves_what_fills_the_path() {
    for (queue, expected) in [(0, 1.0), (50, 2.0 / 3.0), (100, 0.5), (300, 0.25)] {
        let kept = flow(queue).lose();
        assert!((kept / expected - 1.0).abs() < 0.01, "{queue} ms: {kept}, not {expected}");
    }
}

/// 100 kB per round trip arrive in trains that take a tenth of it. Their rate is that of the path, several times that
/// of the flow. If the host paces, a loss with a queue keeps what the flow achieves; otherwise it keeps what the
/// estimate fills.
#[test]
fn a_pace_is_no_share_of_a_queue() {
    let kept = |pacing: bool, queue: Span| {
        let (mut algorithm, mut path) = (algorithm(), update!(Path { min_rtt: Some(MS100), ..Path::new(MSS) }));
        let mut granted = Granted::basic();
        granted.spreads = pacing;
        algorithm.on_granted(&granted, &path).expect("it needs nothing");
        for train in 0..60 {
            path.latest_rtt = Some(if train == 0 { MS100 } else { MS100 + queue });
            for k in 0..10 {
                let mut ack = Ack::new(Time::ZERO + (MS100 + queue) * train + Span::from_millis(k));
                (ack.delivered, ack.prior_in_flight) = (Bytes(10_000), Bytes(100_000));
                algorithm.observe(&ack, &path);
            }
        }
        algorithm.reduce(&CongestionEvent::new(Time::ZERO, Signal::Loss, Bytes(1_000_000), 1e6), &path).cwnd
    };
    let (queue, short) = (Span::from_millis(20), Span::from_millis(12));
    let shared = kept(true, queue);
    assert!((shared / (1e5 / 1.2) - 1.0).abs() < 0.15, "{shared}");
    for (pacing, queue) in [(false, queue), (true, short)] {
        let kept = kept(pacing, queue);
        assert!(kept > 2.0 * shared, "{pacing}, {queue}: {kept}");
    }
}

#[test]
fn a_round_raises_by_one_segment() {
    assert!((flow(0).round() - 1.0).abs() < 0.01);
}

/// Without an estimate, and at a mark, half is kept. A classifier that judges a loss as random keeps more. An
/// estimate above the window raises only the threshold.
#[test]
fn marks_and_ignorance_halve_and_doubt_keeps_more() {
    assert_eq!(Rounds::new(algorithm(), MS100, 100.0).lose(), 0.5);
    let mut flow = flow(100);
    let cwnd = flow.window.cwnd;
    assert!((self::flow(0).ask(Signal::Ecn).cwnd / cwnd - 0.5).abs() < 1e-6);
    for (severity, kept) in [(1.0, 0.5), (0.5, 0.75), (0.0, 1.0)] {
        let event = CongestionEvent::new(flow.now, Signal::Loss, Bytes::from_f64(cwnd), cwnd);
        let event = update!(CongestionEvent { cause: LossCause::new(severity), ..event });
        let target = flow.algorithm.reduce(&event, &flow.path);
        assert!((target.cwnd / cwnd - kept).abs() < 0.01, "{severity}: {}", target.cwnd / cwnd);
    }
    flow.window.cwnd /= 4.0;
    let target = flow.ask(Signal::Loss);
    assert_eq!(target.cwnd, flow.window.cwnd);
    assert!((target.ssthresh / cwnd - 0.5).abs() < 0.01);
}

/// Processes up to 1000 ACKs of one segment at a window of 100 and returns the number after which PNCD reports.
fn acks_until_found(mut pncd: Pncd, filled: f64, ssthresh: f64, limited: bool) -> Option<u32> {
    let window = update!(Window { ssthresh: ssthresh * MSS.as_f64(), ..Window::new(100.0 * MSS.as_f64()) });
    let mut ack = Ack::new(Time::ZERO);
    (ack.delivered, ack.cwnd_limited) = (MSS, limited);
    (1..=1000).find(|n| {
        ack.round_start = n % 100 == 1;
        pncd.on_ack(&ack, filled * MSS.as_f64(), &window, MSS)
    })
}

/// Two rounds have to begin first, and then more than a window has to count: ACK 101 begins the second round, so ACK
/// 201 is the 101st that counts.
#[test]
fn pncd_needs_a_window_above_the_bound() {
    let pncd = Pncd::default();
    assert_eq!(acks_until_found(pncd, 99.2, 100.0, true), Some(201));
    // 0.6 * 98.5 + 0.4 * 100 = 99.1
    assert_eq!(acks_until_found(pncd, 99.0, 100.0, true), None);
    assert_eq!(acks_until_found(pncd, 79.2, 50.0, true), Some(201));
    assert_eq!(acks_until_found(pncd, 79.0, 50.0, true), None);
    assert_eq!(acks_until_found(pncd, 99.2, 100.0, false), None, "the application is the limit");
    // Without slack the bound is 0.6 * 100 + 0.4 * 100. Without quiet round trips the first ACK counts.
    let strict = Pncd { slack: 0.0, ..Pncd::default() };
    assert_eq!(acks_until_found(strict, 99.9, 100.0, true), None);
    assert_eq!(acks_until_found(strict, 100.1, 100.0, true), Some(201));
    for (quiet_rounds, found) in [(0, 101), (1, 101), (3, 301), (9, 901)] {
        let pncd = Pncd { quiet_rounds, ..Pncd::default() };
        assert_eq!(acks_until_found(pncd, 99.2, 100.0, true), Some(found), "{quiet_rounds}");
    }
}

/// Over an idle path PNCD reports repeatedly, and with a queue that limits the rate never.
#[test]
fn pncd_speaks_on_an_idle_path_only() {
    for (bottleneck, expected) in [(false, true), (true, false)] {
        let algorithm = Abse { pncd: true, ..algorithm() };
        let mut flow = Rounds::new(algorithm, MS100, 1000.0);
        flow.window.ssthresh = flow.window.cwnd;
        let mut found = 0;
        for n in 0..30_000 {
            if bottleneck {
                // The link carries 10,000 segments per second; segments above 1000 wait in the queue.
                flow.rtt = Span::from_secs_f64(0.1 * (flow.cwnd() / 1000.0).max(1.0));
            }
            flow.now += Span::from_secs_f64(flow.rtt.as_secs_f64() / flow.cwnd());
            flow.path.latest_rtt = Some(flow.rtt);
            flow.path.min_rtt = Some(MS100);
            let mut ack = Ack::new(flow.now);
            (ack.delivered, ack.cwnd_limited, ack.round_start) = (MSS, true, n % 1000 == 0);
            ack.prior_in_flight = Bytes::from_f64(flow.window.cwnd);
            flow.algorithm.observe(&ack, &flow.path);
            found += u32::from(flow.algorithm.on_ack(&ack, MSS, &flow.path, &mut flow.window) == AvoidanceStep::Grow);
        }
        assert_eq!(found > 3, expected, "{found}");
        assert!(expected || found == 0, "{found}");
    }
}
