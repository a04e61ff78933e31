use longhaul_cc::estimate::PairSample;
use longhaul_cc::{AckedSegment, Detection, LostSegment, SegmentKind, update};
use longhaul_units::{Span, Time};

use super::*;
use crate::tests::{MSS, Sender, segments};

const PS: f64 = 1500.0;

/// Table of UDT's increase: segments of 1500 bytes per SYN by free rate (Gu, Grossman, Computer Networks 51(7),
/// 2007).
#[test]
fn the_step_is_a_power_of_ten_by_what_is_free() {
    let table = [
        (10_000.0, 10.0),
        (1_001.0, 10.0),
        (1_000.0, 1.0),
        (101.0, 1.0),
        (100.0, 0.1),
        (10.1, 0.1),
        (10.0, 0.01),
        (1.01, 0.01),
        (1.0, 0.001),
        (0.11, 0.001),
        (0.1, 1.0 / PS),
        (0.0, 1.0 / PS),
        (-50.0, 1.0 / PS),
        (f64::NAN, 1.0 / PS),
    ];
    for (megabits, packets) in table {
        let found = step(megabits * 1e6 / 8.0) / PS;
        assert!((found / packets - 1.0).abs() < 1e-9, "{megabits} Mb/s free: {found}, not {packets}");
    }
    assert!(step(f64::INFINITY).is_finite());
}

/// Below the rate of the last decrease at most a ninth of the capacity counts as free; above it the whole difference
/// does.
#[test]
fn what_is_free_is_a_ninth_at_most_after_a_decrease() {
    assert_eq!(free_part(900.0, 700.0, 800.0), 100.0);
    assert_eq!(free_part(900.0, 850.0, 880.0), 50.0);
    assert_eq!(free_part(900.0, 300.0, 200.0), 600.0);
    assert_eq!(free_part(0.0, 300.0, 200.0), -300.0);
}

/// Of intervals of 1 ms per byte and some outliers, only those within a factor of eight of the median count.
#[test]
fn intervals_far_from_the_median_do_not_count() {
    let mut intervals = Intervals::default();
    for n in 0..8 {
        assert_eq!(intervals.speed(), None, "{n} are too few");
        intervals.add(1e-3);
    }
    intervals.add(1e-3);
    assert!((intervals.speed().expect("nine") - 1000.0).abs() < 1e-6);
    for far in [1e-9, 1e-9, 1.0, 1.0, f64::NAN, f64::INFINITY] {
        intervals.add(far);
    }
    assert!((intervals.speed().expect("nine of thirteen") - 1000.0).abs() < 1e-6);
    for _ in 0..16 {
        intervals.add(0.5e-3);
    }
    assert!((intervals.speed().expect("sixteen") - 2000.0).abs() < 1e-6);
}

/// The newest value weighs an eighth.
#[test]
fn reports_are_smoothed_by_an_eighth() {
    let mut smooth = Smooth::default();
    assert_eq!(smooth.get(), None);
    smooth.add(800.0);
    smooth.add(1600.0);
    assert_eq!(smooth.get(), Some(900.0));
}

fn granted() -> Granted {
    update!(Granted { segments: true, ..Granted::basic() })
}

fn udt() -> Udt {
    let mut udt = Udt::new("udt".to_owned(), 0, &BuildParams::default());
    let path = Path::new(MSS);
    udt.on_granted(&granted(), &path).expect("paced");
    udt.on_event(&PathEvent::Established { now: Time::from_nanos(1_000_000_000), granted: granted() }, &path);
    udt
}

/// Returns a flow at `rate` bytes/s, after slow start, over a path of 100 ms.
fn at_rate(rate: f64, capacity: f64) -> (Udt, Path) {
    let mut udt = udt();
    (udt.slow_start, udt.rate, udt.before) = (false, rate, rate * 2.0);
    udt.capacity.add(capacity);
    let mut path = Path::new(MSS);
    path.srtt = Some(Span::from_millis(100));
    (udt, path)
}

