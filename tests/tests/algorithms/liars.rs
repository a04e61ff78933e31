//! Receivers that lie: under each controller, a lie gains at most 5 % compared with an honest receiver.
//!
//! Lies that a sender cannot detect are not tested: ACKs of data that has not arrived yet (Savage et al., TCP
//! congestion control with a misbehaving receiver, CCR 29(5), 1999), a CE mark that is not echoed (RFC 3540), or a
//! queue that arrival times conceal from an algorithm that relies only on them.

mod gains;
mod lies;
mod marks;
mod times;
mod world;

use longhaul_tests::long;
use longhaul_units::Span;
use longhaul_wire::Arrival;

use gains::{Contest, HONEST, Named, controllers, mean};
use lies::{Both, Bunches, Drip, Duplicate, Duplicates, Echo, Echoes, Optimist, Split, Wavering};
use times::{Fake, Times};
use world::{Aqm, Lie, Path};

/// 8 Mb/s, 80 ms, and a queue of half a BDP. The losses of slow start are repaired before the measurement begins.
const PLAIN: Path = Path {
    mbit: 8,
    rtt: 80,
    queue: 0.5,
    loss: 0.0,
    beside: None,
    warm: 10,
    seconds: 20,
    times: false,
    aqm: Aqm::None,
    ecn: true,
    jitter: 0,
    each: false,
};
/// 10 Mb/s, with a random loss rate of 1 in 500: most windows are limited by losses, and not by the link.
const LOSSY: Path = Path { mbit: 10, loss: 0.002, warm: 1, seconds: 10, ..PLAIN };
/// A competing honest CUBIC flow. Windows recover quickly, because a mean needs about 40 reductions.
const SHARED: Path = Path { mbit: 6, rtt: 40, queue: 1.0, beside: Some("cubic"), warm: 3, seconds: 20, ..PLAIN };

/// A competing honest CUBIC flow, with random drops. A drop-tail queue favours packets that arrive when there is
/// room, which any change of timing affects.
const CHANCE: Path = Path { queue: 4.0, aqm: Aqm::Pie, ecn: false, ..SHARED };

/// Profiles that yield to all other flows.
const YIELDS: [&str; 1] = ["ledbat-plus-plus"];

/// A competing honest CUBIC flow at a drop-tail queue, with random delays that prevent lasting phase effects.
const NOISY: Path = Path { seconds: 60, jitter: 2, ..SHARED };

/// The end of slow start is random, and UDT needs half a minute to reach its equilibrium.
const UDT_WARM: u64 = 30;

/// Without SACK, the losses of slow start are repaired at one segment per round trip (RFC 6582), and their number is
/// random.
const CLASSIC_WARM: u64 = 40;

/// Returns all profiles except those that vary too much on this path for a verdict.
fn but(irregular: &[&str]) -> impl Iterator<Item = &'static str> {
    controllers().filter(|name| !irregular.contains(name))
}

const MICROSECOND: Span = Span::from_micros(1);

fn duplicates(which: Duplicate) -> Box<dyn Lie> {
    Box::new(Duplicates::new(which))
}

fn times(fake: Fake) -> Box<dyn Lie> {
    Box::new(Times::new(fake))
}

fn echoes(which: Echo) -> Box<dyn Lie> {
    Box::new(Echoes::new(which))
}

/// Attempts to undo every reduction: each retransmission is reported as a duplicate, and its ACK as that of the
/// original.
fn needless() -> Box<dyn Lie> {
    Box::new(Both(echoes(Echo::Original), duplicates(Duplicate::Retransmission)))
}

/// Holds ACKs for this many milliseconds, and releases them with the spacing `apart`.
fn bunches(millis: u64, apart: Span) -> Box<dyn Lie> {
    Box::new(Bunches::new(Span::from_millis(millis), apart))
}

/// Acknowledges each segment separately, with this delay after the preceding one.
fn drip(millis: u64) -> Box<dyn Lie> {
    Box::new(Drip::new(Span::from_millis(millis)))
}

