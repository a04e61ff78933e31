use longhaul_cc::compose::LossCause;
use longhaul_cc::update;

use super::*;
use crate::tests::Rounds;

const MS100: Span = Span::from_millis(100);

fn be() -> Bandwidth {
    Bandwidth::new(Span::from_secs(1), BandwidthStart::Round)
}

fn by_be() -> Eligible {
    Eligible { be: Some(be()), rate: None }
}

fn by(rate: RoundRate) -> Eligible {
    Eligible { be: None, rate: Some(rate) }
}

fn westwood(eligible: Eligible) -> Westwood {
    Westwood::new(eligible, Common::default(), RttChoice::Latest)
}

fn all() -> [Eligible; 4] {
    let re = RoundRate::achieved(0.9);
    [by_be(), by(re), Eligible { be: Some(be()), rate: Some(re) }, by(RoundRate::plus())]
}

/// Returns a flow that has held 1000 segments for `secs` seconds over a path of 100 ms, with `queue_ms` of queue at
/// the end.
fn flow(eligible: Eligible, queue_ms: u64, secs: f64) -> Rounds<Westwood> {
    let mut flow = Rounds::new(westwood(eligible), MS100, 1000.0);
    flow.run(0.2);
    flow.rtt = MS100 + Span::from_millis(queue_ms);
    let until = flow.now + Span::from_secs_f64(secs);
    while flow.now < until {
        flow.ack();
        flow.window.cwnd = 1000.0 * 1460.0;
    }
    flow
}

/// A loss without a queue keeps the window, because the rate is the window over the minimum RTT.
#[test]
fn a_loss_by_chance_keeps_the_window() {
    for eligible in all() {
        let kept = flow(eligible, 0, 6.0).lose();
        assert!(kept > 0.97, "{eligible:?}: {kept}");
    }
}

/// A loss with a standing queue gives up the queue's part of the window: RTTmin / RTT is kept.
#[test]
fn a_loss_with_a_queue_drains_it() {
    for (queue, expected) in [(50, 2.0 / 3.0), (100, 0.5), (300, 0.25)] {
        for eligible in all() {
            let kept = flow(eligible, queue, 20.0).lose();
            assert!((kept / expected - 1.0).abs() < 0.03, "{queue} ms, {eligible:?}: {kept}, not {expected}");
        }
    }
}

/// The threshold becomes the estimate even if that exceeds the window, which stays as it is (MobiCom 2001).
#[test]
fn the_window_never_rises_at_a_loss() {
    let mut flow = flow(by(RoundRate::plus()), 0, 6.0);
    flow.window.cwnd /= 4.0;
    let target = flow.ask(Signal::Loss);
    assert_eq!(target.cwnd, flow.window.cwnd);
    assert!(target.ssthresh > 3.5 * flow.window.cwnd);
}

#[test]
fn a_round_raises_by_one_segment() {
    let mut flow = flow(by_be(), 0, 0.1);
    assert!((flow.round() - 1.0).abs() < 0.01);
}

/// Without an estimate, and at a mark, half is kept. A classifier that judges a loss as random keeps more.
#[test]
fn marks_and_ignorance_halve_and_doubt_keeps_more() {
    let mut blind = Rounds::new(westwood(by_be()), MS100, 100.0);
    assert_eq!(blind.lose(), 0.5);
    let mut seeing = flow(by_be(), 0, 6.0);
    let cwnd = seeing.window.cwnd;
    assert!((seeing.ask(Signal::Ecn).cwnd / cwnd - 0.5).abs() < 1e-6);
    let mut queued = flow(by(RoundRate::achieved(0.9)), 100, 20.0);
    for (severity, kept) in [(1.0, 0.5), (0.5, 0.75), (0.0, 1.0)] {
        let event = CongestionEvent::new(queued.now, Signal::Loss, Bytes::from_f64(cwnd), cwnd);
        let event = update!(CongestionEvent { cause: LossCause::new(severity), ..event });
        let target = queued.algorithm.reduce(&event, &queued.path);
        assert!((target.cwnd / cwnd - kept).abs() < 0.02, "{severity}: {}", target.cwnd / cwnd);
    }
}