fn ack_at(ms: u64) -> Ack<'static> {
    let mut ack = Ack::new(Time::from_nanos(2_000_000_000) + Span::from_millis(ms));
    (ack.delivered, ack.limit, ack.cwnd_limited) = (MSS * TRAIN, SendLimit::Pacing, true);
    ack
}

/// At 50 of 100 Mb/s, 11.1 Mb/s count as free, so that 10^8 x 1.5e-6 = 150 bytes per SYN are added, which are 15,000
/// bytes/s every 10 ms.
#[test]
fn the_rate_rises_once_a_syn_and_only_while_it_is_used() {
    let (mut udt, path) = at_rate(6.25e6, 12.5e6);
    for ms in 0..=100 {
        udt.on_ack(&ack_at(ms), &path);
    }
    assert!((udt.rate - 6.25e6 - 10.0 * 15_000.0).abs() < 1.0, "{}", udt.rate);
    let before = udt.rate;
    for ms in 101..200 {
        let mut ack = ack_at(ms);
        ack.limit = SendLimit::App;
        udt.on_ack(&ack, &path);
    }
    assert!((udt.rate - before - 0.0).abs() < 1.0 + 15_000.0, "{}", udt.rate - before);
    let before = udt.rate;
    for (ms, limit) in [(210, SendLimit::PeerWindow), (230, SendLimit::SendBuffer), (250, SendLimit::App)] {
        let mut ack = ack_at(ms);
        ack.limit = limit;
        udt.on_ack(&ack, &path);
    }
    assert_eq!(udt.rate, before);
}

/// Returns the number of steps by which the rate increased after ACKs at these times, in ms, for so many bytes.
fn steps(acks: impl IntoIterator<Item = (u64, Bytes)>) -> f64 {
    let (mut udt, path) = at_rate(6.25e6, 12.5e6);
    for (ms, delivered) in acks {
        let mut ack = ack_at(ms);
        (ack.delivered, ack.limit) = (delivered, SendLimit::Cwnd);
        udt.on_ack(&ack, &path);
    }
    ((udt.rate - 6.25e6) / 15_000.0).round()
}

/// Data acknowledged at once, or during a pause, allows one late update and one due update, but no more.
#[test]
fn updates_are_not_saved_up() {
    let train = MSS * TRAIN;
    let trickle = (1..20).map(|n| (n * 10, Bytes(1)));
    assert_eq!(steps([(0, train * 10)].into_iter().chain(trickle)), 2.0);
    // The first update is a second late, the next one follows 10 ms after it was due, and then there is one every 10
    // ms.
    assert_eq!(steps([(0, train)].into_iter().chain((1000..=1020).map(|ms| (ms, train)))), 4.0);
    assert_eq!(steps([(0, train * 2), (10, Bytes::ZERO)]), 0.0, "nothing arrived");
}

/// Returns the number of increases in 3 s in which a train arrived every `apart` ms. Each train is acknowledged in
/// ACKs for `part` bytes, which are sent `held` ms after its arrival.
fn rises(apart: u64, part: Bytes, held: impl Fn(u64) -> u64) -> f64 {
    let (mut udt, path) = at_rate(6.25e6, 12.5e6);
    let parts = (MSS * TRAIN).0 / part.0;
    let mut at: Vec<u64> = (0..3_000).step_by(apart as usize).flat_map(|ms| (0..parts).map(move |_| ms)).collect();
    at.iter_mut().zip(0..).for_each(|(ms, number)| *ms += held(*ms + number % parts));
    at.sort_unstable();
    for ms in at {
        let mut ack = ack_at(ms);
        ack.delivered = part;
        udt.on_ack(&ack, &path);
    }
    (udt.rate - 6.25e6) / 15_000.0
}

