use longhaul_cc::internal::TcpProbe;
use longhaul_cc::{RttSample, update};
use proptest::prelude::*;

use super::pairs::KEPT;
use super::*;

const SIZE: Bytes = Bytes(1500);
const MSS: Bytes = Bytes(1448);
/// Transmission time of 1500 bytes at 80 Mb/s in microseconds.
const D: u64 = 150;
const RTT: u64 = 133_000;

fn micros(us: u64) -> Span {
    Span::from_micros(us)
}

fn at(ms: u64) -> Time {
    Time::from_nanos(5_000_000_000) + Span::from_millis(ms)
}

/// Returns a pair whose first packet was queued for `waited`, with the given dispersion, both in microseconds.
fn pair(waited: u64, dispersion: u64) -> PairSample {
    let (first_delay, dispersion) = (micros(RTT + waited), micros(dispersion));
    update!(PairSample {
        first_delay,
        second_delay: first_delay + dispersion,
        dispersion,
        bytes: SIZE,
        coalesced: false,
        ..PairSample::default()
    })
}

/// Returns an estimate after these pairs, a round trip apart, with the minimum RTT known.
fn after(pairs: impl IntoIterator<Item = PairSample>) -> FusedCapacity {
    let mut fused = FusedCapacity::default();
    fused.on_rtt(micros(RTT), at(0));
    for (k, pair) in (1..).zip(pairs) {
        fused.on_pair(&pair, at(133 * k));
    }
    fused
}

fn mbit(fused: &FusedCapacity) -> f64 {
    fused.capacity().map_or(0.0, |rate| rate.as_bytes_per_sec() as f64 * 8e-6)
}

/// Uniform random numbers from 0 to 1.
#[derive(Clone, Copy)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Narrow link with cross traffic: packets of 500 bytes that arrive at random times. All times are in microseconds.
struct Queue {
    chance: Chance,
    /// Capacity in Mb/s, and the part of it that cross traffic takes.
    capacity: f64,
    load: f64,
    now: f64,
    work: f64,
    next: f64,
}

impl Queue {
    fn new(seed: u64, capacity: f64, load: f64) -> Self {
        Self { chance: Chance(seed), capacity, load, now: 0.0, work: 0.0, next: 0.0 }
    }

    fn takes(&self, bytes: f64) -> f64 {
        bytes * 8.0 / self.capacity
    }

    /// Returns the queueing delay of a packet of `bytes` that arrives at `time`.
    fn arrive(&mut self, time: f64, bytes: f64) -> f64 {
        while self.load > 0.0 && self.next <= time {
            self.work = (self.work - (self.next - self.now)).max(0.0) + self.takes(500.0);
            self.now = self.next;
            self.next -= self.chance.next().max(1e-12).ln() * self.takes(500.0) / self.load;
        }
        self.work = (self.work - (time - self.now)).max(0.0);
        self.now = time;
        let waited = self.work;
        self.work += self.takes(bytes);
        waited
    }
}

/// A link of 80 Mb/s behind one of `access`, and one of 100 Mb/s behind it. The minimum RTT of the path is 133 ms.
struct Links {
    access: f64,
    narrow: Queue,
    behind: Queue,
}

impl Links {
    fn new(seed: u64, access: f64, loads: [f64; 2]) -> Self {
        Self { access, narrow: Queue::new(seed, 80.0, loads[0]), behind: Queue::new(seed + 1_000_000, 100.0, loads[1]) }
    }

    /// Returns the times at which full-sized packets sent at `times`, in microseconds, are acknowledged.
    fn pass<const N: usize>(&mut self, times: [f64; N]) -> [Time; N] {
        let narrow = times.map(|time| time + self.narrow.arrive(time, 1500.0) + self.narrow.takes(1500.0));
        let behind = narrow.map(|time| time + self.behind.arrive(time, 1500.0));
        behind.map(|time| Time::from_nanos(((time + RTT as f64 - D as f64) * 1e3).round() as u64))
    }

