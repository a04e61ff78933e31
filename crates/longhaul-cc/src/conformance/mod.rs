//! The suite that every controller must pass, in this crate or outside of it (feature `conformance`).
//!
//! A small model of a transport plays arbitrary but legal sequences of events to a controller and checks after each:
//!
//! * cwnd is at least a segment and at most the cap, ssthresh at least two segments, a pacing rate positive;
//! * the window rises only on newly delivered bytes, by no more than those, and only while it limits the sender;
//! * a loss episode lowers the threshold once, and once more for each lost retransmission;
//! * undo restores no more than there was;
//! * a tick that was due is not due any more;
//! * the same events give the same answers, also when all times are shifted;
//! * nothing panics, with windows of ten gigabytes, round trips from a nanosecond to weeks, and clocks with steps of 1 and
//!   15.6 ms.
//!
//! Then the controller fills paths by itself, a round trip of ten gigabytes among them: [`fill`].
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
pub use operation::{Operation, Scenario, operations, scenarios};
pub use script::decode;
pub use world::{Answer, Filled, Pipe, fill, play};

use longhaul_units::{Bytes, Rate, Span};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::ControllerFactory;

/// Plays `cases` random sequences to controllers of `factory`.
///
/// # Panics
/// An invariant is broken; the message has the shortest sequence found that breaks it.
pub fn check(factory: &dyn ControllerFactory, expect: Expect, cases: u32) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 50_000, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(scenarios(), operations()), |(scenario, operations)| {
        let trace = play(factory, &scenario, &operations, expect);
        let again = play(factory, &scenario, &operations, expect);
        same(&trace, &again, "the same events gave other answers")?;
        // By whole steps of the clock, which would show something else otherwise.
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

/// Paths to fill, and for how many seconds: one of ten gigabytes that loses half of it, as on another route; and one whose
/// round trips end within a step of a coarse clock, until they are longer.
fn pipes() -> [(Pipe, u64); 2] {
    let (huge, lan) = (Rate::from_bits_per_sec(100_000_000_000), Rate::from_bits_per_sec(100_000_000));
    let mut long = Pipe::new(huge, Span::from_millis(800), Bytes(1 << 26));
    long.later = Some((huge.mul_f64(0.5), Span::from_millis(400)));
    let mut short = Pipe::new(lan, Span::from_millis(2), Bytes(1448));
    short.resolution = Span::from_micros(15_600);
    short.later = Some((lan.mul_f64(0.1), Span::from_millis(20)));
    [(long, 60), (short, 1)]
}

/// Compares two runs up to their first difference.
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