/// The number of increases depends on time and on delivered data, not on how many ACKs the peer sends and when.
#[test]
fn acks_do_not_choose_how_often_the_rate_rises() {
    let segment = MSS;
    for apart in [1, 6, 40, 60] {
        let often = 3_000.0 / apart.max(10) as f64;
        let close = |found: f64, what: &str| {
            assert!((found - often).abs() < 3.0, "{what}, trains {apart} ms apart: {found}, not {often}");
        };
        close(rises(apart, segment * TRAIN, |_| 0), "one");
        close(rises(apart, segment * 2, |_| 0), "two at once");
        close(rises(apart, segment, |ms| ms % apart * 10), "four, 10 ms apart");
        close(rises(apart, segment, |ms| ms.next_multiple_of(12) - ms), "every 12 ms");
        close(rises(apart, Bytes(100), |ms| ms % apart), "split");
    }
}

fn lose(udt: &mut Udt, path: &Path, ms: u64, tx: u64) {
    let mut ack = ack_at(ms);
    let lost = [LostSegment::new(TxId(tx), ack.now, MSS)];
    (ack.lost, ack.newly_lost, ack.delivered) = (&lost, MSS, Bytes::ZERO);
    udt.on_ack(&ack, path);
}

fn send(udt: &mut Udt, path: &Path, tx: u64) {
    udt.on_sent(&Sent::new(Time::from_nanos(2_000_000_000), TxId(tx), MSS), path);
}

/// A loss that starts a congestion period leaves 8/9 of the rate, once for all earlier segments. The SYN of a loss
/// has no increase.
#[test]
fn a_loss_takes_a_ninth_once_a_congestion_period() {
    let (mut udt, path) = at_rate(9e6, 12.5e6);
    udt.on_ack(&ack_at(0), &path);
    send(&mut udt, &path, 100);
    lose(&mut udt, &path, 1, 50);
    assert!((udt.rate - 8e6).abs() < 1e-3 && udt.before == 9e6, "{}", udt.rate);
    send(&mut udt, &path, 200);
    udt.on_ack(&ack_at(11), &path);
    assert!((udt.rate - 8e6).abs() < 1e-3, "a rise in the SYN of a loss: {}", udt.rate);
    udt.on_ack(&ack_at(21), &path);
    assert!((udt.rate - 8e6 - 15_000.0).abs() < 1e-3);
    let before = udt.rate;
    lose(&mut udt, &path, 22, 150);
    assert!((udt.rate / before - 8.0 / 9.0).abs() < 1e-9, "150 left after the first decrease");
}

/// The average of the first period is one report, so that each of four further reports counts; then none does until
/// newer segments are lost.
#[test]
fn a_period_takes_a_half_at_most() {
    let (mut udt, path) = at_rate(9e6, 12.5e6);
    send(&mut udt, &path, 100);
    for tx in 50..80 {
        lose(&mut udt, &path, 1, tx);
    }
    let kept = udt.rate / 9e6;
    assert!((kept - (8.0_f64 / 9.0).powi(5)).abs() < 1e-9 && kept > 0.5, "{kept}");
}

/// Without reports per segment, an episode counts as a period.
#[test]
fn an_episode_is_a_period_where_segments_are_not_told() {
    let (mut udt, path) = at_rate(9e6, 12.5e6);
    udt.segments = false;
    for (episode, left) in [(Episode::Enter, 8.0 / 9.0), (Episode::Again, 64.0 / 81.0)] {
        let mut ack = ack_at(1);
        (ack.newly_lost, ack.delivered, ack.episode) = (MSS, Bytes::ZERO, episode);
        udt.on_ack(&ack, &path);
        assert!((udt.rate / 9e6 - left).abs() < 1e-9, "{episode:?}: {}", udt.rate);
    }
}