/// Holds each ACK for at most this many milliseconds.
fn wavering(millis: u64) -> Box<dyn Lie> {
    Box::new(Wavering::new(Span::from_millis(millis)))
}

fn split() -> Box<dyn Lie> {
    Box::new(Split::new(100))
}

/// The measurement includes the first ACK, because this lie was designed for slow start.
#[test]
fn acks_split_a_hundredfold() {
    let lie: [Named; 1] = [("split", split)];
    let path = Path { mbit: 5, loss: 0.005, warm: 0, seconds: 8, ..PLAIN };
    Contest { path, seeds: 3 }.judge_under(but(&["udt"]), HONEST, &lie);
    Contest { path: Path { warm: UDT_WARM, ..path }, seeds: 3 }.judge_under(["udt"], HONEST, &lie);
}

/// RFC 3708, section 3: data that was not retransmitted cannot be a spurious retransmission. RFC 8985, section 6.2: a
/// retransmission is not spurious if its ACK took a round trip.
#[test]
fn duplicates_that_never_were() {
    let contest = Contest { path: LOSSY, seeds: 4 };
    contest.judge(&[
        ("never sent", || duplicates(Duplicate::NeverSent)),
        ("sent once", || duplicates(Duplicate::SentOnce)),
        ("retransmissions", || duplicates(Duplicate::Retransmission)),
        ("retransmissions, and their echoes", needless),
    ]);
}

#[test]
fn forged_echoes_of_timestamps() {
    let contest = Contest { path: LOSSY, seeds: 4 };
    contest.judge(&[
        ("the original's", || echoes(Echo::Original)),
        ("older", || echoes(Echo::Older(50_000))),
        ("younger", || echoes(Echo::Older(-30_000))),
        ("anything", || echoes(Echo::Any)),
    ]);
}

/// RFC 5961, section 5: an ACK of data that was not sent is answered, but not processed.
#[test]
fn acks_of_data_not_sent() {
    let contest = Contest { path: PLAIN, seeds: 1 };
    contest.judge(&[("32 MiB ahead", || Box::new(Optimist::default()))]);
}

/// ACKs released together suggest a path as fast as their spacing.
#[test]
fn acks_held_and_released_at_once() {
    // Every second segment is acknowledged: every 3 ms at 8 Mb/s, every 1.2 ms at 20 Mb/s.
    Contest { path: PLAIN, seeds: 1 }.judge(&[
        ("pairs", || bunches(6, MICROSECOND)),
        ("20", || bunches(60, MICROSECOND)),
        ("64", || bunches(192, MICROSECOND)),
        ("64, 0.1 ms apart", || bunches(192, Span::from_micros(100))),
        ("dripping", || drip(10)),
    ]);
    let lies: [Named; 2] = [("pairs", || bunches(3, MICROSECOND)), ("20", || bunches(24, MICROSECOND))];
    Contest { path: LOSSY, seeds: 3 }.judge_under(but(&["reno-classic"]), HONEST, &lies);
    let path = Path { warm: CLASSIC_WARM, ..LOSSY };
    Contest { path, seeds: 3 }.judge_under(["reno-classic"], HONEST, &lies);
}

/// ACKs that are late by random times suggest jitter, which `copa-cubic` takes off the queueing delay.
#[test]
fn acks_at_varying_delays() {
    let lies: [Named; 2] = [("up to 10 ms", || wavering(10)), ("up to 40 ms", || wavering(40))];
    for path in [PLAIN, LOSSY, SHARED] {
        Contest { path, seeds: 4 }.judge_under(["copa-cubic", "copa", "cubic", "bbr"], HONEST, &lies);
    }
}

/// Algorithms that use arrival times: UDT, and others with an option.
const TIMED: [&str; 4] = ["udt", "westwood-bbe(capacity=pairs)", "westwood-bbe(capacity=fused)", TIMED_LEDBAT];

const TIMED_LEDBAT: &str = "ledbat-start(delay=one-way)+ledbat-plus-plus(delay=one-way)";

