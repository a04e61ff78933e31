//! Tests for congestion controllers of [`longhaul_cc`].
//!
//! [`check`] is a suite that every controller must pass. A small model of a transport reports random but legal
//! sequences of events to a controller. After each event it checks these rules:
//!
//! * cwnd is at least one segment and at most the limit, ssthresh is at least two segments, and a pacing rate is
//!   positive;
//! * the window increases only while it limits the sender, and by no more than the newly delivered bytes;
//! * a loss episode lowers the threshold once, and once more for each lost retransmission;
//! * undoing a decrease restores at most the window before it;
//! * after a tick, the next one is later, even if ticks are up to a round trip late;
//! * the same events cause the same decisions, also of clones, and if all times are shifted;
//! * nothing panics with windows of ten gigabytes, RTTs from a nanosecond to weeks, and clocks with steps of 1 and
//!   15.6 ms.
//!
//! After that, the controller fills simulated paths, one of which holds ten gigabytes, and one path with each
//! [`Poverty`] of other stacks.
//!
//! [`testing`] has senders in virtual time for tests of single algorithms.
//!
//! ```
//! use longhaul_cc::registry::Spec;
//! use longhaul_conformance::{Expect, check};
//! check(&Spec::default(), Expect::default(), 16);
//! ```
#![forbid(unsafe_code)]

mod judge;
mod operation;
mod poverty;
mod script;
pub mod testing;
mod world;

use world::World;

pub use judge::Expect;
pub use operation::{Operation, Scenario, operations, scenarios};
pub use poverty::Poverty;
pub use script::decode;
pub use world::{Answer, Filled, Pipe, fill, play};

use std::sync::{Mutex, PoisonError};
use std::thread;

use longhaul_cc::ControllerFactory;
use longhaul_cc::registry::{Registry, Spec};
use longhaul_units::{Bytes, Rate, Span};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Reports `cases` random sequences of events, and those that have revealed a fault in any controller, to controllers
/// of `factory`. Then lets them fill two paths, and a third with each [`Poverty`].
///
/// # Panics
/// Panics if a rule is broken. The message contains the shortest sequence found that breaks it.
pub fn check(factory: &dyn ControllerFactory, expect: Expect, cases: u32) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 50_000, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(scenarios(), operations()), |(scenario, operations)| {
        let trace = play(factory, &scenario, &operations, expect);
        let mut world = World::new(factory, &scenario, expect);
        world.clones = true;
        let clones = world.play(&scenario, &operations);
        same(&trace, &clones, "its clones gave other answers to the same events")?;
        // The shift is a multiple of the clock's step, since the clock would show other intervals otherwise.
        let shift = SHIFT / scenario.resolution.as_nanos() * scenario.resolution.as_nanos();
        let later = Scenario { start: scenario.start + shift, ..scenario };
        let shifted = play(factory, &later, &operations, expect);
        same(&trace, &shifted, "shifted in time, the same events gave other answers")
    });
    if let Err(error) = outcome {
        panic!("{}: {error}", factory.name());
    }
    let (scenario, operations) = timeout_after_a_mark();
    play(factory, &scenario, &operations, expect);
    for (pipe, secs) in pipes() {
        fill(factory, &pipe, Span::from_secs(secs), expect);
    }
    poverty::endure(factory, expect);
}

/// Runs [`check`] on each profile of `registry` and each composition that it marks as tested, in parallel on all
/// processors.
///
/// # Panics
/// Panics if a name is not known to the whole process, or if a rule is broken.
pub fn check_registry(registry: &Registry) {
    let profiles = registry.profiles.iter().map(|profile| (profile.name, 256));
    let tested = registry.entries.iter().flat_map(|entry| entry.tested).map(|text| (*text, 64));
    let left = Mutex::new(profiles.chain(tested));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((text, cases)) = next() {
                    let spec = known(text);
                    check(&spec, Expect::of(&spec), cases);
                }
            });
        }
    });
}