    fn pair(&mut self, time: f64) -> PairSample {
        let [first, second] = self.pass([time, time + 12_000.0 / self.access]);
        let sent = Time::from_nanos((time * 1e3) as u64);
        PairSample::of((sent, first), (sent, second), SIZE).unwrap()
    }

    fn rtt(&mut self, time: f64) -> Span {
        let [at] = self.pass([time]);
        at - Time::from_nanos((time * 1e3) as u64)
    }
}

/// Relative error of an estimate, and whether it has converged.
type State = (f64, bool);

/// Returns the fused estimate and TCPProbe's after each round trip, which has one pair and twenty other packets.
fn run(seed: u64, access: f64, loads: [f64; 2], rounds: u64) -> Vec<[State; 2]> {
    let mut queue = Links::new(seed, access, loads);
    let (mut fused, mut probe) = (FusedCapacity::default(), TcpProbe::default());
    let round = |k: u64| {
        let start = k as f64 * RTT as f64;
        let now = at(133 * k);
        for other in 1..20 {
            fused.on_rtt(queue.rtt(start + 3000.0 * f64::from(other)), now);
        }
        let sample = queue.pair(start + 100_000.0);
        fused.on_pair(&sample, now);
        probe.on_pair(&sample, now);
        let off = |rate: Option<Rate>| (rate.map_or(0.0, |rate| rate.as_bytes_per_sec() as f64) / 1e7 - 1.0).abs();
        [(off(fused.capacity()), fused.converged()), (off(probe.capacity()), probe.converged())]
    };
    (1..=rounds).map(round).collect()
}

/// Returns the first round after which the estimate had converged.
fn converged(run: &[[State; 2]], which: usize) -> usize {
    1 + run.iter().position(|states| states[which].1).unwrap_or(run.len())
}

/// ACKs of a flow that doubles its window every round trip of 133 ms. Each acknowledges one segment, and their
/// spacing is that of the narrow link of 80 Mb/s; each round has one pair. The estimate is within 5 % from the first
/// pair on, while BE is wrong by more than a fifth in all ten rounds. It converges with the sixth pair, TCPProbe with
/// the fortieth.
#[test]
fn it_knows_from_the_first_pair_what_be_does_not_know_in_slow_start() {
    let (mut fused, mut probe, path) = (FusedCapacity::default(), TcpProbe::default(), Path::new(MSS));
    let mut converged = [None, None];
    for round in 1..=45 {
        let mut path = path;
        path.latest_rtt = Some(micros(RTT));
        for k in 0..(10_u64 << round.min(6)) {
            let mut ack = Ack::new(at(133 * round) + micros(D * k));
            ack.delivered = MSS;
            ack.rtt = Some(RttSample::new(micros(RTT), ack.now - micros(RTT)));
            ack.pair = (k == 1).then(|| pair(0, D));
            fused.observe(&ack, &path);
            if let Some(pair) = &ack.pair {
                probe.on_pair(pair, ack.now);
                assert!((mbit(&fused) / 80.0 - 1.0).abs() < 0.05, "{round}: {}", mbit(&fused));
                assert!(
                    round > 10 || fused.be() * 8e-6 * 1500.0 / 1448.0 < 64.0,
                    "{round}: BE is as good, {}",
                    fused.be()
                );
            }
        }
        for (first, is) in converged.iter_mut().zip([fused.converged(), probe.converged()]) {
            *first = first.or(is.then_some(round));
        }
    }
    assert_eq!(converged, [Some(6), Some(40)]);
}

/// Random cross traffic takes half of the narrow link, behind a fast link. Of a hundred runs half converge within 10
/// round trips and all within 20, with an error of at most 10 % from then on. TCPProbe takes 40.
#[test]
fn half_of_the_link_taken_at_random_delays_it_little() {
    let mut rounds = Vec::new();
    for seed in 1..=100 {
        let run = run(seed, 1000.0, [0.5, 0.0], 100);
        let (fused, probe) = (converged(&run, 0), converged(&run, 1));
        assert!((6..=20).contains(&fused) && probe == 40, "{seed}: {fused} {probe}");
        let worst = run[fused - 1..].iter().map(|states| states[0].0).fold(0.0, f64::max);
        assert!(worst <= 0.1, "{seed}: {worst}");
        rounds.push(fused);
    }
    rounds.sort_unstable();
    assert!(rounds[50] <= 10, "{rounds:?}");
}

