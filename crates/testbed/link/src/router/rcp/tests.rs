use proptest::prelude::*;

use super::*;

/// A link of 1 MB/s with `queue` bytes waiting.
fn view(queue: u64) -> View {
    View { rate: Some(Rate::from_bytes_per_sec(1_000_000)), packets: 0, bytes: queue }
}

fn micros(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn request(rtt_micros: u32) -> Option<Request> {
    Some(Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros })
}

/// Returns a router whose first interval has begun at time zero.
fn begun(config: RcpConfig) -> Rcp {
    let mut rcp = Rcp::new(config);
    rcp.turn(micros(0), &view(0));
    rcp
}

/// Returns the rate in the answer to a request.
fn told(rcp: &Rcp, asked: WireRate) -> u64 {
    let mut forward = Forward { ttl: 64, stamps: 0, request: Request::Rcp { rate: asked, rtt_micros: 0 } };
    rcp.answer(&view(0), &mut forward);
    let Request::Rcp { rate, .. } = forward.request else { panic!("another kind") };
    rate.rate().as_bytes_per_sec()
}

fn rate(rcp: &Rcp) -> f64 {
    rcp.clock.unwrap().rate
}

fn assert_near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-9, "{value}, not {expected}");
}

/// Expected values by hand: T/d = 0.05; alpha (gC - y) = 0.4 x 500,000; beta Q/d = 0.4 x 10,000 / 0.2.
#[test]
fn one_interval() {
    for (gamma, queue, expected) in [
        (1.0, 0, 50_000.0 * (1.0 + 0.05 * 0.2)),
        (1.0, 10_000, 50_000.0 * (1.0 + 0.05 * 0.18)),
        (0.95, 0, 50_000.0 * (1.0 + 0.05 * 180_000.0 / 950_000.0)),
        // The factor 0.2 - 200 / 0.2 is below zero, which gives the minimum rate: 0.01 packets of 1000 bytes per RTT.
        (1.0, 500_000_000, 50.0),
    ] {
        let mut rcp = begun(RcpConfig { gamma, ..RcpConfig::default() });
        assert_eq!(rate(&rcp), 50_000.0, "5 % of the link");
        (0..5).for_each(|_| rcp.arrives(micros(1), &view(0), 1000, None));
        rcp.turn(micros(9_999), &view(queue));
        assert_eq!(rate(&rcp), 50_000.0, "it stands for 10 ms");
        rcp.turn(micros(10_000), &view(queue));
        assert_near(rate(&rcp), expected);
        assert_eq!(told(&rcp, WireRate::UNLIMITED), expected as u64);
    }
}

/// Expected values by hand: the gain of a longer RTT is T/d = 0.05; that of a shorter one is smaller by R/C x mean/d.
#[test]
fn the_mean_rtt() {
    for (packets, expected) in [
        (&[(1000, 400_000)][..], 0.2 + 0.05 * 0.2),
        (&[(1000, 100_000)], 0.2 - 0.05 * 0.5 * 0.05 * 0.1),
        (&[(1000, 400_000), (3000, 800_000)], 0.2 + 0.05 * 0.5),
        // Unknown RTTs do not count, and RTTs are limited to 10 s.
        (&[(9000, 0)], 0.2),
        (&[(1000, u32::MAX), (9000, 0)], 0.2 + 0.05 * 9.8),
    ] {
        let mut rcp = begun(RcpConfig::default());
        packets.iter().for_each(|(bytes, rtt)| rcp.arrives(micros(1), &view(0), *bytes, request(*rtt)));
        rcp.turn(micros(10_000), &view(0));
        assert_near(rcp.rtt, expected);
    }
    // A mean RTT below 10 ms is used as the interval.
    let mut rcp = begun(RcpConfig { first_rtt: Span::from_millis(4), ..RcpConfig::default() });
    rcp.turn(micros(4_000), &view(0));
    assert_near(rate(&rcp), 50_000.0 * 1.4);
}

#[test]
fn a_packet_counts_in_the_intervals_of_its_transmission() {
    let mut rcp = begun(RcpConfig::default());
    // 1000 bytes take 1 ms, a quarter of which is before the end of the interval.
    rcp.arrives(micros(9_750), &view(0), 1000, None);
    let clock = rcp.clock.unwrap();
    assert_near(clock.arrived, 250.0);
    assert_near(clock.spill, 750.0);
    rcp.turn(micros(10_000), &view(0));
    assert_near(rate(&rcp), 50_000.0 * (1.0 + 0.05 * 0.4 * 0.975));
    assert_near(rcp.clock.unwrap().arrived, 750.0);
    assert_eq!(rcp.clock.unwrap().spill, 0.0);
}