/// Lets each profile of `registry` fill a path of 100 Gb/s and 800 ms for 200 s, in segments of 64 MiB, so that
/// algorithms that increase by one segment per round trip also fill it.
///
/// # Panics
/// Panics if a name is not known to the whole process, if a rule is broken, if a profile delivers less than half of what
/// the path can carry, never has 95 % of the path's ten gigabytes in flight, or estimates another bandwidth.
pub fn fill_registry(registry: &Registry) {
    let (path, time) = (huge(Bytes(1 << 26)), Span::from_secs(200));
    for profile in registry.profiles {
        let (name, spec) = (profile.name, known(profile.name));
        let filled = fill(&spec, &path, time, Expect::of(&spec));
        let Filled { delivered, most_in_flight, trace, .. } = filled.unwrap_or_else(|| panic!("{name}: refused"));
        let part = delivered.as_f64() / path.rate.bytes_in(time).as_f64();
        assert!((0.5..=1.0).contains(&part), "{name}: {part} of the rate");
        assert!(most_in_flight > Bytes(9_500_000_000), "{name}: {most_in_flight}");
        if let Some(bandwidth) = trace.last().and_then(|last| last.snapshot.bandwidth) {
            let part = bandwidth.as_bytes_per_sec() as f64 / path.rate.as_bytes_per_sec() as f64;
            assert!((part - 1.0).abs() < 0.01, "{name}: {bandwidth:?}");
        }
    }
}

/// Returns the fraction of the window to which the first loss lowers the threshold on a path of 100 Gb/s and 800 ms with
/// segments of 1448 bytes: slow start reaches the 20 GB of path and queue in 21 round trips.
///
/// # Panics
/// Panics if a rule is broken, or if there is no loss in 25 s with more than 20 GB in flight.
#[must_use]
pub fn kept_at_capacity(factory: &dyn ControllerFactory) -> f64 {
    let name = factory.name();
    let filled = fill(factory, &huge(Bytes(1448)), Span::from_secs(25), Expect::default());
    let trace = filled.unwrap_or_else(|| panic!("{name}: refused")).trace;
    let threshold = |answer: &Answer| answer.control.ssthresh.unwrap_or(Bytes::MAX);
    let loss = trace.windows(2).find(|pair| threshold(&pair[1]) < threshold(&pair[0]));
    let Some([before, after]) = loss else { panic!("{name}: no loss") };
    let cwnd = before.control.cwnd;
    assert!(cwnd > Bytes(20_000_000_000), "{name}: {cwnd}");
    threshold(after).as_f64() / cwnd.as_f64()
}

fn known(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// 100 Gb/s over 800 ms.
fn huge(mss: Bytes) -> Pipe {
    Pipe::new(Rate::from_bits_per_sec(100_000_000_000), Span::from_millis(800), mss)
}

/// After a timeout there are a mark and a further timeout, and both timeouts are spurious. The decrease for the mark
/// remains valid, and covers a loss among the same data.
fn timeout_after_a_mark() -> (Scenario, Vec<Operation>) {
    let mut scenario = Scenario::default();
    scenario.granted.ecn = longhaul_cc::EcnMark::Ect0;
    let mss = |sixteenths| Operation::Mss { sixteenths };
    let ack = |selective, marked| Operation::Ack { share: 0, rtt: 0, selective, marked };
    let lose = Operation::Lose { share: 0, timer: false };
    let (fill, timeout, spurious) = (Operation::Fill, Operation::Timeout, Operation::Spurious);
    let first = [mss(21), fill, ack(false, false), fill, timeout];
    let then = [mss(0), ack(true, true), timeout, spurious, lose];
    (scenario, [first, then].concat())
}

/// Paths to fill, and the duration in seconds. One holds ten gigabytes and loses half of its capacity, as after a
/// change of route. On the other, round trips are shorter than a step of the coarse clock, until they become longer.
fn pipes() -> [(Pipe, u64); 2] {
    let mut long = huge(Bytes(1 << 26));
    long.later = Some((long.rate.mul_f64(0.5), Span::from_millis(400)));
    let lan = Rate::from_bits_per_sec(100_000_000);
    let mut short = Pipe::new(lan, Span::from_millis(2), Bytes(1448));
    short.resolution = Span::from_micros(15_600);
    short.later = Some((lan.mul_f64(0.1), Span::from_millis(20)));
    [(long, 60), (short, 1)]
}

/// Compares two runs, and reports their first difference.
fn same(one: &[Answer], other: &[Answer], or_else: &str) -> Result<(), TestCaseError> {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    match differs.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len()))) {
        None => Ok(()),
        Some(at) => {
            let (one, other) = (one.get(at), other.get(at));
            Err(TestCaseError::fail(format!("{or_else}: answer {at} was {one:?}, then {other:?}")))
        }
    }
}

/// A shift that changes every digit of a time.
const SHIFT: Span = Span::from_nanos(987_654_321_012_345);
