use longhaul_units::Time;
use proptest::prelude::*;

use super::*;
use crate::compose::{LossCause, Reason};
use crate::tests::{MSS, segments};

fn algorithm() -> NewReno {
    NewReno::default()
}

fn event(signal: Signal, window: Bytes) -> CongestionEvent {
    CongestionEvent::new(Time::ZERO, signal, window, window.as_f64())
}

/// One segment per round trip, however the ACKs divide the data (RFC 5681, section 3.1).
#[test]
fn a_window_of_acks_raises_by_one_segment() {
    for cut in [100, 1460, 2920, 14_600] {
        let (mut algorithm, path) = (algorithm(), Path::new(MSS));
        let mut window = Window { cwnd: 29_200.0, ssthresh: 0.0 };
        for _ in 0..29_200 / cut {
            algorithm.on_ack(&Ack::new(Time::ZERO), Bytes(cut), &path, &mut window);
        }
        assert_eq!(window.cwnd, 29_200.0 + 1460.0, "ACKs of {cut} bytes");
    }
}

/// With one loss per 1/p segments the window moves between W/2 and W, where 3/8 W^2 = 1/p, so that its average is
/// sqrt(3 / (2 p)) (Mathis et al., CCR 1997).
#[test]
fn the_sawtooth_has_its_closed_form() {
    for p in [1e-3, 1e-4, 1e-5] {
        let (mut algorithm, path) = (algorithm(), Path::new(MSS));
        let mut window = Window { cwnd: 14_600.0, ssthresh: 0.0 };
        let ack = Ack::new(Time::ZERO);
        let (mut area, mut time) = (0.0, 0.0);
        for episode in 0..40 {
            for _ in 0..(1.0 / p) as u64 {
                algorithm.on_ack(&ack, MSS, &path, &mut window);
                if episode >= 20 {
                    // A segment takes 1/W of a round trip, during which the window is W.
                    area += 1.0;
                    time += MSS.as_f64() / window.cwnd;
                }
            }
            window.cwnd = algorithm.reduce(&event(Signal::Loss, Bytes::from_f64(window.cwnd)), &path).cwnd;
            algorithm.begin(&Handoff::new(Time::ZERO, Reason::Loss), &path, &mut window);
        }
        let (average, expected) = (area / time, (1.5_f64 / p).sqrt());
        assert!((average / expected - 1.0).abs() < 0.02, "p = {p}: {average}, not {expected}");
    }
}

/// RFC 5681, equation 4, and RFC 3168, section 6.1.2.
#[test]
fn the_decrease_is_half_with_a_floor() {
    let path = Path::new(MSS);
    let half = algorithm().reduce(&event(Signal::Loss, segments(20)), &path);
    assert_eq!(half, Target { ssthresh: segments(10).as_f64(), cwnd: segments(10).as_f64() });
    let lost = algorithm().reduce(&event(Signal::Loss, segments(3)), &path);
    assert_eq!(lost, Target { ssthresh: segments(2).as_f64(), cwnd: segments(2).as_f64() });
    let marked = algorithm().reduce(&event(Signal::Ecn, segments(2)), &path);
    assert_eq!(marked, Target { ssthresh: segments(2).as_f64(), cwnd: segments(1).as_f64() });
}

/// RFC 8511's factor, and a loss judged between chance and congestion.
#[test]
fn marks_and_verdicts_scale_the_decrease() {
    let path = Path::new(MSS);
    let mut gentle = NewReno { ecn_beta: 0.8, ..NewReno::default() };
    assert_eq!(gentle.reduce(&event(Signal::Ecn, segments(10)), &path).cwnd, segments(8).as_f64());
    for (severity, kept) in [(1.0, 5), (0.5, 0), (0.0, 10)] {
        let event = CongestionEvent { cause: LossCause { severity }, ..event(Signal::Loss, segments(10)) };
        let expected = if kept == 0 { 7.5 * MSS.as_f64() } else { segments(kept).as_f64() };
        assert_eq!(algorithm().reduce(&event, &path).cwnd, expected);
    }
}

proptest! {
    /// However the ACKs divide the data, the window grows by at most one segment per window acknowledged.
    #[test]
    fn never_more_than_a_segment_for_a_window(acks in prop::collection::vec(1_u64..200_000, 1..200)) {
        let (mut algorithm, path) = (algorithm(), Path::new(MSS));
        let mut window = Window { cwnd: 14_600.0, ssthresh: 0.0 };
        let mut windows = 0.0;
        for bytes in &acks {
            windows += *bytes as f64 / window.cwnd;
            algorithm.on_ack(&Ack::new(Time::ZERO), Bytes(*bytes), &path, &mut window);
        }
        let raised = (window.cwnd - 14_600.0) / MSS.as_f64();
        prop_assert!(raised <= windows + 1e-9, "{} segments for {} windows", raised, windows);
    }
}