/// If most pairs are distorted, the estimate needs as many pairs as CapProbe and is as good. Behind a link of 100
/// Mb/s, with up to 70 % of the narrow link or half of a later one taken, at most one of twenty converged estimates
/// is off by more than 10 %.
#[test]
fn where_most_pairs_are_distorted_it_takes_its_time() {
    for (access, loads) in [(100.0, [0.5, 0.0]), (100.0, [0.7, 0.0]), (1000.0, [0.0, 0.5]), (1000.0, [0.3, 0.5])] {
        let runs: Vec<_> = (1..=100).map(|seed| run(seed, access, loads, 100)).collect();
        let wrong = |which: usize| {
            let first = runs.iter().filter_map(|run| run.get(converged(run, which) - 1));
            first.filter(|states| states[which].0 > 0.1).count()
        };
        assert!(wrong(0) <= 5, "{access} {loads:?}: {}, TCPProbe {}", wrong(0), wrong(1));
        let settled = runs.iter().filter(|run| run[40..].iter().all(|states| states[0].0 <= 0.1)).count();
        assert!(settled >= 97, "{access} {loads:?}: {settled}");
    }
}

/// ACKs for 4 kB every millisecond: BE and the delivered rate are 4 MB/s of payload.
fn with_be() -> FusedCapacity {
    let (mut fused, mut path) = (FusedCapacity::default(), Path::new(MSS));
    path.latest_rtt = Some(micros(RTT));
    for ms in 0..5000 {
        let mut ack = Ack::new(at(ms));
        ack.delivered = Bytes(4000);
        ack.rtt = Some(RttSample::new(micros(RTT), ack.now - micros(RTT)));
        fused.observe(&ack, &path);
    }
    fused
}

/// The estimate is BE before the first pair. A pair queued for as long as its dispersion weighs a third, two that
/// agree two thirds.
#[test]
fn pairs_replace_be_by_what_they_weigh() {
    let mut fused = with_be();
    assert!((mbit(&fused) / 32.0 - 1.0).abs() < 1e-3 && !fused.converged(), "{fused:?}");
    let be = 32.0 * 1500.0 / 1448.0;
    for (count, trust) in [(1, 1.0 / 3.0), (2, 2.0 / 3.0), (3, 1.0), (4, 1.0)] {
        fused.on_pair(&pair(D, D), at(5000 + count));
        let estimate = fused.estimate().unwrap();
        assert!((estimate.trust - trust).abs() < 1e-9, "{estimate:?}");
        let expected = trust * 80.0 + (1.0 - trust) * be;
        assert!((mbit(&fused) / expected - 1.0).abs() < 1e-3, "{count}: {} {expected}", mbit(&fused));
        assert!((fused.payload_rate() * 8e-6 * 1500.0 / 1448.0 / expected - 1.0).abs() < 1e-3);
    }
    // The lower bound belongs to the dispersion of 150 us, plus the queueing delay of 150 us and two readings of 1
    // us.
    let low = fused.estimate().unwrap().rate.low.as_bytes_per_sec() as f64;
    assert!((low / (1500.0 / 302e-6) - 1.0).abs() < 1e-4, "{low}");
}

/// Behind a queue of 20 ms that never empties, pairs are distorted in any way, and BE is the rate of the link.
#[test]
fn be_stays_where_every_pair_waits() {
    let mut fused = with_be();
    let mut chance = Chance(7);
    for k in 0..100 {
        let dispersion = 60.0 + 600.0 * chance.next();
        fused.on_pair(&pair(20_000 + (8000.0 * chance.next()) as u64, dispersion as u64), at(5000 + 133 * k));
        let estimate = fused.estimate().unwrap();
        assert!(estimate.trust < 0.1 && !estimate.converged, "{k}: {estimate:?}");
        assert!((mbit(&fused) / (32.0 * 1500.0 / 1448.0) - 1.0).abs() < 0.1, "{k}: {}", mbit(&fused));
    }
}

