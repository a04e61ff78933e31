use longhaul_units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

use super::rules::*;
use super::search::Search;
use super::{PathloadConfig, Procedure};
use crate::turns::Turns;
use crate::{Arrived, Method, Next, Train, TrainReport};

mod bounds;

const GAP: Span = Span::from_micros(100);

/// A packet with these send and arrival times in microseconds. The receiver's clock is 7 s ahead.
fn packet((sent, arrived): (u64, u64)) -> Option<Arrived> {
    Some(Arrived {
        sent_at: Time::from_nanos(sent * 1000),
        arrived_at: Time::from_nanos(7_000_000_000 + arrived * 1000),
        rtt: Span::from_millis(20),
        size: Bytes(500),
        coalesced: false,
    })
}

/// A stream with these delays in microseconds.
fn stream(delays: impl IntoIterator<Item = u64>) -> Vec<Option<Arrived>> {
    (0_u64..).zip(delays).map(|(n, delay)| packet((n * 100, n * 100 + delay))).collect()
}

fn trend(packets: &[Option<Arrived>]) -> Trend {
    stream_trend(packets, (GAP, 0.0), &StreamRule::default())
}

#[test]
fn pct_counts_upward_steps_and_pdt_compares_the_net_with_all_steps() {
    let points = [0.0, 1.0, 2.0, 1.0, 3.0];
    assert_eq!(pct(&points), 3.0 / 4.0);
    assert_eq!(pdt(&points), 3.0 / 5.0, "up by 3 in total, over absolute steps of 1 + 1 + 1 + 2");
    assert_eq!((pct(&[4.0; 9]), pdt(&[4.0; 9])), (0.0, 0.0));
    assert_eq!((pdt(&[3.0, 2.0]), pdt(&[]), pct(&[1.0])), (-1.0, 0.0, 0.0));
}

/// 121 of 200 upward steps are 0.605, and 99 are 0.495: both ends belong to the grey band.
#[test]
fn the_ends_of_the_grey_bands_are_undecided() {
    let steps = |up: u32| {
        let mut at = 0.0;
        let step = |n: u32| {
            at += if n == 0 {
                0.0
            } else if n <= up {
                1.0
            } else {
                -1.0
            };
            at
        };
        pct(&(0..=200).map(step).collect::<Vec<f64>>())
    };
    let rule = StreamRule::default();
    let by_pct = [98, 99, 121, 122].map(|up| judge(steps(up), 0.4, &rule));
    assert_eq!(by_pct, [Trend::NonIncreasing, Trend::Ambiguous, Trend::Ambiguous, Trend::Increasing]);
    // Up by x and down by 100 - x: PDT is 0.36 for x = 68 and 0.44 for x = 72.
    let by_pdt = [67.0, 68.0, 72.0, 73.0].map(|up| judge(0.55, pdt(&[0.0, up, up - (100.0 - up)]), &rule));
    assert_eq!(by_pdt, [Trend::NonIncreasing, Trend::Ambiguous, Trend::Ambiguous, Trend::Increasing]);
}

#[test]
fn measures_that_contradict_each_other_are_ambiguous() {
    let rule = StreamRule::default();
    assert_eq!(judge(0.7, 0.3, &rule), Trend::Ambiguous);
    assert_eq!(judge(0.4, 0.5, &rule), Trend::Ambiguous);
    assert_eq!(judge(0.7, 0.5, &rule), Trend::Increasing);
    assert_eq!(judge(0.4, 0.3, &rule), Trend::NonIncreasing);
}

#[test]
fn groups_have_as_many_members_as_there_are_groups() {
    let hundred: Vec<f64> = (0..100).map(f64::from).collect();
    let medians: Vec<f64> = (0..10).map(|n| f64::from(n) * 10.0 + 4.5).collect();
    assert_eq!(group_medians(&hundred, 5), medians);
    // 27 delays make 5 groups of 5, with two more in the last group.
    assert_eq!(group_medians(&hundred[..27], 5), [2.0, 7.0, 12.0, 17.0, 23.0]);
    assert_eq!(group_medians(&hundred[..24], 5).len(), 24, "four groups are too few");
}

