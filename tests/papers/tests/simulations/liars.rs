//! Receivers that send false feedback: under each controller, a lie gains at most 5 % compared with an honest receiver.
//!
//! Lies that a sender cannot detect are not tested: ACKs of data that has not arrived yet (Savage et al., TCP
//! congestion control with a misbehaving receiver, CCR 29(5), 1999), a CE mark that is not echoed (RFC 3540), or a
//! queue that arrival times conceal from an algorithm that relies only on them.

mod gains;
mod lies;
mod marks;
mod times;
mod world;

use longhaul_tests_papers::long;
use longhaul_units::Span;
use longhaul_wire::Arrival;

use gains::{Contest, HONEST, Named, controllers, mean};
use lies::{Both, Bunches, Drip, Duplicate, Duplicates, Echo, Echoes, Optimist, Split, Wavering};
use times::{Fake, Times};
use world::{Aqm, Lie, Path};

/// Path of 8 Mb/s and 80 ms with a queue of half a BDP. Losses of slow start are recovered before the measurement
/// begins.
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
/// Path of 10 Mb/s with a random loss rate of 1 in 500: most windows are limited by losses, and not by the link.
const LOSSY: Path = Path { mbit: 10, loss: 0.002, warm: 1, seconds: 10, ..PLAIN };
/// Path with a competing honest CUBIC flow. Its RTT is short, so that the windows have the 40 reductions that a
/// reliable mean needs.
const SHARED: Path = Path { mbit: 6, rtt: 40, queue: 1.0, beside: Some("cubic"), warm: 3, seconds: 20, ..PLAIN };

/// Path with a competing honest CUBIC flow and random drops. A drop-tail queue would favour packets that arrive when
/// there is room, which any change of timing affects.
const CHANCE: Path = Path { queue: 4.0, aqm: Aqm::Pie, ecn: false, ..SHARED };

/// Profiles that yield to all other flows.
const YIELDS: [&str; 1] = ["ledbat-plus-plus"];

/// Path with a competing honest CUBIC flow at a drop-tail queue, with random delays that prevent lasting phase effects.
const NOISY: Path = Path { seconds: 60, jitter: 2, ..SHARED };

/// Seconds before the measurement of UDT, whose slow start ends at random, and which needs half a minute to reach its
/// equilibrium.
const UDT_WARM: u64 = 30;

/// Seconds before the measurement without SACK. The number of losses of slow start is random, and one of them is
/// recovered per round trip (RFC 6582).
const CLASSIC_WARM: u64 = 40;

/// Returns all profiles except `irregular` ones, whose results on this path vary too much for a verdict.
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

/// Creates a receiver that attempts to undo every reduction: it reports each retransmission as a duplicate, with the
/// timestamp echo of the original.
fn needless() -> Box<dyn Lie> {
    Box::new(Both(echoes(Echo::Original), duplicates(Duplicate::Retransmission)))
}

/// Creates a receiver that holds ACKs for this many milliseconds, and releases them with the spacing `apart`.
fn bunches(millis: u64, apart: Span) -> Box<dyn Lie> {
    Box::new(Bunches::new(Span::from_millis(millis), apart))
}

/// Creates a receiver that acknowledges each segment separately, with this delay after the preceding ACK.
fn drip(millis: u64) -> Box<dyn Lie> {
    Box::new(Drip::new(Span::from_millis(millis)))
}

/// Creates a receiver that holds each ACK for a random time of at most this many milliseconds.
fn wavering(millis: u64) -> Box<dyn Lie> {
    Box::new(Wavering::new(Span::from_millis(millis)))
}

fn split() -> Box<dyn Lie> {
    Box::new(Split::new(100))
}

/// This lie was designed for slow start, so the measurement includes the first ACK.
#[test]
fn acks_split_a_hundredfold() {
    let lie: [Named; 1] = [("split", split)];
    let path = Path { mbit: 5, loss: 0.005, warm: 0, seconds: 8, ..PLAIN };
    Contest { path, seeds: 3 }.judge_under(but(&["udt"]), HONEST, &lie);
    Contest { path: Path { warm: UDT_WARM, ..path }, seeds: 3 }.judge_under(["udt"], HONEST, &lie);
}

/// RFC 3708, section 3: a report on data that was not retransmitted does not reveal a spurious retransmission. RFC
/// 8985, section 6.2: a retransmission whose ACK took a round trip is not spurious.
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

