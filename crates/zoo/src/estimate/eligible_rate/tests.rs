use longhaul_cc::{RttSample, TxId};
use proptest::prelude::*;

use super::*;

impl EligibleRate {
    /// Processes an ACK at `now` for `delivered` of the `in_flight` bytes, with an RTT of `rtt`.
    pub(crate) fn on_ack(&mut self, now: Time, delivered: Bytes, in_flight: Bytes, rtt: Option<Span>) {
        self.on_ack_of(None, now, delivered, in_flight, rtt);
    }

    /// Returns the window of the last sample in seconds.
    pub(crate) fn window(&self) -> f64 {
        self.window * 1e-9
    }

    /// Returns the last sample in bytes/s, or zero before the first one.
    pub(crate) fn sample(&self) -> f64 {
        self.sample.unwrap_or(0.0)
    }
}

const RTT: Span = Span::from_millis(100);

fn at(micros: u64) -> Time {
    Time::from_nanos(9_000_000_000) + Span::from_micros(micros)
}

fn ere() -> EligibleRate {
    EligibleRate::default()
}

/// 1 MB/s in ACKs of 10 kB every 10 ms, with `in_flight` bytes in flight; 100 kB are the path without a queue.
fn smooth(ere: &mut EligibleRate, from: u64, to: u64, in_flight: u64, rtt: Span) {
    for k in from..to {
        ere.on_ack(at(10_000 * k), Bytes(10_000), Bytes(in_flight), Some(rtt));
    }
}

/// Without a queue the window is the time between two ACKs, otherwise RTT (VE - RE) / VE: RTT / 2 if the queue is
/// half of the round trip, 3 RTT / 4 if it is three quarters. Over every window the rate of a steady flow is the
/// same.
#[test]
fn the_window_is_the_queues_share_of_the_round_trip() {
    for (rtt_ms, expected) in [(100, 0.01), (200, 0.100), (400, 0.300)] {
        let mut ere = ere();
        smooth(&mut ere, 0, 20, 100_000, RTT);
        assert!((ere.window() - 0.010).abs() < 1e-9, "{}", ere.window());
        let rtt = Span::from_millis(rtt_ms);
        smooth(&mut ere, 20, 200, rtt_ms * 1000, rtt);
        assert!((ere.window() - expected).abs() < 1e-9, "{rtt_ms}: {}", ere.window());
        assert!((ere.rate() / 1e6 - 1.0).abs() < 1e-9, "{rtt_ms}: {}", ere.rate());
        assert!((ere.throughput() / 1e6 - 1.0).abs() < 1e-9);
        assert!((ere.fills() / 1e5 - 1.0).abs() < 1e-9);
    }
}

/// Trains of ten ACKs, 1 ms apart, once per round trip. Without a queue ERE is the rate within the trains, as with a
/// packet pair. As the queue grows (the same trains with four times as much in flight), it falls to the achieved
/// rate.
#[test]
fn it_slides_from_the_paths_rate_to_the_flows() {
    let mut ere = ere();
    let train = |ere: &mut EligibleRate, n: u64, in_flight: u64, rtt: Span| {
        for k in 0..10 {
            ere.on_ack(at(n * 100_000 + 1000 * k), Bytes(10_000), Bytes(in_flight), Some(rtt));
        }
    };
    for n in 0..60 {
        train(&mut ere, n, 100_000, RTT);
    }
    // Within a train the rate is 10 MB/s. Its first ACK also covers the gap before, and windows are 10 ms.
    assert!(ere.rate() > 4e6, "{}", ere.rate());
    for n in 60..260 {
        train(&mut ere, n, 400_000, RTT * 4);
    }
    assert!((ere.rate() / 1e6 - 1.0).abs() < 0.2, "{}", ere.rate());
}

/// tau = RTT (1 + n U / Umax): RTT if samples do not change, 11 RTT if they change evenly. The part that the filter
/// keeps shows it.
#[test]
fn the_filter_is_slow_where_samples_change() {
    let step = |changes: &[f64]| {
        let mut ere = ere();
        ere.filter(1e6, 0.01, 0.1);
        for change in changes {
            ere.filter(ere.sample() + change, 0.01, 0.1);
        }
        let before = ere.rate();
        ere.filter(ere.sample() + 1e3, 0.01, 0.1);
        (ere.rate() - before) / (ere.sample() - before)
    };
    // The first change is the largest, so that U / Umax = 1.
    let slow = step(&[]);
    assert!((slow - 2.0 * 0.01 / (2.2 + 0.01)).abs() < 1e-12, "{slow}");
    // Three changes after one of 10^9, U is 0.6^4 of Umax.
    let quick = step(&[1e9, 0.0, 0.0, 0.0]);
    let tau = 0.1 * (1.0 + 10.0 * 0.6_f64.powi(4));
    assert!((quick - 0.02 / (2.0 * tau + 0.01)).abs() < 1e-4, "{quick}");
}