#[test]
fn the_longest_piece_between_interruptions_is_used() {
    // The gap after the third packet is 1.2 ms, which exceeds 100 us plus 1 ms.
    let sent = [0, 100, 200, 1400, 1500, 1600, 1700];
    let mut packets: Vec<_> = sent.map(|at| packet((at, at))).to_vec();
    let piece = longest_piece(&packets, GAP, &StreamRule::default());
    assert_eq!(piece.iter().map(|p| p.sent_at.as_nanos() / 1000).collect::<Vec<_>>(), [1400, 1500, 1600, 1700]);
    let equal = [0, 100, 1400, 1500].map(|at| packet((at, at)));
    assert_eq!(longest_piece(&equal, GAP, &StreamRule::default())[0].sent_at, Time::ZERO, "the first of two");
    // A lost packet neither is nor hides an interruption.
    packets[5] = None;
    assert_eq!(longest_piece(&packets, GAP, &StreamRule::default()).len(), 3);
    // A gap of 1.1 ms is permitted.
    let allowed = [0, 100, 1200, 1300].map(|at| packet((at, at)));
    assert_eq!(longest_piece(&allowed, GAP, &StreamRule::default()).len(), 4);
    let lost = [packet((0, 0)), None, packet((1200, 1200)), packet((1300, 1300))];
    assert_eq!(
        longest_piece(&lost, GAP, &StreamRule::default()).len(),
        3,
        "1.1 ms, and one gap more for the lost packet"
    );
}

#[test]
fn the_last_of_a_burst_counts() {
    let piece: Vec<Arrived> =
        [(0, 300), (100, 300), (200, 300), (300, 400), (400, 500)].iter().filter_map(|at| packet(*at)).collect();
    let kept = last_of_bursts(&piece, Span::from_micros(7), true);
    assert_eq!(kept.iter().map(|p| p.sent_at.as_nanos() / 1000).collect::<Vec<_>>(), [200, 300, 400]);
    assert_eq!(relative_delays(&kept, 0.0), [0.0; 3]);
    let apart = |arrived| [(0, 300), (100, arrived)].iter().filter_map(|at| packet(*at)).collect::<Vec<_>>();
    let count = |arrived| last_of_bursts(&apart(arrived), Span::from_micros(7), true).len();
    assert_eq!((count(306), count(307)), (1, 2), "exactly 7 us apart");
    assert_eq!(last_of_bursts(&piece, Span::ZERO, true).len(), 3, "simultaneous arrivals always form a burst");
    assert_eq!(last_of_bursts(&piece, Span::ZERO, false).len(), 2, "the last packet may start another burst");
}

#[test]
fn the_trend_of_a_stream_is_that_of_its_delays() {
    assert_eq!(trend(&stream((0..100).map(|n| 50 + 2 * n))), Trend::Increasing);
    assert_eq!(trend(&stream([50; 100])), Trend::NonIncreasing);
    // A queue that builds up during half of the stream and drains again: PCT is one half, and PDT is 0.
    assert_eq!(trend(&stream((0..100).map(|n| 500 - 10 * 50_u64.abs_diff(n)))), Trend::NonIncreasing);
    // The medians of ten groups rise, except for the last, which falls below the first: PCT and PDT contradict each
    // other.
    let falls_back = (0..100).map(|n| if n < 90 { 50 + n / 10 } else { 48 });
    assert_eq!(trend(&stream(falls_back)), Trend::Ambiguous);
    assert_eq!(trend(&stream((0..4).map(|n| 50 + 2 * n))), Trend::Discarded);
    assert_eq!(trend(&[None; 100]), Trend::Discarded);
    assert_eq!(trend(&stream((0..5).map(|n| 50 + 50 * n))), Trend::Increasing, "five points");
}

