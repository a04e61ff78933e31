//! Receivers that lie: under each controller, a lie gains at most a twentieth over what the truth would have given.
//!
//! Not here is what a sender cannot tell from the truth: ACKs of data that is still on its way (Savage et al., TCP
//! congestion control with a misbehaving receiver, CCR 29(5), 1999), a mark that is not echoed (RFC 3540), or a queue that
//! times of arrival conceal from a law that looks for it by them alone.

mod gains;
mod lies;
mod marks;
mod times;
mod world;

use longhaul_units::Span;
use longhaul_wire::Arrival;

use gains::{Contest, HONEST, Named, controllers, mean};
use lies::{Both, Bunches, Drip, Duplicate, Duplicates, Echo, Echoes, Optimist, Split};
use times::{Fake, Times};
use world::{Aqm, Lie, Path};

/// 8 Mb/s, 80 ms, half a bandwidth-delay product of queue. What slow start lost is repaired before anything is measured.
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
/// 10 Mb/s, and one packet in 500 lost by chance: what is lost, and not the link, bounds most windows.
const LOSSY: Path = Path { mbit: 10, loss: 0.002, warm: 1, seconds: 10, ..PLAIN };
/// Beside an honest CUBIC. Windows that are soon grown again: 40 decreases make a mean, and a few do not.
const SHARED: Path = Path { mbit: 6, rtt: 40, queue: 1.0, beside: Some("cubic"), warm: 3, seconds: 20, ..PLAIN };

/// Beside an honest CUBIC where who is dropped is by chance. A queue that drops what finds it full prefers who comes when
/// there is room, which any change of timing moves.
const CHANCE: Path = Path { queue: 4.0, aqm: Aqm::Pie, ecn: false, ..SHARED };

/// Who yields to all others.
const YIELDS: [&str; 1] = ["ledbat-plus-plus"];

/// Beside an honest CUBIC at a queue that drops what finds it full, where no phase lasts.
const NOISY: Path = Path { seconds: 60, jitter: 2, ..SHARED };

/// Where slow start ended is by chance, and UDT needs half a minute to be where it would be anyway.
const UDT_WARM: u64 = 30;

/// Without SACK what slow start lost is repaired a segment a round trip (RFC 6582), and how much that is, is by chance.
const CLASSIC_WARM: u64 = 40;

/// All profiles but some that are not regular enough for a verdict on that path.
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

/// Whoever undoes every reduction has it all: each retransmission is said to be a duplicate, and its ACK to be the
/// original's.
fn needless() -> Box<dyn Lie> {
    Box::new(Both(echoes(Echo::Original), duplicates(Duplicate::Retransmission)))
}

/// What is acknowledged in each span of so many milliseconds is told at its end, in ACKs so far apart.
fn bunches(millis: u64, apart: Span) -> Box<dyn Lie> {
    Box::new(Bunches::new(Span::from_millis(millis), apart))
}

/// Each segment is acknowledged for itself, so late after the one before.
fn drip(millis: u64) -> Box<dyn Lie> {
    Box::new(Drip::new(Span::from_millis(millis)))
}

fn split() -> Box<dyn Lie> {
    Box::new(Split::new(100))
}

/// From the first ACK on, for slow start is what this lie was made for.
#[test]
fn acks_split_a_hundredfold() {
    let lie: [Named; 1] = [("split", split)];
    let path = Path { mbit: 5, loss: 0.005, warm: 0, seconds: 8, ..PLAIN };
    Contest { path, seeds: 3 }.judge_under(but(&["udt"]), HONEST, &lie);
    Contest { path: Path { warm: UDT_WARM, ..path }, seeds: 3 }.judge_under(["udt"], HONEST, &lie);
}

/// RFC 3708, section 3: what was not retransmitted cannot have been retransmitted needlessly. RFC 8985, section 6.2: and
/// what was, was not if the answer took a round trip.
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

/// RFC 5961, section 5: an ACK of what was not sent is answered, not believed.
#[test]
fn acks_of_what_was_not_sent() {
    let contest = Contest { path: PLAIN, seeds: 1 };
    contest.judge(&[("32 MiB ahead", || Box::new(Optimist::default()))]);
}