/// RFC 5961, section 5: an ACK of data that was not sent is answered with an ACK, but not processed.
#[test]
fn acks_of_data_not_sent() {
    let contest = Contest { path: PLAIN, seeds: 1 };
    contest.judge(&[("32 MiB ahead", || Box::new(Optimist::default()))]);
}

/// ACKs that are released together suggest a path as fast as their spacing.
#[test]
fn acks_held_and_released_at_once() {
    // The receiver acknowledges every second segment: every 3 ms at 8 Mb/s, every 1.2 ms at 20 Mb/s.
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

/// ACKs with random delays suggest jitter, which `copa-cubic` subtracts from the queueing delay.
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

/// Arrival times that are true, but not always reported.
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
    if !long() {
        return;
    }
    judge(&TIMED, LOSSY);
    let shared = Contest { path: Path { times: true, ..SHARED }, seeds: 8 };
    // `a_queue_that_is_concealed` covers LEDBAT++, and `shares_of_udt` covers UDT.
    let pairs = TIMED.into_iter().filter(|name| name.starts_with("westwood"));
    shared.judge_under(pairs, TRUE_TIMES, &TIMES);
}

/// Controllers that use arrival times from the first round trip: both for the capacity at the start, and `copa-cubic`
/// also for its share of the link and for the queue. Without competition, false times gain nothing. Against a competing
/// flow, they gain at most CUBIC's share, because `copa-cubic` behaves like CUBIC without reliable times.
///
/// Times "as sent" are those of a link without a bottleneck, and conceal the queue. At the start, `copa-cubic` compares
/// them with the spacing of the ACKs, and attributes the difference to the reverse path for a few round trips. The
/// start-up scheme alone does not check them, and is excluded.
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
    for lie in TIMES.into_iter().chain(SOMETIMES).step_by(if long() { 1 } else { 2 }) {
        for name in names {
            let liar = goodput(name, lie);
            assert!(liar <= 1.05 * fair, "{name}, {}: {liar} for {fair}", lie.0);
        }
    }
}

/// A false capacity has an effect only if losses occur at a queue that is neither full nor empty, and not all are
/// random.
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
/// loss-based algorithm, but not more.
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

/// With an honest receiver, capacity estimates from pairs are correct. A liar can cause any estimate up to the limit
/// that the resolution of the arrival clock sets.
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

/// UDT and LEDBAT++ are excluded, because their goodput is too low and too variable in this scenario.
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
    contest.judge_under(YIELDS, HONEST, &YIELDING[if long() { 0 } else { 2 }..]);
    contest.judge_under(YIELDS, HONEST, &[("split", split)]);
}

/// In a drop-tail queue, drops depend on the order of arrival. In the simulator, each packet arrives at the same
/// nanosecond as one round trip before, so that moving ACKs would reduce drops. A random delay of up to two packet
/// times before each packet and ACK prevents this (Floyd and Jacobson, 1992, use up to one, before packets).
#[test]
fn shares_of_controllers_that_yield_at_a_full_queue() {
    Contest { path: NOISY, seeds: 8 }.judge_under(YIELDS, HONEST, &YIELDING[if long() { 0 } else { 2 }..]);
}

/// An ACK of two segments releases two segments at once, while partial ACKs release them one by one, which a drop-tail
/// queue drops less often. An honest receiver that acknowledges each segment, as RFC 9293, section 3.8.6.3, allows, has
/// the same advantage: splitting ACKs must not gain more than this.
#[test]
fn shares_of_controllers_that_yield_by_split_acks() {
    let each = Path { each: true, ..NOISY };
    Contest { path: NOISY, seeds: 8 }.judge_by(each, YIELDS, HONEST, &[("split", split)]);
}

/// UDT sends four segments at once, which is less than once per update interval of 10 ms at this rate: spreading their
/// ACKs must not cause more updates.
#[test]
fn shares_of_udt() {
    let path = Path { mbit: 3, warm: UDT_WARM, seconds: 100, ..CHANCE };
    let lies: [Named; 3] = [("needless", needless), ("dripping", || drip(10)), ("split", split)];
    Contest { path, seeds: 16 }.judge_under(["udt"], HONEST, &lies[if long() { 0 } else { 1 }..]);
    if long() {
        Contest { path: Path { times: true, ..path }, seeds: 16 }.judge_under(["udt"], TRUE_TIMES, &TIMES);
    }
}