/// A clock that is 50 ppm fast gains 5 ns per 100 us: each delay exceeds the one before without a queue.
#[test]
fn a_fast_clock_is_no_queue() {
    let drifting = |gain: u64| {
        let mut packets = stream([50; 100]);
        for (n, packet) in (0_u64..).zip(packets.iter_mut().flatten()) {
            packet.arrived_at += Span::from_nanos(n * gain);
        }
        packets
    };
    assert_eq!(trend(&drifting(5)), Trend::NonIncreasing);
    assert_eq!(trend(&drifting(2000)), Trend::Increasing);
}

/// At 20 Mb/s a byte takes 0.4 us: if each packet is one byte larger than the one before, the last one takes 40 us
/// longer.
#[test]
fn larger_packets_are_no_queue() {
    let grow = |queue: u64| {
        let mut packets = stream([50; 100]);
        for (n, packet) in (0_u64..).zip(packets.iter_mut().flatten()) {
            packet.size = Bytes(200 + n);
            packet.arrived_at += Span::from_nanos(n * (400 + queue));
        }
        packets
    };
    let trend = |packets: &[Option<Arrived>], per_byte| stream_trend(packets, (GAP, per_byte), &StreamRule::default());
    assert_eq!(trend(&grow(1200), 0.0), Trend::Increasing);
    assert_eq!(trend(&grow(0), 0.4e-6), Trend::NonIncreasing);
    assert_eq!(trend(&grow(2000), 0.4e-6), Trend::Increasing, "and a queue that grows");
}

#[test]
fn interruptions_at_the_receiver_do_not_hide_a_trend() {
    // The receiver wakes up every 400 us: the last of every four packets waits least.
    let coalesced = |extra: u64| {
        let packets = (0..100_u64).map(|n| {
            let arrives = n * 100 + 50 + extra * n;
            packet((n * 100, arrives.next_multiple_of(400)))
        });
        packets.collect::<Vec<_>>()
    };
    assert_eq!(trend(&coalesced(0)), Trend::NonIncreasing);
    assert_eq!(trend(&coalesced(20)), Trend::Increasing);
}

/// 40 us of noise with a trend that is not random: a processor that falls asleep.
#[test]
fn a_small_rise_may_be_noise() {
    let ramp = |most: u64| stream((0..100).map(move |n| 50 + most * n / 99));
    assert_eq!(trend(&ramp(50)), Trend::Ambiguous);
    assert_eq!(trend(&ramp(120)), Trend::Increasing);
    assert_eq!(trend(&stream((0..100).map(|n| 50 + 50 * (99 - n) / 99))), Trend::NonIncreasing);
    assert_eq!(trend(&stream((0..100).map(|n| 50 + 120 * (99 - n) / 99))), Trend::Decreasing);
}

/// Packets every 163 us, and one interrupt per millisecond. The last packet before an interrupt waits for up to 163 us,
/// and for 22 us less from one interrupt to the next; at 170 us, for 20 us more. Delays change without a queue. Each
/// stream starts at another phase of the interrupts, and its last packet may or may not have an interrupt of its own.
#[test]
fn a_beat_of_coalesced_arrivals_is_no_queue() {
    for gap in [110, 163, 170, 240] {
        for phase in (0..1000).step_by(37) {
            let heard = |n: u64| (n * gap + phase).next_multiple_of(1000);
            let packets: Vec<_> = (0..100).map(|n| packet((n * gap, heard(n) + 2 * (n % 6)))).collect();
            let found = stream_trend(&packets, (Span::from_micros(gap), 0.0), &StreamRule::default());
            assert_ne!(found, Trend::Increasing, "{gap} us, {phase} us");
        }
    }
}

fn votes(counts: [(Trend, usize); 4]) -> Vec<Stream> {
    counts.iter().flat_map(|(trend, count)| vec![Stream { trend: *trend, loss: 0.0 }; *count]).collect()
}