/// Slow start has 16 segments, doubled per round trip, and no pace. After the first loss the rate is the arrival rate
/// minus a ninth.
#[test]
fn slow_start_ends_with_the_first_loss_at_the_rate_of_arrival() {
    let mut sender = Sender::with(Box::new(udt()), granted());
    assert_eq!((sender.cwnd(), sender.control().pace), (segments(16), None));
    sender.fill();
    // 16 segments arrive 1 ms apart.
    sender.now += sender.rtt;
    for _ in 0..16 {
        sender.now += Span::from_millis(1);
        sender.ack(1);
    }
    sender.now += Span::from_millis(10);
    sender.fill();
    sender.ack(1);
    assert!(sender.cwnd() >= segments(30), "{}", sender.cwnd());
    sender.fill();
    for _ in 0..16 {
        sender.now += Span::from_millis(1);
        sender.ack(1);
    }
    sender.lose();
    assert_eq!(sender.snapshot().phase, "rate-control");
    let rate = sender.control().pace.expect("a pace").rate.as_bytes_per_sec() as f64;
    let expected = MSS.as_f64() * 1000.0 * 8.0 / 9.0;
    assert!((rate / expected - 1.0).abs() < 0.01, "{rate}, not {expected}");
}

/// After slow start the window is the data that arrives in a round trip and a SYN, plus 16 segments.
#[test]
fn the_window_bounds_what_a_standstill_leaves_in_flight() {
    let (mut udt, path) = at_rate(9e6, 12.5e6);
    udt.arriving.add(1e6);
    udt.on_ack(&ack_at(0), &path);
    udt.on_ack(&ack_at(10), &path);
    assert_eq!(udt.control().cwnd, Bytes(110_000) + segments(16));
}

/// Four segments are sent together and yield two ACKs 240 us apart: 2 x 1460 bytes in that time are 97 Mb/s, at any
/// send rate.
#[test]
fn trains_tell_the_capacity() {
    let (mut udt, path) = at_rate(1e6, 1e6);
    let mut at = Time::from_nanos(2_000_000_000);
    for _ in 0..400 {
        let sent_at = at - Span::from_millis(100);
        for gap in [Span::from_micros(5_600), Span::from_micros(240)] {
            at += gap;
            let mut ack = ack_at(0);
            (ack.now, ack.delivered) = (at, MSS * 2);
            ack.rtt = Some(longhaul_cc::RttSample::new(at.since(sent_at), sent_at));
            udt.on_ack(&ack, &path);
        }
    }
    let capacity = udt.capacity.get().expect("trains");
    assert!((capacity / (2.0 * MSS.as_f64() / 240e-6) - 1.0).abs() < 0.01, "{capacity}");
    let arriving = udt.arriving.get().expect("arrivals");
    assert!((arriving / (4.0 * MSS.as_f64() / 5_840e-6) - 1.0).abs() < 0.01, "{arriving}");
}

/// Returns the acknowledged segments of a train: four sent together, 5.84 ms after the previous four, that arrived
/// 120 us apart, which is 97 Mb/s.
fn of_train(number: u64, coalesced: bool) -> [AckedSegment; 4] {
    std::array::from_fn(|n| {
        let sent_at = Time::from_nanos(1_000_000_000) + Span::from_micros(5_840) * number;
        let mut segment = AckedSegment::new(TxId(number * 4 + n as u64), sent_at, MSS);
        segment.arrival = Some(sent_at + Span::from_secs(9_000) + Span::from_micros(120) * n as u64);
        segment.arrival_coalesced = coalesced;
        segment
    })
}

/// Returns the flow after `count` trains, whose ACKs arrive in bunches of eight every 50 ms, one per train.
/// Consecutive ACKs always belong to different trains, and many arrive at the same instant.
fn after_trains(count: u64, change: impl Fn(&mut AckedSegment)) -> Udt {
    let (mut udt, path) = at_rate(1e6, 1e6);
    for number in 0..count {
        let mut segments = of_train(number, false);
        segments.iter_mut().for_each(&change);
        let mut ack = ack_at(number / 8 * 50);
        (ack.delivered, ack.acked) = (MSS * 4, &segments);
        ack.rtt = Some(longhaul_cc::RttSample::new(Span::from_millis(100), segments[3].sent_at));
        udt.on_ack(&ack, &path);
    }
    udt
}