/// CRB presumes congestion if the window is more than 1.4 times what RE fills.
#[test]
fn crb_chooses_by_the_queue() {
    for (queue, cwnd_over_achieved) in [(30, 1.3), (50, 1.5)] {
        let flow = flow(all()[2], queue, 20.0);
        let Eligible { be: Some(be), rate: Some(re) } = flow.algorithm.eligible else { unreachable!() };
        let ratio = 1460e3 / (re.rate() * 0.1);
        assert!((ratio - cwnd_over_achieved).abs() < 0.02, "{ratio}");
        let doubled = Eligible { be: Some(self::be()), rate: Some(re) };
        let chosen = doubled.window(1460e3, 0.1);
        // A BE of zero shows which of the two estimates was used.
        assert_eq!(chosen > 0.0, ratio > 1.4, "{queue} ms");
        assert!(be.rate() > 0.0);
    }
}

/// Westwood+ measures the minimum RTT anew after a timeout; the other variants keep it.
#[test]
fn only_plus_forgets_the_least_round_trip_at_a_timeout() {
    for eligible in all() {
        let mut flow = flow(eligible, 100, 1.0);
        flow.time_out();
        let expected = if eligible.relearns() { 200 } else { 100 };
        assert_eq!(flow.algorithm.rtt_min.get(), Some(Span::from_millis(expected)), "{eligible:?}");
    }
}

/// The route becomes 100 ms longer, without a queue. Once the old minimum RTT has expired, a loss keeps the window.
/// With a minimum that never expires, half of it is lost forever.
#[test]
fn a_longer_route_is_found_when_the_window_has_passed() {
    for (window, expected) in [(Span::MAX, 0.5), (Span::from_secs(10), 1.0)] {
        for eligible in all() {
            let mut flow = flow(eligible, 0, 1.0);
            let common = Common { rtt_min_window: window, ..Common::default() };
            flow.algorithm = Westwood::new(flow.algorithm.eligible, common, RttChoice::Latest);
            flow.rtt = MS100;
            flow.ack();
            flow.rtt = MS100 * 2;
            let until = flow.now + Span::from_secs(20);
            while flow.now < until {
                flow.ack();
                flow.window.cwnd = 1000.0 * 1460.0;
            }
            let kept = flow.lose();
            assert!((kept / expected - 1.0).abs() < 0.03, "{window}, {eligible:?}: {kept}");
        }
    }
}

/// With the smoothed RTT, a single short sample is not the minimum.
#[test]
fn the_least_smoothed_round_trip_is_another() {
    for (rtt, expected) in [(RttChoice::Latest, 50), (RttChoice::Smoothed, 100)] {
        let mut algorithm = Westwood::new(all()[3], Common::default(), rtt);
        let mut path = Path::new(crate::tests::MSS);
        for ms in [100, 50, 110] {
            let mut ack = Ack::new(longhaul_units::Time::ZERO);
            let rtt = Span::from_millis(ms);
            ack.rtt = Some(longhaul_cc::RttSample::new(rtt, longhaul_units::Time::ZERO));
            (path.latest_rtt, path.srtt) = (Some(rtt), Some(MS100));
            algorithm.observe(&ack, &path);
        }
        assert_eq!(algorithm.rtt_min.get(), Some(Span::from_millis(expected)), "{rtt:?}");
    }
}

/// The first decrease ends the start-up of the estimates. An undone decrease restores the earlier state, in which
/// start-up continues.
#[test]
fn an_undone_decrease_leaves_the_start_as_it_was() {
    let be = Bandwidth::new(Span::from_secs(1), BandwidthStart::Rise);
    let eligible = Eligible { be: Some(be), rate: None };
    let mut flow = Rounds::new(westwood(eligible), MS100, 1000.0);
    let rate = |segments: f64| Some(longhaul_cc::RateSample::new(Bytes::from_f64(segments * 1460.0), MS100));
    let told = |algorithm: &mut Westwood, segments: f64, now: longhaul_units::Time| {
        let mut ack = Ack::new(now);
        (ack.rate, ack.delivered) = (rate(segments), Bytes(1460));
        algorithm.eligible.on_ack(&ack, Some(MS100));
        algorithm.eligible.window(f64::INFINITY, MS100.as_secs_f64()) / 1460.0
    };
    flow.run(0.2);
    let saved = flow.algorithm;
    flow.lose();
    let (mut undone, mut after) = (saved, flow.algorithm);
    let later = flow.now + MS100;
    assert!((told(&mut undone, 4000.0, later) / 4000.0 - 1.0).abs() < 1e-9);
    assert!(told(&mut after, 4000.0, later) < 1500.0);
}
