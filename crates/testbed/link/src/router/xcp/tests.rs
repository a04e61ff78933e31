use longhaul_units::Rate;
use longhaul_wire::network::WireRate;
use proptest::prelude::*;

use super::*;
use crate::hook::View;

/// A link of 1 MB/s with `queue` bytes waiting.
fn view(queue: u64) -> View {
    View { rate: Some(Rate::from_bytes_per_sec(1_000_000)), packets: 0, bytes: queue }
}

fn millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn ask(throughput: u64, rtt_millis: u32, delta: i64) -> Request {
    let throughput = WireRate::new(Rate::from_bytes_per_sec(throughput));
    Request::Xcp { throughput, rtt_micros: rtt_millis * 1000, delta: WireDelta::new(delta) }
}

fn answer(xcp: &mut Xcp, bytes: u64, request: Request) -> i64 {
    let mut forward = Forward { ttl: 64, stamps: 0, request };
    xcp.answer(&view(0), bytes, &mut forward);
    let Request::Xcp { delta, .. } = forward.request else { panic!("another kind") };
    delta.bytes_per_sec()
}

/// Returns a router that has received, in its first 50 ms, `packets` packets of 1000 bytes from senders of 100 kB/s
/// with an RTT of 100 ms, for which X is 10 ms.
fn after(packets: usize, queue: u64) -> Xcp {
    let mut xcp = Xcp::new(XcpConfig::default());
    xcp.turn(millis(0), &view(queue));
    (0..packets).for_each(|_| xcp.arrives(1000, Some(ask(100_000, 100, 0))));
    // Set the minimum queue as if it had been the same throughout the last interval.
    xcp.turn(millis(1), &view(queue));
    (xcp.queue, xcp.least_queue) = (queue as f64, queue as f64);
    xcp.turn(millis(50), &view(queue));
    xcp
}

const MORE: i64 = 1 << 40;

/// Expected values by hand: y = 10,000 B / 50 ms; phi = 0.4 x 800,000; nothing is shuffled, because 0.1 y is less
/// than phi. Each of ten packets gets a tenth, and the eleventh gets nothing.
#[test]
fn spare_rate_is_given_by_the_senders_intervals() {
    let mut xcp = after(10, 0);
    assert!((xcp.rtt - 0.1).abs() < 1e-12 && (xcp.give - 320_000.0).abs() < 1e-6 && xcp.take == 0.0, "{xcp:?}");
    for _ in 0..10 {
        assert!((31_999..=32_000).contains(&answer(&mut xcp, 1000, ask(100_000, 100, MORE))));
    }
    assert!(xcp.give < 1.0, "{}", xcp.give);
    assert!(answer(&mut xcp, 1000, ask(100_000, 100, MORE)) < 1);
}

/// Expected values by hand: y = 1.2 MB/s, phi = -80,000, shuffled traffic 0.1 y - 80,000 = 40,000. Positive feedback
/// is 40,000 or 666.7 per packet, negative feedback 120,000 or 2 per byte.
#[test]
fn too_much_is_taken_by_bytes_and_a_tenth_is_shuffled() {
    let mut xcp = after(60, 0);
    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
    assert!(near(xcp.give, 40_000.0) && near(xcp.take, 120_000.0), "{xcp:?}");
    let sum: i64 = (0..60).map(|_| answer(&mut xcp, 1000, ask(100_000, 100, MORE))).sum();
    assert!((-80_060..=-80_000).contains(&sum), "{sum}");
    // At twice the rate, the negative feedback per byte is the same, and the positive feedback per packet is half.
    let mut xcp = after(60, 0);
    assert_eq!(answer(&mut xcp, 1000, ask(200_000, 100, MORE)), -1667);
    assert_eq!(answer(&mut xcp, 500, ask(100_000, 100, MORE)), -667);
}

/// Expected value by hand: 0.226 x 9,000 / 0.1 = 20,340 less than without a queue.
#[test]
fn a_standing_queue_is_drained() {
    let xcp = after(10, 9_000);
    assert!((xcp.give - (320_000.0 - 20_340.0)).abs() < 1e-6, "{}", xcp.give);
}

#[test]
fn feedback_refused_upstream_goes_to_other_senders() {
    let mut xcp = after(10, 0);
    assert_eq!(answer(&mut xcp, 1000, ask(100_000, 100, 12_000)), 12_000);
    assert_eq!(xcp.give, 308_000.0);
    // If feedback is negative, a sender reduced further upstream reduces the share of the others.
    let mut xcp = after(60, 0);
    assert_eq!(answer(&mut xcp, 1000, ask(100_000, 100, -50_000)), -50_000);
    assert!((xcp.take - (120_000.0 - 2_000.0 - (50_000.0 - 4_000.0 / 3.0))).abs() < 1e-6, "{}", xcp.take);
    assert!((xcp.give - (40_000.0 - 2_000.0 / 3.0)).abs() < 1e-6, "{}", xcp.give);
}

