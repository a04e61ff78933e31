//! Transitions from each start-up scheme to each congestion-avoidance algorithm: no burst exceeds the pacing quantum.

use longhaul_units::{Bytes, Rate, Span};

use crate::swift_start::hardened::{open, path};
use crate::swift_start::testbed::MSS;

/// Returns the maximum burst in segments that the transport's pacer allows at a rate: 250 us at this rate, at least two
/// segments, rounded up to full segments.
fn quantum(rate: Option<Rate>) -> u64 {
    let bytes = rate.unwrap_or(Rate::ZERO).bytes_in(Span::from_micros(250)).max(Bytes(2 * MSS));
    bytes.0.div_ceil(MSS)
}

/// The test covers the time after the first flight: the paced round, the transition to slow start or congestion
/// avoidance, and two more seconds.
#[test]
fn nothing_above_the_quantum_leaves_at_once() {
    let starts = [
        "swift-start",
        "swift-start(gamma=1)",
        "swift-start-hardened",
        "swift-start-hardened(gamma=1)",
        "pacing-only",
        "swift-start-bbn",
    ];
    for start in starts {
        for algorithm in ["new-reno", "cubic", "hstcp", "westwood"] {
            let mut run = open(path(20, 500, 1.0), &format!("{start}+{algorithm}").replace("+cubic", ""), 5_000_000);
            let mut begins = Span::from_secs(1);
            while begins == Span::from_secs(1) || run.info().phase.ends_with("-probe") {
                begins += Span::from_micros(50);
                run.until(begins);
            }
            let (mut most, mut looked) = (2, run.bursts(Span::ZERO).len());
            for millis in 1..2500 {
                run.until(begins + Span::from_millis(millis));
                let rate = run.info().pacing_rate.filter(|rate| *rate < Rate::MAX);
                most = most.max(quantum(rate));
                let bursts = run.bursts(Span::ZERO);
                for (at, count) in bursts.iter().skip(looked) {
                    assert!(*count as u64 <= most, "{start} to {algorithm}: {count} at {at}, {most} allowed");
                }
                looked = looked.max(bursts.len());
            }
            assert!(looked > 20, "{start} to {algorithm}: {looked}");
        }
    }
}