#[test]
fn six_tenths_of_the_usable_streams_decide() {
    use Trend::{Ambiguous, Discarded, Increasing, NonIncreasing};
    let rule = FleetRule::default();
    let verdict = |up, down, unclear, gone| {
        let counts = [(Increasing, up), (NonIncreasing, down), (Ambiguous, unclear), (Discarded, gone)];
        fleet_verdict(&votes(counts), &rule).0
    };
    assert_eq!(verdict(7, 5, 0, 0), Verdict::Grey, "7/12 is 0.58");
    assert_eq!(verdict(8, 4, 0, 0), Verdict::Above);
    assert_eq!(verdict(4, 8, 0, 0), Verdict::Below);
    assert_eq!(verdict(7, 0, 5, 0), Verdict::Grey, "ambiguous streams count as usable");
    assert_eq!(verdict(6, 4, 0, 2), Verdict::Above, "exactly 6 of 10");
    assert_eq!(verdict(6, 0, 0, 6), Verdict::Above, "half of the streams are usable");
    assert_eq!(verdict(5, 0, 0, 7), Verdict::Again);
    assert_eq!(fleet_verdict(&[], &rule), (Verdict::Again, 0.0));
    let published = FleetRule { agree: 0.7, ..rule };
    assert_eq!(
        fleet_verdict(&votes([(Increasing, 8), (NonIncreasing, 4), (Ambiguous, 0), (Discarded, 0)]), &published).0,
        Verdict::Grey
    );
}

/// Increasing streams are offset by decreasing ones, which no queue of the streams causes.
#[test]
fn decreasing_streams_offset_increasing_ones() {
    use Trend::{Ambiguous, Decreasing, Discarded, Increasing, NonIncreasing};
    let verdict = |up, down, level, gone| {
        let mut streams = votes([(Increasing, up), (NonIncreasing, level), (Ambiguous, 0), (Discarded, gone)]);
        streams.extend(vec![Stream { trend: Decreasing, loss: 0.0 }; down]);
        fleet_verdict(&streams, &FleetRule::default())
    };
    assert_eq!(verdict(9, 0, 3, 0), (Verdict::Above, 0.75));
    assert_eq!(verdict(9, 3, 0, 0), (Verdict::Grey, 0.25));
    assert_eq!(verdict(3, 3, 6, 0), (Verdict::Below, 0.75));
    assert_eq!(verdict(9, 0, 0, 3), (Verdict::Above, 0.75), "discarded streams support no verdict");
}

/// Verdict of streams with these losses: the first `up` increase, the next `level` do not, and the others are
/// ambiguous.
fn lossy(losses: &[f64], (up, level): (usize, usize)) -> Verdict {
    let mut streams = votes([
        (Trend::Increasing, up),
        (Trend::NonIncreasing, level),
        (Trend::Ambiguous, 12 - up - level),
        (Trend::Discarded, 0),
    ]);
    streams.iter_mut().zip(losses).for_each(|(stream, loss)| stream.loss = *loss);
    fleet_verdict(&streams, &FleetRule::default()).0
}

#[test]
fn one_high_loss_is_above_where_a_queue_may_be() {
    assert_eq!(lossy(&[0.15], (0, 0)), Verdict::Grey, "0.15 does not exceed 0.15");
    assert_eq!(lossy(&[0.16], (0, 0)), Verdict::Above);
    assert_eq!(lossy(&[0.16], (1, 11)), Verdict::Above);
    assert_eq!(lossy(&[0.16; 2], (0, 12)), Verdict::Below, "no queue grows, so that losses are random");
    assert_eq!(lossy(&[0.16; 3], (0, 12)), Verdict::Above, "a policer drops packets without a queue");
    let mut streams =
        votes([(Trend::Increasing, 6), (Trend::NonIncreasing, 0), (Trend::Ambiguous, 6), (Trend::Discarded, 0)]);
    streams[0].loss = 0.16;
    assert_eq!(
        fleet_verdict(&streams, &FleetRule::default()),
        (Verdict::Above, 0.5),
        "increasing streams support it as well"
    );
}

