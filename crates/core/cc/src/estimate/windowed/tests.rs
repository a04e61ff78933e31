use proptest::prelude::*;

use super::*;

#[test]
fn a_maximum_is_forgotten_when_its_window_has_passed() {
    let mut filter = WindowedMax::new(10);
    assert_eq!(filter.get(), None);
    assert_eq!(filter.update(0, 100.0), 100.0);
    for at in 1..=10 {
        assert_eq!(filter.update(at, 50.0), 100.0, "at {at}");
    }
    assert_eq!(filter.update(11, 40.0), 50.0);
    assert_eq!(filter.update(12, 60.0), 60.0);
}

#[test]
fn a_minimum_lasts_for_its_time() {
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    let mut filter = WindowedMin::new(Span::from_secs(10));
    assert_eq!(filter.update(at(0), Span::from_millis(50)), Span::from_millis(50));
    assert_eq!(filter.update(at(10_000), Span::from_millis(80)), Span::from_millis(50));
    assert_eq!(filter.update(at(10_001), Span::from_millis(90)), Span::from_millis(80));
    assert_eq!(filter.get(), Some(Span::from_millis(80)));
}

/// Samples of a falling series: the second one is younger than the best by at least a quarter of the window.
#[test]
fn a_falling_series_is_followed_at_most_a_window_late() {
    let mut filter = WindowedMax::new(20);
    for at in 0..200_u64 {
        let best = filter.update(at, 1000.0 - at as f64);
        assert!(best <= 1000.0 - (at as f64 - 20.0).max(0.0), "at {at}: {best}");
    }
}

proptest! {
    /// Compared with all samples of the window: the result is one of them, and no later one is greater. Before any
    /// sample has left the window, it is the maximum.
    #[test]
    fn the_answer_is_the_greatest_since_it_came(
        window in 0_u64..40,
        steps in prop::collection::vec((0_u64..12, 0_u32..1000), 1..200),
    ) {
        let mut filter = WindowedMax::new(window);
        let (mut at, mut all) = (0, Vec::new());
        for (step, value) in steps {
            at += step;
            let value = f64::from(value);
            all.push((at, value));
            let best = filter.update(at, value);
            let since = all.iter().rposition(|(_, v)| *v == best).expect("a sample that was taken");
            prop_assert!(at - all[since].0 <= window, "{best} is older than the window");
            prop_assert!(all[since..].iter().all(|(_, v)| *v <= best));
            if at <= window {
                let greatest = all.iter().map(|(_, v)| *v).fold(f64::MIN, f64::max);
                prop_assert_eq!(best, greatest);
            }
        }
    }
}
