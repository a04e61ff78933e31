use super::*;

impl Bandwidth {
    /// Processes an ACK at `now` for `delivered` bytes, with an RTT of `rtt`.
    pub(crate) fn on_ack(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) {
        self.on_ack_of(None, now, delivered, rtt);
    }
}

const TAU: Span = Span::from_secs(1);
const BASE: Time = Time::from_nanos(7_000_000_000);

fn at(secs: f64) -> Time {
    BASE + Span::from_secs_f64(secs)
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1e-3), "{value}, not {expected}");
}

/// With ACKs a tenth of tau apart, the coefficients are 19/21 and 1/21.
#[test]
fn the_coefficients_are_nineteen_and_one_of_twenty_one() {
    let mut be = Bandwidth::new(TAU, BandwidthStart::Zero);
    be.on_ack(at(0.0), Bytes(1000), None);
    let mut expected = 0.0;
    let mut before = 0.0;
    for (k, bytes) in [1000, 3000, 500, 8000].into_iter().enumerate() {
        be.on_ack(at(0.1 * (k + 1) as f64), Bytes(bytes), None);
        let sample = bytes as f64 / 0.1;
        expected = 19.0 / 21.0 * expected + (sample + before) / 21.0;
        before = sample;
        close(be.rate(), expected);
    }
}

/// Step response of a first-order filter: 1 - exp(-t / tau), for any spacing of the ACKs.
#[test]
fn a_step_is_followed_with_the_time_constant() {
    for spacing in [0.001, 0.01, 0.05] {
        let mut be = Bandwidth::new(TAU, BandwidthStart::Zero);
        let count = (3.0 / spacing) as u32;
        for k in 0..=count {
            be.on_ack(at(spacing * f64::from(k)), Bytes((1e7 * spacing) as u64), None);
        }
        let expected = 1e7 * (1.0 - (-3.0_f64).exp());
        assert!((be.rate() / expected - 1.0).abs() < 0.01, "{spacing}: {}, not {expected}", be.rate());
    }
}

/// A gap of 2 tau yields three samples of zero (the first averaged with the last real one), and then the real one
/// over the rest, half of tau.
#[test]
fn silence_inserts_samples_of_zero() {
    let mut be = Bandwidth::new(TAU, BandwidthStart::Zero);
    be.on_ack(at(0.0), Bytes(1000), None);
    be.on_ack(at(0.1), Bytes(1000), None);
    let start = 1e4 / 21.0;
    be.on_ack(at(2.1), Bytes(1000), None);
    let silent = (0.6 * start + 0.2 * 1e4) * 0.6 * 0.6;
    close(be.rate(), 0.6 * silent + 0.2 * 2000.0);
}

#[test]
fn a_gap_of_weeks_takes_no_loop_and_forgets_everything() {
    let mut be = Bandwidth::new(Span::from_micros(1), BandwidthStart::Zero);
    be.on_ack(at(0.0), Bytes(1000), None);
    be.on_ack(at(0.1), Bytes(1 << 40), None);
    be.on_ack(at(2e6), Bytes(1), None);
    assert!(be.rate().is_finite() && be.rate() < 1e7, "{}", be.rate());
}

#[test]
fn acks_of_one_instant_count_as_one() {
    let (mut one, mut split) = (Bandwidth::new(TAU, BandwidthStart::Round), Bandwidth::new(TAU, BandwidthStart::Round));
    for k in 0..50 {
        let now = at(0.01 * f64::from(k));
        one.on_ack(now, Bytes(3000), Some(Span::from_millis(100)));
    }
    for k in 0..50 {
        let now = at(0.01 * f64::from(k));
        // Data acknowledged after the first ACK of an instant belongs to the next sample.
        split.on_ack(now, Bytes(1000), Some(Span::from_millis(100)));
        split.on_ack(now, Bytes(2000), Some(Span::from_millis(100)));
    }
    assert!((split.rate() / one.rate() - 1.0).abs() < 0.02, "{} {}", split.rate(), one.rate());
}

/// The filter starts from the rate of the first round trip, or from zero if so configured.
#[test]
fn the_first_round_trip_seeds_it() {
    let rtt = Some(Span::from_millis(100));
    let (mut seeded, mut published) =
        (Bandwidth::new(TAU, BandwidthStart::Round), Bandwidth::new(TAU, BandwidthStart::Zero));
    for k in 0..=10 {
        for be in [&mut seeded, &mut published] {
            be.on_ack(at(0.01 * f64::from(k)), Bytes(10_000), rtt);
        }
    }
    close(seeded.rate(), 1e6);
    let expected = 1e6 * (1.0 - (-0.1_f64).exp());
    assert!((published.rate() / expected - 1.0).abs() < 0.1, "{}", published.rate());
}

/// Known fault: ACKs that arrive back to back after a pause of less than tau / 2 are taken for a faster path.
#[test]
fn compressed_acks_raise_it() {
    let mut be = Bandwidth::new(Span::from_millis(100), BandwidthStart::Round);
    let rtt = Some(Span::from_millis(100));
    for k in 0..100 {
        be.on_ack(at(0.01 * f64::from(k)), Bytes(10_000), rtt);
    }
    close(be.rate(), 1e6);
    // Five ACKs at once, 40 ms late and 10 us apart.
    for k in 0..5 {
        be.on_ack(at(1.03 + 1e-5 * f64::from(k)), Bytes(10_000), rtt);
    }
    assert!(be.rate() > 1.1e6, "{}", be.rate());
}