/// Delays over a queue that overflows early rise and then stay constant: the trend is ambiguous.
#[test]
fn medium_losses_of_most_streams_are_above_where_a_queue_may_be() {
    assert_eq!(lossy(&[0.04; 6], (0, 0)), Verdict::Grey, "half of the streams");
    assert_eq!(
        lossy(&[0.04, 0.15, 0.04, 0.05, 0.04, 0.04, 0.03], (0, 0)),
        Verdict::Grey,
        "three are not more than three"
    );
    let seven = [0.04, 0.15, 0.04, 0.05, 0.04, 0.04, 0.04];
    assert_eq!(lossy(&seven, (0, 0)), Verdict::Above);
    assert_eq!([(4, 4), (4, 5)].map(|trends| lossy(&seven, trends)), [Verdict::Above, Verdict::Grey]);
    assert_eq!(lossy(&[0.05; 12], (2, 8)), Verdict::Below, "random losses, because no queue grows");
}

#[test]
fn rates_double_until_one_is_above_and_then_halve_the_range() {
    let mut search = Search::new(1.0, 5.0, 100.0);
    let mut go = |rate, verdict| {
        search.learn(rate, verdict, 1.0);
        search.next()
    };
    assert_eq!(go(20.0, Verdict::Below), Some(40.0));
    assert_eq!(go(40.0, Verdict::Below), Some(80.0));
    assert_eq!(go(80.0, Verdict::Above), Some(60.0));
    assert_eq!(go(60.0, Verdict::Grey), Some(70.0), "the upper of two parts of equal width");
    assert_eq!(go(70.0, Verdict::Above), Some(50.0));
    assert_eq!(go(50.0, Verdict::Grey), Some(65.0));
    assert_eq!(go(65.0, Verdict::Above), Some(45.0));
    assert_eq!(go(45.0, Verdict::Below), None, "5 are left on both sides of the grey rates");
    assert_eq!((search.low(), search.grey, search.high()), (45.0, Some((50.0, 60.0)), Some(65.0)));
    assert!(search.converged());
}

/// The verdict of one fleet at 15 is wrong. The range below 15 becomes narrow, but 15 is tried again, and the search
/// continues above it.
#[test]
fn an_end_needs_a_repeated_verdict() {
    let mut search = Search::new(1.0, 1.0, 100.0);
    search.verdicts = 2;
    let mut go = |rate, verdict, share| {
        search.learn(rate, verdict, share);
        (search.next(), search.converged(), search.support())
    };
    assert_eq!(go(10.0, Verdict::Below, 1.0), (Some(20.0), false, 0.0));
    assert_eq!(go(15.0, Verdict::Above, 0.75), (Some(12.5), false, 0.75));
    assert_eq!(go(14.5, Verdict::Below, 1.0), (Some(15.0), false, 0.75), "the upper end is confirmed first");
    assert_eq!(go(15.0, Verdict::Below, 1.0), (Some(30.0), false, 0.0));
    assert_eq!(go(20.5, Verdict::Above, 1.0), (Some(17.75), false, 1.0));
    assert_eq!(go(19.5, Verdict::Below, 0.5), (Some(20.5), false, 0.5));
    assert_eq!(go(20.5, Verdict::Above, 1.0), (Some(19.5), false, 0.5), "then the lower end");
    assert_eq!(go(19.5, Verdict::Below, 1.0), (None, true, 0.75), "three quarters of the streams support it");
    assert_eq!(go(20.5, Verdict::Grey, 1.0), (Some(41.0), false, 0.0), "a grey verdict removes an end");
}

#[test]
fn the_highest_rate_ends_the_search_too() {
    let mut search = Search::new(1.0, 5.0, 100.0);
    search.learn(60.0, Verdict::Below, 1.0);
    assert_eq!(search.next(), Some(100.0));
    search.learn(100.0, Verdict::Below, 1.0);
    assert_eq!((search.next(), search.converged()), (None, false));
}

