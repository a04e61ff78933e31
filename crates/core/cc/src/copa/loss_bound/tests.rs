use proptest::prelude::*;

use super::*;

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(100);

/// A sender of `window` segments per round trip, and the path that they take.
struct Path {
    bound: LossBound,
    now: Time,
    window: f64,
    answers: Vec<Answer>,
}

impl Path {
    fn new(most: f64, window: f64) -> Self {
        Self { bound: LossBound::new(most), now: Time::from_nanos(1_000_000_000), window, answers: Vec::new() }
    }

    /// Runs a round trip in which all but `lost` segments are delivered, evenly distributed, and losses are reported
    /// `burst` at a time.
    fn round(&mut self, lost: f64, burst: u64) {
        let (sent, lost) = (self.window.round() as u64, lost.round() as u64);
        let mut left = lost;
        for index in 0..sent - lost {
            self.now += RTT / (sent - lost);
            let mut ack = Ack::new(self.now);
            (ack.round_start, ack.delivered) = (index == 0, MSS);
            // Losses are reported in equal parts during the round trip.
            let due = left.saturating_sub(lost * (sent - lost - 1 - index) / (sent - lost));
            if due >= burst || index + 1 == sent - lost {
                let part = left.min(due.max(burst.min(left)));
                (ack.newly_lost, left) = (MSS * part, left - part);
            }
            let cwnd = self.window * MSS.as_f64();
            match self.bound.on_ack(&ack, MSS, cwnd, RTT.as_secs_f64()) {
                Answer::None => {}
                answer => {
                    if let Answer::Lower(window) | Answer::Back(window) = answer {
                        self.window = window / MSS.as_f64();
                    }
                    self.answers.push(answer);
                }
            }
        }
    }

    /// Runs round trips behind a policer that passes `fits` segments in each. Acknowledged data was sent one round
    /// trip earlier.
    fn policed(&mut self, fits: f64, rounds: u32) {
        for _ in 0..rounds {
            let before = self.window;
            self.round((before - fits).max(0.0), 1);
        }
    }
}

/// 200 of 300 segments arrive: the window decreases to 200 segments and stays there for 16 round trips. Then a larger
/// window may be tried.
#[test]
fn losses_that_fall_with_the_window_hold_it() {
    let mut path = Path::new(MOST, 300.0);
    path.policed(200.0, 10);
    assert!((path.window - 200.0).abs() < 4.0, "{}", path.window);
    assert_eq!(path.answers.last(), Some(&Answer::Ours), "{:?}", path.answers);
    assert!((path.bound.ceiling() / 200_000.0 - 1.0).abs() < 0.02, "{}", path.bound.ceiling());
    path.policed(200.0, HOLD.0);
    assert_eq!((path.answers.last(), path.bound.ceiling()), (Some(&Answer::Try), f64::INFINITY));
}

/// Each trial with the same result doubles the time to the next one, up to 63 round trips. Another result resets it
/// to 16.
#[test]
fn the_wait_doubles_while_trials_end_alike() {
    let mut path = Path::new(MOST, 300.0);
    let mut waits = Vec::new();
    for fits in [200.0, 200.0, 200.0, 200.0, 400.0] {
        path.window = 1.3 * fits;
        while path.answers.last() != Some(&Answer::Ours) {
            path.policed(fits, 1);
        }
        let mut rounds = 0;
        while path.answers.last() != Some(&Answer::Try) {
            path.policed(fits, 1);
            rounds += 1;
        }
        path.answers.clear();
        waits.push(rounds);
    }
    assert_eq!(waits, [16, 32, 63, 63, 16]);
}

/// One in ten segments is lost for any window: after two tests the window is restored, and the same loss rate is not
/// tested again for half a minute. The same holds if ten are lost at a time.
#[test]
fn losses_that_stay_are_the_links() {
    for burst in [1, 10] {
        let mut path = Path::new(MOST, 1000.0);
        for _ in 0..100 {
            path.round(0.1 * path.window, burst);
        }
        assert!(matches!(path.answers.last(), Some(Answer::Back(_))), "{burst}: {:?}", path.answers);
        assert!((path.window - 1000.0).abs() < 1.0, "{burst}: {}", path.window);
        let asked = path.answers.len();
        for _ in 0..100 {
            path.round(0.1 * path.window, burst);
        }
        assert_eq!((path.answers.len(), path.window.round()), (asked, 1000.0), "{burst}");
    }
}

/// A loss rate of 2 % is allowed, and so is the random variation of 1 %: 12 of 500 in a round trip.
#[test]
fn few_losses_are_not_asked_about() {
    let mut path = Path::new(MOST, 500.0);
    for round in 0..1000 {
        path.round(if round % 7 == 0 { 12.0 } else { 5.0 }, 1);
    }
    assert_eq!(path.answers, []);
    let mut unbound = Path::new(1.0, 500.0);
    unbound.policed(100.0, 100);
    assert_eq!(unbound.answers, []);
}

/// A timeout ends the test, and the reduced window becomes the limit.
#[test]
fn a_timeout_is_an_answer() {
    let mut path = Path::new(MOST, 300.0);
    while !path.bound.is_asking() {
        path.policed(200.0, 1);
    }
    let lowered = path.window * MSS.as_f64();
    path.bound.on_timeout(path.now);
    assert_eq!((path.bound.is_asking(), path.bound.ceiling()), (false, lowered));
    path.bound.rest();
    assert_eq!(path.bound.ceiling(), f64::INFINITY);
}

proptest! {
    /// For any losses, a reduction leaves at least half of the window, at most the previous window is restored, and
    /// every test ends.
    #[test]
    fn answers_have_bounds(rounds in prop::collection::vec((0.0_f64..0.9, 1_u64..20), 1..100)) {
        let mut path = Path::new(MOST, 200.0);
        let mut most = path.window;
        for (lost, burst) in rounds {
            let before = path.window;
            path.round((lost * before).min(before - 1.0), burst);
            prop_assert!(path.window >= KEEP * KEEP * before && path.window <= most + 1e-9);
            most = most.max(path.window);
            path.window = path.window.max(20.0);
        }
        for _ in 0..2 * HOLD.1 {
            path.round(0.0, 1);
        }
        prop_assert!(!path.bound.is_asking());
    }
}
