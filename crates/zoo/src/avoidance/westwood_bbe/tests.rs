use longhaul_cc::compose::LossCause;
use longhaul_cc::estimate::PairSample;
use longhaul_cc::update;

use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

/// Numbers of the Tokyo path (Gerla et al., PFLDnet 2006): RTT 133 ms, 148 ms at losses, a window of 900 segments of
/// 1448 bytes. The table states the share that each policy keeps, in hundredths.
const KEPT: [(u64, f64, f64, f64); 5] = [
    // RTT, plain, interpolate, adaptive-reno
    (133, 1.00, 1.00, 1.00),
    (136, 0.98, 0.89, 0.83),
    (139, 0.96, 0.77, 0.71),
    (145, 0.92, 0.58, 0.56),
    (148, 0.90, 0.50, 0.50),
];

fn level(rtt: u64) -> f64 {
    (rtt as f64 - 133.0) / 15.0
}

/// Each policy by itself, with BE at the path's 80 Mb/s and RE at the window over the RTT.
#[test]
fn the_policies_keep_what_the_table_says() {
    for (rtt, plain, interpolated, reno) in KEPT {
        let c = level(rtt);
        let be = 80e6 / 8.0 * 0.133 / 1448.0;
        let w = eligible(be, 900.0 * 133.0 / rtt as f64, c, 10.0);
        let kept = |policy| {
            let config = WestwoodBbeConfig { policy, ..WestwoodBbeConfig::default() };
            config.window(c, 900.0, 900.0, w) / 900.0
        };
        let discriminated = if c >= 0.5 { 0.5 } else { plain };
        for (policy, expected) in [
            (Policy::PlainEre, plain),
            (Policy::Interpolate, interpolated),
            (Policy::AdaptiveReno, reno),
            (Policy::Discriminate, discriminated),
        ] {
            assert_eq!((100.0 * kept(policy)).round() / 100.0, expected, "{rtt} ms, {policy:?}");
        }
    }
}

/// Flow whose estimates come from ACKs, and levels from losses.
fn flow(policy: Policy) -> Rounds<WestwoodBbe> {
    flow_of(WestwoodBbeConfig { policy, ..WestwoodBbeConfig::default() })
}

fn flow_of(config: WestwoodBbeConfig) -> Rounds<WestwoodBbe> {
    let mut flow = Rounds::new(WestwoodBbe::new(config), Span::from_millis(133), 900.0);
    flow.round();
    flow.rtt = Span::from_millis(148);
    flow.round();
    flow.lose();
    flow.rtt = Span::from_millis(133);
    for _ in 0..80 {
        flow.window.cwnd = 900.0 * MSS.as_f64();
        flow.round();
    }
    flow.window.cwnd = 900.0 * MSS.as_f64();
    flow
}

/// A queue has just formed. BE and RE are still those without it, so that E is the whole window.
#[test]
fn a_new_queue_shows_in_the_level_only() {
    for (rtt, ..) in KEPT {
        let c = level(rtt);
        let policies = [
            (Policy::PlainEre, 1.0),
            (Policy::Interpolate, 1.0 - c / 2.0),
            (Policy::AdaptiveReno, 1.0 / (1.0 + c)),
            (Policy::Discriminate, if c < 0.5 { 1.0 } else { 0.5 }),
        ];
        for (policy, expected) in policies {
            let mut flow = flow(policy);
            flow.rtt = Span::from_millis(rtt);
            // The minimum of the last eight samples counts.
            for _ in 0..8 {
                flow.ack();
            }
            let kept = flow.lose();
            assert!((kept - expected).abs() < 0.008, "{rtt} ms, {policy:?}: {kept}, not {expected}");
        }
    }
}

/// Runs eighty round trips of `rtt` ms.
fn keep_at(flow: &mut Rounds<WestwoodBbe>, rtt: u64) {
    flow.rtt = Span::from_millis(rtt);
    for _ in 0..80 {
        flow.window.cwnd = 900.0 * MSS.as_f64();
        flow.round();
    }
    flow.window.cwnd = 900.0 * MSS.as_f64();
}

/// Once the flow itself has kept the queue for long, RE has fallen, and with it the window after a loss: the complete
/// table.
#[test]
fn the_estimate_falls_to_the_achieved_rate_with_the_level() {
    for (rtt, _, interpolated, _) in KEPT {
        let mut flow = flow(Policy::Interpolate);
        keep_at(&mut flow, rtt);
        let kept = flow.lose();
        // BE does not exceed the rate either: E = 133 / RTT.
        let c = level(rtt);
        let expected = (1.0 - c) * 133.0 / rtt as f64 + c * 0.5;
        assert!((kept - expected).abs() < 0.006, "{rtt} ms: {kept}, not {expected}");
        assert!(kept < interpolated + 0.006);
    }
}