#[test]
fn a_verdict_removes_those_that_contradict_it() {
    let mut search = Search::new(1.0, 1.0, 100.0);
    search.learn(20.0, Verdict::Below, 1.0);
    search.learn(60.0, Verdict::Above, 1.0);
    search.grey = Some((35.0, 45.0));
    search.learn(40.0, Verdict::Above, 1.0);
    assert_eq!((search.high(), search.grey), (Some(40.0), Some((35.0, 40.0))));
    search.learn(30.0, Verdict::Above, 1.0);
    assert_eq!((search.high(), search.grey), (Some(30.0), None));
    search.learn(10.0, Verdict::Above, 1.0);
    assert_eq!((search.low(), search.high()), (0.0, Some(10.0)));
}

proptest! {
    /// For any available bandwidth and any first rate, the bisection converges around the available bandwidth.
    #[test]
    fn the_search_closes_around_what_is_available(available in 1.0..1e6_f64, start in 1.0..1e6_f64, grey in 0.0..0.3_f64) {
        let mut search = Search::new(0.02 * start, 0.05 * start, 1e9);
        let (mut rate, mut fleets) = (Some(start), 0);
        while let Some(now) = rate {
            let verdict = if now > available * (1.0 + grey) { Verdict::Above }
                else if now < available * (1.0 - grey) { Verdict::Below } else { Verdict::Grey };
            search.learn(now, verdict, 1.0);
            rate = search.next();
            fleets += 1;
            prop_assert!(fleets < 60);
        }
        prop_assert!(search.converged());
        prop_assert!(search.low() <= available && search.high().unwrap() >= available);
        let sure = (available * (1.0 - grey), available * (1.0 + grey));
        prop_assert!(search.low() > sure.0 - 0.06 * start && search.high().unwrap() < sure.1 + 0.06 * start);
    }
}

/// An ideal path: a fluid queue in front of a link of 10 MB/s with cross traffic of 5 MB/s, and one-way delays of 10
/// ms.
fn fluid(train: &Train) -> TrainReport {
    let (mut queue, mut before) = (0.0_f64, 0.0);
    let packets = train.packets.iter().map(|planned| {
        let at = planned.at.as_secs_f64();
        queue = (queue - (at - before) * 5e6).max(0.0) + planned.size.as_f64();
        before = at;
        let delay = Span::from_millis(10) + Span::from_secs_f64(queue / 1e7);
        let sent_at = Time::from_nanos(1_000_000_000) + planned.at;
        let rtt = delay + Span::from_millis(10);
        Some(Arrived { sent_at, arrived_at: sent_at + delay, rtt, size: planned.size, coalesced: false })
    });
    TrainReport { id: train.id, packets: packets.collect() }
}

/// Runs a session over a path; returns the time at which it is done and the number of trains.
fn run(method: &mut Turns<Procedure>, mut path: impl FnMut(u32, &Train) -> Option<TrainReport>) -> (Time, u32) {
    let (mut now, mut trains) = (Time::from_nanos(1), 0);
    loop {
        match method.poll(now) {
            Next::Send(train) => {
                if let Some(report) = path(trains, &train) {
                    now += train.packets.last().unwrap().at + Span::from_millis(20);
                    method.on_report(now, &report);
                }
                trains += 1;
            }
            Next::Wait(until) => now = until,
            Next::Done => return (now, trains),
        }
    }
}

/// The search starts at the link's rate, which the first train shows: 10, 5, 7.5 MB/s and so on, until the range is 2
/// %.
#[test]
fn an_ideal_path_is_measured_to_two_percent() {
    let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
    let (took, trains) = run(&mut method, |_, train| Some(fluid(train)));
    let estimate = method.estimate();
    let available = estimate.available.unwrap();
    assert!(estimate.converged && estimate.capacity.is_none());
    let (low, high) = (available.low.as_bytes_per_sec(), available.high.as_bytes_per_sec());
    assert!(low <= 5_000_000 && high >= 5_000_000 && high - low <= 200_000, "{available:?}");
    assert!(estimate.confidence > 0.95);
    assert_eq!(trains % 12, 1, "whole fleets after the first train");
    assert!(took < Time::from_nanos(15_000_000_000), "{took:?}");
}