#[test]
fn without_an_rtt_no_feedback_and_low_throughput_counts_as_a_packet_per_rtt() {
    let mut xcp = after(10, 0);
    assert_eq!(answer(&mut xcp, 1000, ask(100_000, 0, MORE)), 0);
    assert_eq!(answer(&mut xcp, 1000, ask(100_000, 0, -5)), -5);
    // X is limited to the RTT of 100 ms, ten times that of the others: half of the 20 packets' feedback of 0.4 x
    // 600,000.
    for throughput in [0, 1, 9_999, 10_000] {
        let given = answer(&mut after(20, 0), 1000, ask(throughput, 100, MORE));
        assert!((119_999..=120_000).contains(&given), "{given}");
    }
    // RTTs above 1 s count as 1 s.
    let mut xcp = Xcp::new(XcpConfig::default());
    xcp.turn(millis(0), &view(0));
    xcp.arrives(1000, Some(ask(1000, 4_000_000, 0)));
    xcp.turn(millis(50), &view(0));
    assert_eq!(xcp.rtt, 1.0);
}

#[test]
fn intervals_are_mean_rtts() {
    let mut xcp = Xcp::new(XcpConfig::default());
    xcp.turn(millis(0), &view(0));
    // X is 10 ms at an RTT of 100 ms and 30 ms at 300 ms: (1 + 9) / 40 s.
    xcp.arrives(1000, Some(ask(100_000, 100, 0)));
    xcp.arrives(3000, Some(ask(100_000, 300, 0)));
    xcp.arrives(9000, None);
    xcp.turn(millis(50), &view(0));
    assert!((xcp.rtt - 0.25).abs() < 1e-12);
    let clock = xcp.clock.unwrap();
    assert!(millis(300) - clock.ends <= Span::from_nanos(1) && clock.ends <= millis(300), "{:?}", clock.ends);
    // Without a reported RTT, the initial interval applies again.
    xcp.turn(millis(300), &view(0));
    assert_eq!(xcp.clock.unwrap().interval, Span::from_millis(50));
}

#[test]
fn the_queue_is_the_minimum_over_half_an_rtt() {
    let mut xcp = Xcp::new(XcpConfig::default());
    xcp.turn(millis(0), &view(0));
    xcp.turn(millis(50), &view(8_000));
    // The queue interval was as long; the next one is (50 ms - 8 ms) / 2.
    assert_eq!((xcp.queue, xcp.clock.unwrap().queue_ends), (0.0, millis(71)));
    for (at, queue) in [(51, 7_000), (60, 3_000), (70, 9_000)] {
        xcp.turn(millis(at), &view(queue));
    }
    xcp.turn(millis(71), &view(9_000));
    assert_eq!(xcp.queue, 3_000.0);
}

#[test]
fn idle_intervals_are_skipped() {
    let mut xcp = after(10, 0);
    xcp.turn(millis(1_000_000_000_000), &view(0));
    assert_eq!((xcp.give, xcp.take), (0.0, 0.0));
    assert!(xcp.clock.unwrap().ends > millis(1_000_000_000_000));
    xcp.turn(Time::MAX, &view(1 << 40));
}

#[test]
fn requests_of_other_kinds_pass_unchanged() {
    let mut xcp = after(10, 0);
    let before = Forward { ttl: 9, stamps: 3, request: Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 1 } };
    let mut forward = before;
    assert_eq!(xcp.answer(&view(0), 1000, &mut forward), Answer::Passed);
    assert_eq!(forward, before);
    // A link without a rate grants every request.
    let unlimited = View { rate: None, packets: 0, bytes: 0 };
    let request = ask(1, 1, 1 << 50);
    let mut forward = Forward { request, ..before };
    assert_eq!(Xcp::new(XcpConfig::default()).answer(&unlimited, 1000, &mut forward), Answer::Granted);
    assert_eq!(forward.request, request);
}

proptest! {
    #[test]
    fn feedback_is_never_above_the_request_and_residues_never_negative(
        capacity in prop_oneof![1..u64::MAX, 1..100_000_000u64],
        packets in prop::collection::vec(
            (
                prop_oneof![0..20_000_000u64, any::<u64>()],
                0..70_000u64,
                prop_oneof![any::<u32>(), 0..2_000_000u32],
                prop_oneof![any::<u32>(), 0..10_000_000u32],
                any::<u32>(),
                prop_oneof![any::<u64>(), 0..100_000u64],
            ),
            1..80,
        ),
    ) {
        let mut xcp = Xcp::new(XcpConfig::default());
        let mut now = Time::ZERO;
        for (pause, bytes, rtt_micros, throughput, delta, queue) in packets {
            now += Span::from_nanos(pause);
            let view = View { rate: Some(Rate::from_bytes_per_sec(capacity)), packets: 0, bytes: queue };
            xcp.turn(now, &view);
            let (throughput, delta) = (WireRate(throughput), WireDelta(delta));
            let request = Request::Xcp { throughput, rtt_micros, delta };
            xcp.arrives(bytes, Some(request));
            let told = answer(&mut xcp, bytes, request);
            prop_assert!(told <= delta.bytes_per_sec(), "{} of {}", told, delta.bytes_per_sec());
            for residue in [xcp.give, xcp.take, xcp.per_gap, xcp.per_byte, xcp.queue, xcp.least_queue, xcp.gaps] {
                prop_assert!(residue >= 0.0 && residue.is_finite(), "{:?}", xcp);
            }
            prop_assert!(xcp.rtt > 0.0 && xcp.rtt <= 1.0);
        }
    }
}