/// The level at the last loss, the delay of the buffer, and both rates are reported. At 140 ms between 133 and 148 ms
/// the level is 7/15.
#[test]
fn what_it_knows_is_told_by_name() {
    let mut flow = flow(Policy::Interpolate);
    keep_at(&mut flow, 140);
    flow.lose();
    let mut told = Vec::new();
    flow.algorithm.estimates(&mut |estimate| told.push(estimate));
    assert_eq!(told.iter().map(|estimate| estimate.name).collect::<Vec<_>>(), ["be", "re", "level", "buffer"]);
    let Quantity::Number(c) = told[2].value else { panic!("{told:?}") };
    assert!((c - level(140)).abs() < 1e-9, "{c}");
    // A single loss at less than half of the buffer's 15 ms is taken for a random one, and does not change the stored
    // value.
    let Quantity::Span(buffer) = told[3].value else { panic!("{told:?}") };
    assert!((buffer.as_secs_f64() - 0.015).abs() < 1e-6, "{buffer:?}");
}

/// Marks and timeouts count as a full buffer. A classifier that judges a loss as random keeps more. Without an
/// estimate half is kept.
#[test]
fn marks_and_timeouts_halve() {
    for policy in [Policy::Interpolate, Policy::AdaptiveReno, Policy::Discriminate] {
        let mut flow = flow(policy);
        for signal in [Signal::Ecn, Signal::Timeout] {
            assert!((flow.ask(signal).cwnd / flow.window.cwnd - 0.5).abs() < 0.001, "{policy:?}, {signal:?}");
        }
        let event =
            CongestionEvent::new(flow.now, Signal::Timeout, Bytes::from_f64(flow.window.cwnd), flow.window.cwnd);
        let target =
            flow.algorithm.reduce(&update!(CongestionEvent { cause: LossCause::new(0.5), ..event }), &flow.path);
        assert!((target.cwnd / flow.window.cwnd - 0.75).abs() < 0.001, "{policy:?}");
        let blind = WestwoodBbe::new(WestwoodBbeConfig { policy, ..WestwoodBbeConfig::default() });
        let mut blind = Rounds::new(blind, Span::from_millis(100), 100.0);
        assert!((blind.lose() - 0.5).abs() < 1e-9, "{policy:?}");
    }
}

#[test]
fn a_round_raises_by_one_segment() {
    assert!((flow(Policy::Interpolate).round() - 1.0).abs() < 0.01);
}

/// A capacity from pairs does not fall because of the flow's own queue, so that the shares are those of the table,
/// while BE alone leaves less. A peer that reports an infinite capacity gains nothing.
#[test]
fn with_pairs_it_is_the_table() {
    for (rtt, _, interpolated, _) in KEPT {
        for capacity in [CapacitySource::Pairs, CapacitySource::Fused] {
            for dispersion in [Span::from_nanos(144_800), Span::from_nanos(1)] {
                let mut flow = flow_of(WestwoodBbeConfig { capacity, ..WestwoodBbeConfig::default() });
                let first_delay = Span::from_millis(133);
                let pair = update!(PairSample { first_delay, dispersion, bytes: Bytes(1500), ..PairSample::default() });
                flow.algorithm.observe(&update!(Ack { pair: Some(pair), ..Ack::new(flow.now) }), &flow.path);
                keep_at(&mut flow, rtt);
                let kept = flow.lose();
                assert!((kept - interpolated).abs() < 0.01, "{rtt} ms, {capacity:?}: {kept}, not {interpolated}");
            }
        }
    }
}

#[test]
fn pairs_are_asked_for_only_where_they_are_used() {
    for (capacity, asks) in [(CapacitySource::Be, false), (CapacitySource::Pairs, true), (CapacitySource::Fused, true)]
    {
        let needs = WestwoodBbe::new(WestwoodBbeConfig { capacity, ..WestwoodBbeConfig::default() }).needs();
        assert_eq!((needs.preferred.pairs, needs.preferred.arrival_times), (asks, asks));
        assert_eq!(needs.required, Needs::default().required);
    }
}

/// A route of 80 Mb/s becomes one of 800 Mb/s. With `restart` the algorithm resumes slow start once, up to the window
/// that the capacity from pairs fills. It does not if the window already fills the path.
#[test]
fn a_risen_capacity_begins_slow_start_again() {
    for (restart, after, expected) in [(true, 14_480, 1), (false, 14_480, 0), (true, 144_800, 0)] {
        let config = WestwoodBbeConfig { capacity: CapacitySource::Pairs, restart, ..WestwoodBbeConfig::default() };
        let mut flow = flow_of(config);
        let mut asked = 0;
        for n in 0..2400_u64 {
            flow.now += Span::from_millis(100);
            flow.rtt = Span::from_millis(133);
            let dispersion = Span::from_nanos(if n < 1200 { 144_800 } else { after });
            let first_delay = Span::from_millis(133);
            let second_delay = first_delay + dispersion;
            let bytes = Bytes(1500);
            let pair = update!(PairSample { first_delay, second_delay, dispersion, bytes, ..PairSample::default() });
            let ack = update!(Ack { pair: Some(pair), ..Ack::new(flow.now) });
            flow.algorithm.observe(&ack, &flow.path);
            if flow.algorithm.on_ack(&ack, Bytes::ZERO, &flow.path, &mut flow.window) == AvoidanceStep::Grow {
                asked += 1;
                let rate = 1460.0 / 14.48e-6;
                assert!((flow.window.ssthresh / (rate * 0.133) - 1.0).abs() < 0.01, "{}", flow.window.ssthresh);
            }
        }
        assert_eq!(asked, expected, "{restart}, {after}");
    }
}