/// If arrival times are reported, the spacing of ACKs does not matter. If there are none, or all segments were merged
/// on arrival, the ACKs are the only source, which here does not show the capacity.
#[test]
fn times_of_arrival_tell_the_capacity_whatever_becomes_of_acks() {
    let told = after_trains(2000, |_| {});
    let (capacity, arriving) = (told.capacity.get().expect("pairs"), told.arriving.get().expect("trains"));
    assert!((capacity / (MSS.as_f64() / 120e-6) - 1.0).abs() < 1e-3, "{capacity}");
    assert!((arriving / (4.0 * MSS.as_f64() / 5_840e-6) - 1.0).abs() < 1e-3, "{arriving}");
    let untold = |change: fn(&mut AckedSegment)| after_trains(2000, change).capacity.get();
    assert_eq!(untold(|segment| segment.arrival = None), Some(1e6));
    assert_eq!(untold(|segment| segment.arrival_coalesced = true), Some(1e6));
    // In each of these cases, for different reasons, no two segments count as sent back to back.
    assert_eq!(untold(|segment| segment.tx.0 *= 2), Some(1e6));
    assert_eq!(untold(|segment| segment.sent_at += Span::from_nanos(segment.tx.0)), Some(1e6));
    assert_eq!(untold(|segment| segment.kind = SegmentKind::Retransmit), Some(1e6));
    assert_eq!(
        untold(|segment| segment.arrival = segment.arrival.map(|at| at - Span::from_micros(120) * (segment.tx.0 % 4))),
        Some(1e6)
    );
}

/// Flipped pairs show the capacity if all other segments were merged. After 10 s without reports the ACKs are used
/// again.
#[test]
fn flipped_pairs_tell_the_capacity() {
    let (mut udt, path) = at_rate(1e6, 1e6);
    let pair = update!(PairSample { dispersion: Span::from_micros(120), bytes: Bytes(1500), ..PairSample::default() });
    for n in 0..200 {
        let mut ack = ack_at(n * 20);
        ack.pair = Some(update!(PairSample { coalesced: n % 2 == 0, ..pair }));
        udt.on_ack(&ack, &path);
    }
    let capacity = udt.capacity.get().expect("pairs");
    assert!((capacity / (MSS.as_f64() / 120e-6) - 1.0).abs() < 1e-3, "{capacity}");
    let told = |udt: &mut Udt, ms| udt.told.digest(&ack_at(ms), MSS, &mut udt.trains, &mut udt.arrivals);
    assert!(told(&mut udt, 199 * 20 + 10_000));
    assert!(!told(&mut udt, 199 * 20 + 10_001));
}

/// A receiver that reports all arrivals at one instant does not make data arrive faster than it was sent.
#[test]
fn data_do_not_arrive_faster_than_they_left() {
    let squeezed = |segment: &mut AckedSegment| {
        let within = segment.tx.0 % 4 * 1000;
        segment.arrival = Some(Time::from_nanos(5_000_000_000_000 + segment.tx.0 / 4 * 4000 + within));
    };
    let arriving = after_trains(2000, squeezed).arriving.get().expect("trains");
    assert!((arriving / (4.0 * MSS.as_f64() / 5_840e-6) - 1.0).abs() < 1e-3, "{arriving}");
}

#[test]
fn a_timeout_waits_for_an_answer_with_one_segment() {
    let mut sender = Sender::with(Box::new(udt()), granted());
    sender.fill();
    sender.time_out(1);
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (MSS, "rate-control"));
    sender.send(SegmentKind::Retransmit);
    sender.ack(1);
    assert!(sender.cwnd() >= segments(16));
}

#[test]
fn it_needs_a_pacer_and_is_not_for_shared_networks() {
    let spec = crate::tests::spec("udt");
    assert_eq!(spec.safety(), longhaul_cc::registry::Safety::Controlled);
    let mut udt = Udt::new("udt".to_owned(), 0, &BuildParams::default());
    let bare = update!(Granted { pacing: false, detection: Detection::Sack, ..Granted::basic() });
    let error = udt.on_granted(&bare, &Path::new(MSS)).expect_err("not paced");
    assert_eq!((error.controller.as_str(), error.need), ("udt", "pacing"));
}