/// Returns an ACK that arrives at `arrives` for `bytes` sent at `sent`, both in seconds.
fn told(arrives: f64, sent: f64, bytes: u64) -> Ack<'static> {
    let mut ack = Ack::new(at(arrives));
    ack.delivered = Bytes(bytes);
    ack.rtt = Some(longhaul_cc::RttSample::new(at(arrives).since(at(sent)), at(sent)));
    ack
}

/// If data is sent as evenly as it is acknowledged, a tenth of tau apart, the send times have no effect.
#[test]
fn the_coefficients_are_the_same_where_sending_is_known() {
    let mut be = Bandwidth::new(TAU, BandwidthStart::Zero);
    be.observe(&told(1.0, 0.9, 1000), None);
    let (mut expected, mut before) = (0.0, 0.0);
    for (k, bytes) in [1000, 3000, 500, 8000].into_iter().enumerate() {
        let arrives = 1.0 + 0.1 * (k + 1) as f64;
        be.observe(&told(arrives, arrives - 0.1, bytes), None);
        let sample = bytes as f64 / 0.1;
        expected = 19.0 / 21.0 * expected + (sample + before) / 21.0;
        before = sample;
        close(be.rate(), expected);
    }
}

/// If data is sent evenly and acknowledged in bunches, no sample exceeds the send rate, and neither does the average.
#[test]
fn compression_is_bounded_by_the_rate_of_sending() {
    let (mut known, mut blind) = (Bandwidth::new(TAU, BandwidthStart::Zero), Bandwidth::new(TAU, BandwidthStart::Zero));
    for k in 0..1000_u32 {
        let sent = 0.01 * f64::from(k);
        let arrives = 0.1 + 0.04 * f64::from(k / 4) + 1e-4 * f64::from(k % 4);
        known.observe(&told(arrives, sent, 10_000), None);
        blind.on_ack(at(arrives), Bytes(10_000), None);
    }
    assert!(known.rate() <= 1e6 * 1.001 && known.rate() > 0.5e6, "{}", known.rate());
    assert!(blind.rate() > 10e6, "{}", blind.rate());
}

/// The estimate is at most the largest of the latest delivery-rate samples, each of which spans a round trip.
#[test]
fn no_estimate_is_above_the_delivery_rate_samples() {
    let mut be = Bandwidth::new(TAU, BandwidthStart::Round);
    for k in 0..500 {
        let arrives = 0.01 * f64::from(k);
        let mut ack = told(arrives, arrives - 0.1, 20_000);
        ack.round_start = k % 10 == 0;
        ack.rate = Some(longhaul_cc::RateSample::new(Bytes(120_000), Span::from_millis(100)));
        be.observe(&ack, Some(Span::from_millis(100)));
    }
    close(be.rate(), 1.2e6);
}

/// A loss ends slow start over round trips of 50 ms after 0.5 s. A filter of one second has reached less than half of
/// the last rate; an estimate that follows the delivery-rate samples has reached it. After the loss the filter
/// applies.
#[test]
fn the_first_loss_finds_the_last_rate() {
    let run = |start| {
        let mut be = Bandwidth::new(TAU, start);
        for round in 0..10_u32 {
            let bytes = 1000 << round;
            for k in 0..10_u32 {
                let arrives = 0.05 * f64::from(round) + 0.005 * f64::from(k);
                let mut ack = told(arrives, arrives - 0.05, bytes / 10);
                ack.round_start = k == 0;
                ack.rate = Some(longhaul_cc::RateSample::new(Bytes(bytes), Span::from_millis(50)));
                be.observe(&ack, Some(Span::from_millis(50)));
            }
        }
        be.settle();
        be
    };
    let last = 512_000.0 / 0.05;
    assert!(run(BandwidthStart::Zero).rate() < 0.2 * last && run(BandwidthStart::Round).rate() < 0.2 * last);
    let mut be = run(BandwidthStart::Rise);
    close(be.rate(), last);
    for k in 0..20_u32 {
        let arrives = 0.5 + 0.005 * f64::from(k);
        be.observe(&told(arrives, arrives - 0.05, 12_800), None);
    }
    // A tenth of a second at a quarter of the rate.
    let expected = last * (0.25 + 0.75 * (-0.1_f64).exp());
    assert!((be.rate() / expected - 1.0).abs() < 0.02, "{}, not {expected}", be.rate());
}

/// If the rest of a gap after its samples of zero is too short, half of tau is used instead.
#[test]
fn a_remainder_of_microseconds_is_no_span() {
    let mut be = Bandwidth::new(TAU, BandwidthStart::Zero);
    be.on_ack(at(0.0), Bytes(1000), None);
    be.on_ack(at(0.5) + Span::from_micros(1), Bytes(1000), None);
    be.on_ack(at(0.6), Bytes(1000), None);
    assert!(be.rate() <= 1000.0 / 0.1, "{}", be.rate());
}
