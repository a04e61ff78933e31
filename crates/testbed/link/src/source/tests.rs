use super::*;

const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);

/// Returns the mean rate in bytes per second until the `count`-th packet.
fn mean_rate(source: Source, count: usize) -> f64 {
    let (last, bytes) = source.take(count).fold((0.0, 0), |(_, bytes), (at, size)| (at.as_secs_f64(), bytes + size));
    f64::from(bytes) / last
}

#[test]
fn cbr_times_are_exact() {
    let start = Time::from_nanos(5);
    let times: Vec<u64> =
        Source::cbr(start, Rate::from_bytes_per_sec(7_000), 1_000).take(1_000).map(|(at, _)| at.as_nanos()).collect();
    let expected: Vec<u64> = (0..1_000).map(|n: u64| 5 + n * 1_000_000_000 / 7).collect();
    assert_eq!(times, expected);
    let at_rest: Vec<_> = Source::cbr(start, Rate::ZERO, 1).take(2).collect();
    assert_eq!(at_rest, [(start, 1), (Time::MAX, 1)]);
}

#[test]
fn poisson_gaps_have_the_mean_and_the_variance_of_the_exponential() {
    let source = Source::poisson(Time::ZERO, RATE, 1_000, Random::new(3, 0));
    let times: Vec<f64> = source.take(100_001).map(|(at, _)| at.as_secs_f64() * 1e3).collect();
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / 1e5;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
    // The standard errors are 1 / sqrt(n) and sqrt(8 / n); the tolerance is five of them.
    assert!((mean - 1.0).abs() < 0.016 && (variance - 1.0).abs() < 0.045, "{mean} {variance}");
}

#[test]
fn on_off_sends_its_share_of_the_time() {
    let spans = (Span::from_millis(100), Span::from_millis(300));
    for (durations, tolerance) in [(Durations::Exponential, 0.05), (Durations::Pareto(2.5), 0.05)] {
        let source = Source::on_off(Time::ZERO, RATE, 1_000, spans, durations, Random::new(8, 0));
        let share = mean_rate(source, 1_000_000) / 1e6;
        // Each burst begins with a packet, so on average it sends half a packet more than its length.
        let expected = (0.1 + 0.000_5) / 0.4;
        assert!((share / expected - 1.0).abs() < tolerance, "{durations:?}: {share}");
    }
    let source = Source::on_off(Time::ZERO, RATE, 1_000, spans, Durations::Pareto(2.5), Random::new(8, 0));
    let times: Vec<u64> = source.take(1_000_000).map(|(at, _)| at.as_nanos()).collect();
    let bursts = 1 + times.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_001).count();
    // Each packet takes 1 ms, each burst sends half a packet more, and a pause shorter than a gap joins two bursts.
    assert!((1e6 / bursts as f64 / 100.5 - 1.0).abs() < 0.03, "{bursts}");
    let source = Source::on_off(Time::ZERO, RATE, 1_000, spans, Durations::Exponential, Random::new(8, 0));
    let times: Vec<u64> = source.take(1_000).map(|(at, _)| at.as_nanos()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn one_seed_one_sequence() {
    let take = |seed| -> Vec<_> { Source::poisson(Time::ZERO, RATE, 40, Random::new(seed, 0)).take(50).collect() };
    assert_eq!(take(1), take(1));
    assert_ne!(take(1), take(2));
}