#[test]
fn rates_stay_between_their_bounds() {
    let mut rcp = begun(RcpConfig { gamma: 0.9, ..RcpConfig::default() });
    rcp.turn(micros(100_000_000), &view(0));
    assert_near(rate(&rcp), 900_000.0);
    // 1 GB is waiting for 10 s.
    rcp.turn(micros(110_000_000), &view(1 << 30));
    assert_near(rate(&rcp), 50.0);
    // A lower requested rate is unchanged, a higher one is reduced to the router's rate.
    assert_eq!(told(&rcp, WireRate::new(Rate::from_bytes_per_sec(49))), 49);
    assert_eq!(told(&rcp, WireRate::new(Rate::from_bytes_per_sec(51))), 50);
    // Even on a link of 1 byte per second, the advertised rate is not zero.
    let slow = View { rate: Some(Rate::from_bytes_per_sec(1)), packets: 0, bytes: 0 };
    let mut rcp = Rcp::new(RcpConfig::default());
    rcp.turn(micros(0), &slow);
    assert_eq!(told(&rcp, WireRate::UNLIMITED), 1);
}

#[test]
fn idle_intervals_at_once_equal_single_steps() {
    // Queues of 0 and 90 kB are below the equilibrium of 200 kB between gC alpha and Q beta/d, that of 900 kB is
    // above.
    for (queue, end) in [(0, 1e6), (90_000, 1e6), (900_000, 50.0)] {
        let (mut steps, mut once) = (begun(RcpConfig::default()), begun(RcpConfig::default()));
        (0..200).for_each(|step| steps.turn(micros(10_000 * step), &view(queue)));
        once.turn(micros(1_990_000), &view(queue));
        assert_near(rate(&once), rate(&steps));
        assert_eq!(once.clock.unwrap().ends, steps.clock.unwrap().ends);
        // Advancing to the end of time takes one step.
        once.turn(Time::MAX, &view(queue));
        assert_near(rate(&once), end);
    }
}

#[test]
fn requests_of_other_kinds_pass_unchanged() {
    let rcp = begun(RcpConfig::default());
    let request = Request::QuickStart { rate: Default::default(), nonce: Default::default() };
    let before = Forward { ttl: 9, stamps: 3, request };
    let mut forward = before;
    assert_eq!(rcp.answer(&view(0), &mut forward), Answer::Passed);
    assert_eq!(forward, before);
    // A link without a rate grants every request.
    let unlimited = View { rate: None, packets: 0, bytes: 0 };
    let request = self::request(7).unwrap();
    let mut forward = Forward { request, ..before };
    assert_eq!(Rcp::new(RcpConfig::default()).answer(&unlimited, &mut forward), Answer::Granted);
    assert_eq!(forward.request, request);
}

proptest! {
    #[test]
    fn rates_are_never_above_the_request_nor_out_of_bounds(
        capacity in prop_oneof![1..u64::MAX, 1..100_000_000u64],
        alpha in 0.001..10.0f64,
        beta in 0.0..10.0f64,
        gamma in 0.01..1.0f64,
        packets in prop::collection::vec(
            (prop_oneof![0..20_000_000u64, any::<u64>()], 0..70_000u64, any::<u32>(), any::<u32>(), any::<u64>()),
            1..60,
        ),
    ) {
        let config = RcpConfig { alpha, beta, gamma, ..RcpConfig::default() };
        prop_assert!(config.validate().is_ok());
        let mut rcp = Rcp::new(config);
        let mut now = Time::ZERO;
        for (pause, bytes, rtt, asked, queue) in packets {
            now += Span::from_nanos(pause);
            let view = View { rate: Some(Rate::from_bytes_per_sec(capacity)), packets: 0, bytes: queue };
            rcp.turn(now, &view);
            rcp.arrives(now, &view, bytes, request(rtt));
            let clock = rcp.clock.unwrap();
            prop_assert!(clock.rate > 0.0 && clock.rate <= gamma * capacity as f64);
            prop_assert!(clock.arrived >= 0.0 && clock.spill >= 0.0);
            prop_assert!(rcp.rtt >= LEAST_RTT && rcp.rtt <= 10.0);
            let asked = WireRate(asked);
            let told = told(&rcp, asked);
            prop_assert!(told <= asked.rate().as_bytes_per_sec());
            prop_assert!(told >= 1 || asked.rate() == Rate::ZERO);
        }
    }
}
