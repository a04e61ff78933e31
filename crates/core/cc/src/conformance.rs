//! Suite that every controller must pass, in this crate or another one (feature `conformance`).
//!
//! A small model of a transport reports random but legal sequences of events to a controller. After each event it
//! checks these rules:
//!
//! * cwnd is at least one segment and at most the limit, ssthresh is at least two segments, and a pacing rate is
//!   positive;
//! * the window increases only while it limits the sender, and by no more than the newly delivered bytes;
//! * a loss episode lowers the threshold once, and once more for each lost retransmission;
//! * undoing a decrease restores at most the window before it;
//! * after a tick, the next one is later;
//! * the same events cause the same decisions, also if all times are shifted;
//! * nothing panics with windows of ten gigabytes, RTTs from a nanosecond to weeks, and clocks with steps of 1 and
//!   15.6 ms.
//!
//! After that, the controller fills simulated paths, one of which holds ten gigabytes.
//!
//! ```
//! # #[cfg(feature = "conformance")] {
//! use longhaul_cc::conformance::{Expect, check};
//! use longhaul_cc::registry::Spec;
//! check(&Spec::default(), Expect::default(), 16);
//! # }
//! ```

mod judge;
mod operation;
mod script;
mod world;

pub use judge::Expect;
#[doc(hidden)]
pub use operation::{Operation, Scenario, operations, scenarios};
#[doc(hidden)]
pub use script::decode;
#[doc(hidden)]
pub use world::{Answer, Filled, Pipe, fill, play};

use longhaul_units::{Bytes, Rate, Span};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::ControllerFactory;

/// Reports `cases` random sequences of events to controllers of `factory`.
///
/// # Panics
/// Panics if a rule is broken. The message has the shortest sequence found that breaks it.
pub fn check(factory: &dyn ControllerFactory, expect: Expect, cases: u32) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 50_000, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(scenarios(), operations()), |(scenario, operations)| {
        let trace = play(factory, &scenario, &operations, expect);
        let again = play(factory, &scenario, &operations, expect);
        same(&trace, &again, "the same events gave other answers")?;
        // The shift is a multiple of the clock's step, since the clock would show other intervals otherwise.
        let shift = SHIFT / scenario.resolution.as_nanos() * scenario.resolution.as_nanos();
        let later = Scenario { start: scenario.start + shift, ..scenario };
        let shifted = play(factory, &later, &operations, expect);
        same(&trace, &shifted, "shifted in time, the same events gave other answers")
    });
    if let Err(error) = outcome {
        panic!("{}: {error}", factory.name());
    }
    for (pipe, secs) in pipes() {
        fill(factory, &pipe, Span::from_secs(secs), expect);
    }
}

/// Paths to fill, and for how many seconds. One holds ten gigabytes and loses half of its capacity, as after a change
/// of route. On the other, round trips are shorter than a step of the coarse clock, until they become longer.
fn pipes() -> [(Pipe, u64); 2] {
    let (huge, lan) = (Rate::from_bits_per_sec(100_000_000_000), Rate::from_bits_per_sec(100_000_000));
    let mut long = Pipe::new(huge, Span::from_millis(800), Bytes(1 << 26));
    long.later = Some((huge.mul_f64(0.5), Span::from_millis(400)));
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

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toys;
