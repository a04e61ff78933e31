use super::*;

const TAU: Span = Span::from_secs(1);
const BASE: Time = Time::from_nanos(7_000_000_000);

fn at(secs: f64) -> Time {
    BASE + Span::from_secs_f64(secs)
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1e-3), "{value}, not {expected}");
}

/// With ACKs a tenth of tau apart the coefficients are 19/21 and 1/21.
#[test]
fn the_coefficients_are_nineteen_and_one_of_twenty_one() {
    let mut be = Bandwidth::new(TAU, false);
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

/// The step response of a first-order filter: 1 - exp(-t / tau), whatever the spacing of the ACKs.
#[test]
fn a_step_is_followed_with_the_time_constant() {
    for spacing in [0.001, 0.01, 0.05] {
        let mut be = Bandwidth::new(TAU, false);
        let count = (3.0 / spacing) as u32;
        for k in 0..=count {
            be.on_ack(at(spacing * f64::from(k)), Bytes((1e7 * spacing) as u64), None);
        }
        let expected = 1e7 * (1.0 - (-3.0_f64).exp());
        assert!((be.rate() / expected - 1.0).abs() < 0.01, "{spacing}: {}, not {expected}", be.rate());
    }
}

/// A gap of 2 tau: three samples of zero (the first averaged with the last real one), then the real one over what is
/// left, half of tau.
#[test]
fn silence_inserts_samples_of_zero() {
    let mut be = Bandwidth::new(TAU, false);
    be.on_ack(at(0.0), Bytes(1000), None);
    be.on_ack(at(0.1), Bytes(1000), None);
    let start = 1e4 / 21.0;
    be.on_ack(at(2.1), Bytes(1000), None);
    let silent = (0.6 * start + 0.2 * 1e4) * 0.6 * 0.6;
    close(be.rate(), 0.6 * silent + 0.2 * 2000.0);
}

#[test]
fn a_gap_of_weeks_takes_no_loop_and_forgets_everything() {
    let mut be = Bandwidth::new(Span::from_micros(1), false);
    be.on_ack(at(0.0), Bytes(1000), None);
    be.on_ack(at(0.1), Bytes(1 << 40), None);
    be.on_ack(at(2e6), Bytes(1), None);
    assert!(be.rate().is_finite() && be.rate() < 1e7, "{}", be.rate());
}

#[test]
fn acks_of_one_instant_count_as_one() {
    let (mut one, mut split) = (Bandwidth::new(TAU, true), Bandwidth::new(TAU, true));
    for k in 0..50 {
        let now = at(0.01 * f64::from(k));
        one.on_ack(now, Bytes(3000), Some(Span::from_millis(100)));
    }
    for k in 0..50 {
        let now = at(0.01 * f64::from(k));
        // What comes after an instant's first ACK belongs to the next sample.
        split.on_ack(now, Bytes(1000), Some(Span::from_millis(100)));
        split.on_ack(now, Bytes(2000), Some(Span::from_millis(100)));
    }
    assert!((split.rate() / one.rate() - 1.0).abs() < 0.02, "{} {}", split.rate(), one.rate());
}

/// The first round trip's rate is where it starts; without, it starts from zero.
#[test]
fn the_first_round_trip_seeds_it() {
    let rtt = Some(Span::from_millis(100));
    let (mut seeded, mut published) = (Bandwidth::new(TAU, true), Bandwidth::new(TAU, false));
    for k in 0..=10 {
        for be in [&mut seeded, &mut published] {
            be.on_ack(at(0.01 * f64::from(k)), Bytes(10_000), rtt);
        }
    }
    close(seeded.rate(), 1e6);
    let expected = 1e6 * (1.0 - (-0.1_f64).exp());
    assert!((published.rate() / expected - 1.0).abs() < 0.1, "{}", published.rate());
}

/// The known fault: ACKs that arrive back to back after a pause of less than tau / 2 are taken for a faster path.
#[test]
fn compressed_acks_raise_it() {
    let mut be = Bandwidth::new(Span::from_millis(100), true);
    let rtt = Some(Span::from_millis(100));
    for k in 0..100 {
        be.on_ack(at(0.01 * f64::from(k)), Bytes(10_000), rtt);
    }
    close(be.rate(), 1e6);
    // 40 ms late, five at once, 10 us apart.
    for k in 0..5 {
        be.on_ack(at(1.03 + 1e-5 * f64::from(k)), Bytes(10_000), rtt);
    }
    assert!(be.rate() > 1.1e6, "{}", be.rate());
}