const TIMES: [Named; 7] = [
    ("backwards", || times(Fake::Backwards)),
    ("before they were sent", || times(Fake::BeforeSent)),
    ("hours apart", || times(Fake::Hours)),
    ("squeezed", || times(Fake::Squeezed)),
    ("at once", || times(Fake::AtOnce)),
    ("as sent", || times(Fake::AsSent)),
    ("random", || times(Fake::Random)),
];

/// Times that are true, but not told always.
const SOMETIMES: [Named; 3] = [
    ("withheld", || times(Fake::Withheld)),
    ("stopped", || times(Fake::Stopped)),
    ("alternating", || times(Fake::Alternating)),
];

const TRUE_TIMES: Named = ("true times", || times(Fake::None));

/// Arrival times that go back, precede the transmission, jump, or suggest a faster link.
#[test]
fn times_of_arrival() {
    let judge = |names: &[&str], path| {
        let contest = Contest { path: Path { times: true, ..path }, seeds: 3 };
        contest.judge_under(names.iter().copied(), TRUE_TIMES, &TIMES);
    };
    judge(&TIMED[..1], Path { warm: UDT_WARM, ..PLAIN });
    judge(&TIMED[1..], Path { seconds: 10, ..PLAIN });
    judge(&TIMED, LOSSY);
    if !long() {
        return;
    }
    let shared = Contest { path: Path { times: true, ..SHARED }, seeds: 8 };
    // `a_queue_that_is_concealed` tests LEDBAT++, and `shares_of_udt` tests UDT.
    let pairs = TIMED.into_iter().filter(|name| name.starts_with("westwood"));
    shared.judge_under(pairs, TRUE_TIMES, &TIMES);
}

/// Controllers that use arrival times of data segments from the first round trip: for the capacity at the start, and
/// `copa-cubic` also for its share of the link and for the queue. False times gain nothing alone, and from a competing
/// flow at most what CUBIC has, because CUBIC is what `copa-cubic` becomes without reliable times.
///
/// Times as sent are those of a link without a bottleneck, which conceal the queue. `copa-cubic` compares them with the
/// spacing of the ACKs at the start, and believes the queue of the reverse path that they claim for a few round trips.
/// The start-up scheme by itself believes them.
#[test]
fn times_of_arrival_at_the_start_and_for_the_queue() {
    let names = ["copa-cubic", "swift-start-hardened(gamma=1)+cubic"];
    for path in [Path { seconds: 10, ..PLAIN }, Path { seconds: 40, ..LOSSY }] {
        let contest = Contest { path: Path { times: true, ..path }, seeds: 3 };
        contest.judge_under(names[..1].iter().copied(), TRUE_TIMES, &TIMES);
        contest.judge_under(names, TRUE_TIMES, &SOMETIMES);
        let others = TIMES.into_iter().filter(|lie| lie.0 != "as sent").collect::<Vec<_>>();
        contest.judge_under(names[1..].iter().copied(), TRUE_TIMES, &others);
    }
    let shared = Contest { path: Path { times: true, ..NOISY }, seeds: 8 };
    let goodput = |name, lie| mean(&shared.outcomes(name, lie), |outcome| outcome.goodput);
    let fair = goodput("cubic", TRUE_TIMES);
    for lie in TIMES.into_iter().chain(SOMETIMES) {
        for name in names {
            let liar = goodput(name, lie);
            assert!(liar <= 1.05 * fair, "{name}, {}: {liar} for {fair}", lie.0);
        }
    }
}

/// A false capacity has an effect if losses occur at a queue that is neither full nor empty, and are not all random.
#[test]
fn times_of_arrival_and_queues_half_full() {
    let path = Path { times: true, seconds: 40, ..CHANCE };
    let names = [
        "westwood-bbe(capacity=pairs)",
        "westwood-bbe(capacity=fused)",
        "westwood-bbe(capacity=pairs,policy=plain-ere)",
    ];
    Contest { path, seeds: 8 }.judge_under(names, TRUE_TIMES, &TIMES[3..6]);
}