/// The delivered rate proves slower pairs wrong, and no estimate is less than it.
#[test]
fn pairs_slower_than_what_was_delivered_are_no_candidates() {
    let mut fused = with_be();
    fused.on_pair(&pair(0, 600), at(5001));
    assert_eq!(fused.estimate().unwrap().support, 0);
    assert!(mbit(&fused) >= 32.0, "{}", mbit(&fused));
    fused.on_pair(&pair(10, D), at(5002));
    assert_eq!(fused.estimate().unwrap().support, 1);
    assert!(mbit(&fused) > 70.0, "{}", mbit(&fused));
}

/// An ACK that ends recovery covers data that arrived before, and does not show a rate of the path.
#[test]
fn what_a_retransmission_uncovers_was_not_delivered_at_once() {
    let mut fused = with_be();
    fused.on_pair(&pair(0, D), at(5001));
    for ms in 0..2000 {
        let mut ack = Ack::new(at(5001 + ms));
        (ack.delivered, ack.episode) = (Bytes(0), Episode::In);
        if ms == 1000 {
            (ack.delivered, ack.episode) = (Bytes(40_000_000), Episode::Exit);
        } else if ms > 1000 {
            (ack.delivered, ack.episode) = (Bytes(4000), Episode::None);
        }
        fused.observe(&ack, &Path::new(MSS));
    }
    assert!((mbit(&fused) / 80.0 - 1.0).abs() < 0.01, "{}", mbit(&fused));
}

/// Reported arrival times are off by a tenth occasionally, while the delays of the ACKs are correct. Such a pair is
/// not the best one because of its error.
#[test]
fn a_dispersion_that_is_off_does_not_make_a_pair_the_best() {
    let mut fused = after((0..5).map(|_| pair(64, D)));
    for k in 0..40 {
        let dispersion = micros([134, 150, 165, 146][k % 4]);
        fused.on_pair(&update!(PairSample { dispersion, ..pair(65, D) }), at(2000 + 133 * k as u64));
        assert!((mbit(&fused) / 80.0 - 1.0).abs() < 0.02, "{k}: {}", mbit(&fused));
    }
    assert_eq!((fused.converged(), fused.changes()), (true, 0));
}

/// A faster path is followed at once, because its pair has less delay. A slower or longer one is followed at the
/// tenth pair.
#[test]
fn a_change_of_the_path_is_followed() {
    let mut fused = after((0..30).map(|_| pair(0, 2 * D)));
    assert_eq!((mbit(&fused), fused.converged()), (40.0, true));
    fused.on_pair(&pair(0, D), at(9000));
    assert_eq!((mbit(&fused), fused.converged(), fused.changes()), (80.0, false, 0));
    for k in 1..=30 {
        fused.on_pair(&pair(10_000, 4 * D), at(10_000 + 133 * k));
        assert_eq!(mbit(&fused), if k < 10 { 80.0 } else { 20.0 }, "{k}");
        assert_eq!((fused.changes(), fused.converged()), (u32::from(k >= 10), k >= 10), "{k}");
    }
}

/// Pairs that contradict the best one without agreeing are cross traffic; a hundred in a row are a changed path.
#[test]
fn many_that_contradict_are_another_path_too() {
    let mut fused = after((0..30).map(|_| pair(0, D)));
    for k in 1..=120 {
        let sample = if k % 9 == 0 { pair(0, 3 * D) } else { pair(5, 3 * D + 30 * (k % 9)) };
        fused.on_pair(&sample, at(5000 + 133 * k));
        let known = fused.estimate().unwrap().rate.value;
        assert_eq!(known, Rate::from_bytes_over(SIZE, micros(if k < 100 { D } else { 3 * D })), "{k}");
    }
}