/// Adds `change` and returns U over its largest recent value.
fn ratio(changes: &mut Changes, change: f64, beta: f64) -> f64 {
    let (average, largest) = changes.add(change, beta);
    average / largest
}

/// U is the average of the changes, and its maximum is taken over ten values.
#[test]
fn the_largest_of_the_latest_is_forgotten() {
    let mut changes = Changes::new(10);
    assert_eq!(ratio(&mut changes, 0.0, 0.6), 0.0);
    assert_eq!(ratio(&mut changes, 1000.0, 0.6), 1.0);
    for n in 1..10 {
        let now = ratio(&mut changes, 0.0, 0.6);
        assert!((now / 0.6_f64.powi(n) - 1.0).abs() < 1e-12, "{n}");
    }
    // From here on the maximum is the value of nine changes before.
    for _ in 0..5 {
        assert!((ratio(&mut changes, 0.0, 0.6) / 0.6_f64.powi(9) - 1.0).abs() < 1e-12);
    }
}

proptest! {
    /// U and its largest recent value, compared with a search over all values.
    #[test]
    fn the_largest_is_that_of_the_latest(changes in prop::collection::vec(0.0..1e6_f64, 1..100), count in 1..=MOST_RECENT) {
        let mut filter = Changes::new(count);
        let mut averages = vec![0.0];
        for change in changes {
            averages.push(0.6 * averages[averages.len() - 1] + 0.4 * change);
            let largest = averages.iter().rev().take(count).fold(0.0, |a: f64, b| a.max(*b));
            let expected = if largest > 0.0 { averages[averages.len() - 1] / largest } else { 0.0 };
            prop_assert!((ratio(&mut filter, change, 0.6) - expected).abs() < 1e-12);
        }
    }
}

/// Two flows share a link, each sends its window in one train per round trip, and a queue of half the round trip
/// makes the windows RTT / 2. While a train of n bytes arrives that is shorter than the window, samples rise from
/// zero to n / (RTT / 2). Their mean is n / RTT, the achieved rate, and so is the result of a filter with constant
/// gain (U is its own maximum). With the adaptive gain, the fall between two trains is the largest change for ten
/// ACKs, U is less by as much, and tau is short just while samples are small. A train longer than the window has its
/// largest samples when they have stopped changing, and is not affected.
#[test]
fn the_adaptive_gain_reads_short_trains_low() {
    /// Returns the ratio of ERE to the achieved rate, averaged over a round trip, of the flow to which `acks` of a
    /// hundred ACKs belong.
    fn ratio(recent: usize, acks: u64) -> f64 {
        let mut ere = EligibleRate { recent, ..EligibleRate::default() };
        ere.restart();
        ere.on_ack(at(0), Bytes(2000), Bytes(2000), Some(RTT));
        let mut sum = 0.0;
        for round in 1..=100 {
            for k in 0..acks {
                ere.on_ack(at(200_000 * round + 2000 * k), Bytes(2000), Bytes(2000 * acks), Some(RTT * 2));
                sum += if round == 100 { ere.rate() } else { 0.0 };
            }
        }
        sum / acks as f64 / (2000.0 * acks as f64 / 0.2)
    }
    for acks in [25, 40, 75] {
        let constant = ratio(1, acks);
        assert!((constant - 1.0).abs() < 0.03, "{acks}: {constant}");
    }
    let [least, short, long] = [25, 40, 75].map(|acks| ratio(10, acks));
    assert!(least < 0.85 && short < 0.85, "{least} {short}");
    assert!((long - 1.0).abs() < 0.02, "{long}");
}