/// A concealed queue cannot be distinguished from an empty one: LEDBAT++ with one-way delays then takes as much as a
/// loss-based algorithm, and no more.
#[test]
fn a_queue_that_is_concealed() {
    let contest = Contest { path: Path { times: true, queue: 4.0, ..SHARED }, seeds: 3 };
    let goodput = |name, lie| mean(&contest.outcomes(name, lie), |outcome| outcome.goodput);
    let reno = goodput("new-reno", TRUE_TIMES);
    for lie in TIMES {
        let liar = goodput(TIMED_LEDBAT, lie);
        assert!(liar <= 1.05 * reno, "{}: {liar} for {reno}", lie.0);
    }
}

/// Capacity estimates from pairs are right with an honest receiver. With a liar, they are arbitrary, but limited by
/// the resolution of the arrival clock; meaningless times do not lead to rates that are too high.
#[test]
fn capacity_by_lies() {
    let contest = Contest { path: Path { times: true, warm: 1, seconds: 4, ..PLAIN }, seeds: 1 };
    let found = |lie| contest.outcomes("cubic", lie)[0].capacity;
    let truth = |capacity: f64| (capacity / 8.0 - 1.0).abs() < 0.01;
    assert!(found(TRUE_TIMES).is_some_and(truth));
    let fastest = 1500.0 * 8.0 / (Arrival::TICK.as_nanos() as f64 * 1e-3);
    for lie in TIMES {
        let found = found(lie);
        assert!(found.is_none_or(|capacity| capacity <= fastest), "{}: {found:?} Mb/s", lie.0);
    }
}

/// The goodput of UDT and LEDBAT++ is too low and too variable in this scenario.
#[test]
fn shares_beside_an_honest_flow() {
    let lies: [Named; 2] = [("needless", needless), ("bunches", || bunches(24, MICROSECOND))];
    Contest { path: SHARED, seeds: 8 }.judge_under(but(&["udt", "ledbat-plus-plus"]), HONEST, &lies);
}

const YIELDING: [Named; 3] =
    [("needless", needless), ("pairs", || bunches(6, MICROSECOND)), ("bunches", || bunches(24, MICROSECOND))];

#[test]
fn shares_of_controllers_that_yield() {
    let contest = Contest { path: Path { warm: 30, seconds: 60, ..CHANCE }, seeds: 8 };
    contest.judge_under(YIELDS, HONEST, &YIELDING);
    contest.judge_under(YIELDS, HONEST, &[("split", split)]);
}

/// In a drop-tail queue, drops depend on arrival order, and in the simulator, each packet arrives at the same
/// nanosecond as one round trip before: moving ACKs reduces drops. A random delay of up to two packet times before
/// each packet and ACK prevents this (Floyd and Jacobson, 1992, use up to one, before packets).
#[test]
fn shares_of_controllers_that_yield_at_a_full_queue() {
    Contest { path: NOISY, seeds: 8 }.judge_under(YIELDS, HONEST, &YIELDING);
}

/// An ACK of two segments releases two segments at once, while partial ACKs release them one by one, which a
/// drop-tail queue drops less often. The same holds for an honest receiver that acknowledges each segment, as RFC
/// 9293, section 3.8.6.3, allows: splitting ACKs must not gain more than this.
#[test]
fn shares_of_controllers_that_yield_by_split_acks() {
    let each = Path { each: true, ..NOISY };
    Contest { path: NOISY, seeds: 8 }.judge_by(each, YIELDS, HONEST, &[("split", split)]);
}

/// UDT sends four segments at once, and at this rate less than once per update interval of 10 ms: spreading their
/// ACKs must not cause more updates.
#[test]
fn shares_of_udt() {
    let path = Path { mbit: 3, warm: UDT_WARM, seconds: 100, ..CHANCE };
    let lies: [Named; 3] = [("needless", needless), ("dripping", || drip(10)), ("split", split)];
    Contest { path, seeds: 16 }.judge_under(["udt"], HONEST, &lies);
    if long() {
        Contest { path: Path { times: true, ..path }, seeds: 16 }.judge_under(["udt"], TRUE_TIMES, &TIMES);
    }
}