/// After two minutes the good pairs expire, and those queued for long have little weight.
#[test]
fn old_pairs_are_forgotten() {
    let mut fused = after((0..10).map(|_| pair(0, D)));
    fused.on_rtt(micros(RTT), at(100_000));
    fused.on_pair(&pair(20_000, D), at(119_000));
    assert!(fused.estimate().unwrap().trust >= 1.0 && fused.converged());
    fused.on_pair(&pair(20_000, D), at(123_000));
    let estimate = fused.estimate().unwrap();
    assert_eq!((estimate.support, estimate.converged), (2, false));
}

#[test]
fn absurd_pairs_change_nothing_and_another_size_begins_anew() {
    let mut fused = after((0..10).map(|_| pair(0, D)));
    let before = fused.estimate();
    for absurd in [
        update!(PairSample { dispersion: Span::ZERO, ..pair(0, D) }),
        update!(PairSample { coalesced: true, ..pair(0, D) }),
        update!(PairSample { bytes: Bytes::ZERO, ..pair(0, D) }),
    ] {
        assert!(!fused.on_pair(&absurd, at(3000)));
    }
    assert_eq!(fused.estimate(), before);
    fused.on_pair(&update!(PairSample { bytes: Bytes(1400), ..pair(0, 140) }), at(3000));
    let estimate = fused.estimate().unwrap();
    assert_eq!((mbit(&fused), estimate.samples, estimate.support), (80.0, 1, 1));
    assert_eq!(FusedCapacity::default().estimate(), None);
    assert!(size_of::<FusedCapacity>() <= 1720, "{}", size_of::<FusedCapacity>());
}

proptest! {
    /// After any number of pairs, the best of all and the newest sixteen are kept.
    #[test]
    fn the_best_and_the_newest_are_kept(waits in prop::collection::vec((0_u64..5000, 1_u64..1000), 1..200)) {
        let mut pairs = Pairs::new(SIZE);
        for (k, (waited, dispersion)) in (0..).zip(&waits) {
            pairs.take(&pair(*waited, *dispersion), at(k));
        }
        prop_assert_eq!(pairs.all().len(), waits.len().min(KEPT));
        let newest: Vec<_> = pairs.all().iter().rev().map(|pair| pair.dispersion).take(16).collect();
        let sent: Vec<_> = waits.iter().rev().take(16).map(|(_, dispersion)| micros(*dispersion)).collect();
        prop_assert_eq!(newest, sent);
        let least = waits.iter().map(|(waited, dispersion)| 2 * waited + dispersion).min().unwrap();
        let best = pairs.best(Span::MAX).unwrap();
        let ours = waits.iter().filter(|(waited, dispersion)| 2 * waited + dispersion == least);
        prop_assert!(ours.map(|(_, dispersion)| micros(*dispersion)).any(|one| one == best.dispersion));
    }

    /// For any input, the estimate is at least the delivered rate and within its own range.
    #[test]
    fn it_is_within_its_range(events in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), 0_u64..100_000), 1..300)) {
        let (mut fused, mut path, mut now) = (FusedCapacity::default(), Path::new(MSS), at(0));
        for (rtt, first, dispersion, bytes) in events {
            now += Span::from_nanos(u64::from(rtt) / 7);
            let mut ack = Ack::new(now);
            let rtt = Span::from_nanos(u64::from(rtt));
            (ack.delivered, path.latest_rtt) = (Bytes(bytes), Some(rtt));
            ack.rtt = Some(RttSample::new(rtt, now - rtt));
            let (first_delay, dispersion) = (Span::from_nanos(u64::from(first)), Span::from_nanos(u64::from(dispersion)));
            let sample = update!(PairSample { first_delay, second_delay: rtt, dispersion, bytes: SIZE, coalesced: false, ..PairSample::default() });
            ack.pair = (bytes % 3 == 0).then_some(sample);
            fused.observe(&ack, &path);
            if let Some(FusedEstimate { rate: RateRange { low, value, high }, trust, .. }) = fused.estimate() {
                prop_assert!(low <= value && value <= high && (0.0..=1.0).contains(&trust), "{:?}", fused.estimate());
                prop_assert!(value.as_bytes_per_sec() as f64 >= fused.floor() - 1.0);
            }
        }
    }
}