#[test]
fn streams_rest_nine_times_their_length_or_a_round_trip() {
    for (rtt, rest) in [(20, 90), (120, 120)] {
        let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
        let mut now = Time::from_nanos(1);
        let Next::Send(first) = method.poll(now) else { panic!("nothing to wait for") };
        assert!(first.packets.iter().all(|packet| packet.at.is_zero() && packet.size == Bytes(1500)));
        let mut report = fluid(&first);
        report.packets.iter_mut().flatten().for_each(|packet| packet.rtt = Span::from_millis(rtt));
        method.on_report(now, &report);
        let Next::Send(stream) = method.poll(now) else { panic!("it has a rate") };
        let last = stream.packets.last().unwrap().at;
        // 100 packets every 100 us: the size determines the rate.
        assert_eq!((stream.packets.len(), last.as_micros()), (100, 9900));
        method.on_report(now, &fluid(&stream));
        let Next::Wait(until) = method.poll(now) else { panic!("it rests") };
        now += last;
        assert!(until.since(now).as_millis().abs_diff(rest) <= 1, "{:?}", until.since(now));
    }
}

#[test]
fn a_path_without_answers_ends_the_session() {
    let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
    let (_, trains) = run(&mut method, |_, _| None);
    assert_eq!((trains, method.estimate().available), (10, None));
}

/// A single packet of a train shows no rate: the session ends after ten such trains, as without answers.
#[test]
fn first_trains_without_a_rate_end_the_session() {
    let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
    let (_, trains) = run(&mut method, |_, train| Some(first_only(train)));
    assert_eq!((trains, method.estimate().available), (10, None));
}

fn first_only(train: &Train) -> TrainReport {
    let mut report = fluid(train);
    report.packets.iter_mut().skip(1).for_each(|packet| *packet = None);
    report
}

/// Each rate without usable streams is repeated, and then counts as grey.
#[test]
fn unusable_fleets_are_repeated() {
    let config = PathloadConfig::default();
    let fleet = FleetRule { medium_loss: 1.0, high_loss: 1.0, ..config.fleet };
    let mut method = Turns::of(Procedure::new(PathloadConfig { fleet, ..config }));
    let mut shapes = Vec::new();
    run(&mut method, |n, train| {
        if n > 0 {
            shapes.push((train.packets[0].size, train.packets[1].at));
        }
        Some(if n == 0 { fluid(train) } else { first_only(train) })
    });
    let asked: Vec<usize> = shapes.chunk_by(|before, shape| before == shape).map(<[_]>::len).collect();
    let times = (config.repeats as usize + 1) * config.streams as usize;
    assert!(asked.len() > 1 && asked.iter().all(|streams| *streams == times), "{asked:?}");
}

#[test]
fn the_largest_number_of_fleets_ends_the_session() {
    let mut method = Turns::of(Procedure::new(PathloadConfig { fleets: 2, ..PathloadConfig::default() }));
    let (_, trains) = run(&mut method, |_, train| Some(fluid(train)));
    assert_eq!((trains, method.estimate().converged), (25, false));
}

/// Missing answers of a path that died are not a sign of congestion.
#[test]
fn the_estimate_remains_when_the_path_dies() {
    let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
    let (_, trains) = run(&mut method, |n, train| (n < 37).then(|| fluid(train)));
    let available = method.estimate().available.unwrap();
    assert_eq!(trains, 47);
    assert!(!method.estimate().converged);
    assert!(
        available.low <= Rate::from_bytes_per_sec(5_000_000) && available.high >= Rate::from_bytes_per_sec(5_000_000)
    );
}

/// One packet in five is lost without any queueing: losses alone reduce the rate to the lowest one.
#[test]
fn a_path_that_always_loses_has_nothing_available() {
    let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
    let (_, trains) = run(&mut method, |_, train| {
        let mut report = fluid(train);
        report.packets.iter_mut().step_by(5).for_each(|packet| *packet = None);
        Some(report)
    });
    let available = method.estimate().available.unwrap();
    assert_eq!(available.low, Rate::from_bytes_per_sec(0));
    assert!(trains < 60, "three streams per fleet suffice: {trains}");
}