/// Once the samples are even again, a step of the rate is followed with a time constant of one round trip.
#[test]
fn a_step_is_followed() {
    let mut ere = ere();
    smooth(&mut ere, 0, 100, 100_000, RTT);
    let mut rounds = 0;
    while ere.rate() < 1.9e6 {
        for k in 0..10 {
            ere.on_ack(at(1_000_000 + 100_000 * rounds + 10_000 * k), Bytes(20_000), Bytes(200_000), Some(RTT));
        }
        rounds += 1;
        assert!(rounds < 30, "{}", ere.rate());
    }
    assert!(rounds >= 2, "{rounds}");
}

/// Returns the estimate after a header of 16 bytes before each of the `pauses`, in microseconds, and ten segments
/// after them, sent and delivered at 1 MB/s.
fn after_a_header(pauses: &[u64], said: bool) -> EligibleRate {
    let mut ere = ere();
    let leave = |ere: &mut EligibleRate, left: u64, bytes: u64, pause: u64| {
        let mut sent = Sent::new(at(left), TxId(0), Bytes(bytes));
        sent.pause = Span::from_micros(if said { pause } else { 0 });
        ere.on_sent(&sent);
    };
    let headers: Vec<u64> = pauses.iter().scan(0, |at, pause| Some(std::mem::replace(at, *at + pause))).collect();
    let begin = pauses.iter().sum::<u64>();
    for (left, pause) in headers.iter().zip([0].iter().chain(pauses)) {
        leave(&mut ere, *left, 16, *pause);
    }
    for k in 0..10 {
        leave(&mut ere, begin + 1000 * k, 1000, if k == 0 { pauses.last().copied().unwrap_or(0) } else { 0 });
    }
    let mut arrive = |left: u64, bytes: u64| {
        let mut ack = Ack::new(at(left + 100_000));
        (ack.delivered, ack.prior_in_flight) = (Bytes(bytes), Bytes(10_000));
        ack.rtt = Some(RttSample::new(RTT, at(left)));
        ere.observe(&ack, Some(RTT));
    };
    headers.iter().for_each(|left| arrive(*left, 16));
    (0..10).for_each(|k| arrive(begin + 1000 * k, 1000));
    ere
}

/// Data that an application writes before a pause shows nothing about the path, and neither does the pause: the rate
/// is that of the train.
#[test]
fn a_pause_of_the_application_is_no_rate() {
    for pauses in [&[20_000][..], &[20_000, 5_000], &[1_000, 1_000, 30_000]] {
        let rate = after_a_header(pauses, true).rate();
        assert!((rate / 1e6 - 1.0).abs() < 1e-9, "{pauses:?}: {rate}");
    }
    // A pause that is not reported counts as one of the path.
    assert!(after_a_header(&[20_000], false).rate() < 0.6e6);
}

#[test]
fn nothing_breaks_it() {
    let mut ere = ere();
    ere.on_ack(at(0), Bytes(1000), Bytes::ZERO, None);
    ere.on_ack(at(0), Bytes(1000), Bytes::ZERO, Some(Span::ZERO));
    assert_eq!((ere.rate(), ere.fills()), (0.0, 0.0));
    for (now, rtt) in [(1, 1), (2, u64::MAX / 2), (u64::MAX / 4000, 1), (u64::MAX / 2000, 1_000_000)] {
        ere.on_ack(at(now), Bytes(1 << 40), Bytes(1), Some(Span::from_micros(rtt)));
        ere.on_ack(at(0), Bytes(1), Bytes(u64::MAX), Some(Span::from_nanos(1)));
        assert!(ere.rate().is_finite() && ere.rate() >= 0.0, "{now}");
    }
}

/// At 1 MB/s a route that becomes 100 ms longer holds 200 kB, once the old minimum RTT has expired.
#[test]
fn a_longer_route_holds_more_when_the_window_has_passed() {
    for (rtt_min_window, expected) in [(Span::MAX, 1e5), (Span::from_secs(10), 2e5)] {
        let mut ere = EligibleRate { rtt_min_window, ..EligibleRate::default() };
        ere.restart();
        smooth(&mut ere, 0, 20, 100_000, RTT);
        smooth(&mut ere, 20, 1000, 200_000, RTT * 2);
        assert!((ere.fills() / 1e5 - 1.0).abs() < 1e-3, "{}", ere.fills());
        smooth(&mut ere, 1000, 2000, 200_000, RTT * 2);
        assert!((ere.fills() / expected - 1.0).abs() < 1e-3, "{rtt_min_window}: {}", ere.fills());
    }
}