/// ACKs that wait for each other look as if the path were as fast as they leave.
#[test]
fn acks_held_and_released_at_once() {
    // Every second segment is acknowledged: every 3 ms at 8 Mb/s, every 1.2 ms at 20.
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

/// Whoever has a use for times of arrival: UDT, and who is told to.
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

const TRUE_TIMES: Named = ("true times", || times(Fake::None));

/// Times that go back, precede the sending, jump, or make a fast link of a narrow one.
#[test]
fn times_of_arrival() {
    let judge = |names: &[&str], path| {
        let contest = Contest { path: Path { times: true, ..path }, seeds: 3 };
        contest.judge_under(names.iter().copied(), TRUE_TIMES, &TIMES);
    };
    judge(&TIMED[..1], Path { warm: UDT_WARM, ..PLAIN });
    judge(&TIMED[1..], Path { seconds: 10, ..PLAIN });
    judge(&TIMED, LOSSY);
    let shared = Contest { path: Path { times: true, ..SHARED }, seeds: 8 };
    // LEDBAT++ is in `a_queue_that_is_concealed`, UDT in `shares_of_udt`.
    let pairs = TIMED.into_iter().filter(|name| name.starts_with("westwood"));
    shared.judge_under(pairs, TRUE_TIMES, &TIMES);
}

/// A capacity that the peer makes up counts where a loss comes at a queue neither full nor empty, and not by chance alone.
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

/// No one can tell a queue that the receiver conceals from one that is not there: LEDBAT++ by one-way delays then takes what a
/// law takes that does not look for queues, and no more.
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

/// What pairs tell of the narrow link is right if the receiver is honest. If not it is anything, but not more than the clock of
/// arrivals can tell apart; and times that mean nothing tell nothing that is too fast.
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

/// What UDT and LEDBAT++ have there is too little and too irregular.
#[test]
fn shares_beside_an_honest_flow() {
    let lies: [Named; 2] = [("needless", needless), ("bunches", || bunches(24, MICROSECOND))];
    Contest { path: SHARED, seeds: 8 }.judge_under(but(&["udt", "ledbat-plus-plus"]), HONEST, &lies);
}

const YIELDING: [Named; 3] =
    [("needless", needless), ("pairs", || bunches(6, MICROSECOND)), ("bunches", || bunches(24, MICROSECOND))];

#[test]
fn shares_of_who_yields() {
    let contest = Contest { path: Path { warm: 30, seconds: 60, ..CHANCE }, seeds: 8 };
    contest.judge_under(YIELDS, HONEST, &YIELDING);
    contest.judge_under(YIELDS, HONEST, &[("split", split)]);
}

/// A queue that drops what finds it full drops by who comes when, and in the sim each comes to the nanosecond when it came a
/// round trip before: whoever moves their ACKs is dropped less often. A random delay of up to two packets' time before each
/// packet and ACK puts an end to that (Floyd, Jacobson, 1992, have up to one, before packets).
#[test]
fn shares_of_who_yields_at_a_full_queue() {
    Contest { path: NOISY, seeds: 8 }.judge_under(YIELDS, HONEST, &YIELDING);
}

/// Where an ACK of two segments lets two leave at once, ACKs of parts let them leave one by one, and a queue that drops what
/// finds it full drops those less often. So it does where an honest receiver acknowledges each segment, as RFC 9293, section
/// 3.8.6.3, lets it: whoever splits ACKs gets no more than that.
#[test]
fn shares_of_who_yields_by_split_acks() {
    let each = Path { each: true, ..NOISY };
    Contest { path: NOISY, seeds: 8 }.judge_by(each, YIELDS, HONEST, &[("split", split)]);
}

/// UDT sends four segments at once, and at this rate not once in the 10 ms between two updates: who spreads their ACKs must not
/// make more updates of them.
#[test]
fn shares_of_udt() {
    let path = Path { mbit: 3, warm: UDT_WARM, seconds: 100, ..CHANCE };
    let lies: [Named; 3] = [("needless", needless), ("dripping", || drip(10)), ("split", split)];
    Contest { path, seeds: 16 }.judge_under(["udt"], HONEST, &lies);
    Contest { path: Path { times: true, ..path }, seeds: 16 }.judge_under(["udt"], TRUE_TIMES, &TIMES);
}
