//! The conformance suite on every profile and every tested composition of this crate.

use longhaul_cc::conformance::{Expect, Filled, Operation, Pipe, Scenario, check, decode, fill, play};
use longhaul_cc::{Granted, update};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::spec;

fn expected(text: &str) -> Expect {
    Expect::of(&spec(text))
}

#[test]
fn every_profile_conforms() {
    for profile in longhaul_zoo::algorithms().profiles {
        check(&spec(profile.name), expected(profile.name), 256);
    }
}

#[test]
fn every_composition_that_an_entry_calls_tested_conforms() {
    for text in longhaul_zoo::algorithms().entries.iter().flat_map(|entry| entry.tested) {
        check(&spec(text), expected(text), 64);
    }
}

/// 100 Gb/s over 800 ms.
fn huge(mss: Bytes) -> Pipe {
    Pipe::new(Rate::from_bits_per_sec(100_000_000_000), Span::from_millis(800), mss)
}

/// A closed loop of ten gigabytes in 149 segments of 64 MiB, so that algorithms which increase by one segment per
/// round trip reach it, too.
#[test]
fn every_profile_fills_a_path_of_ten_gigabytes() {
    let path = huge(Bytes(1 << 26));
    for profile in longhaul_zoo::algorithms().profiles {
        let filled = fill(&spec(profile.name), &path, Span::from_secs(200), expected(profile.name));
        let Filled { delivered, most_in_flight, trace, .. } =
            filled.expect("profiles do with what every transport has");
        let part = delivered.as_f64() / path.rate.bytes_in(Span::from_secs(200)).as_f64();
        assert!((0.5..=1.0).contains(&part), "{}: {part} of the rate", profile.name);
        assert!(most_in_flight > Bytes(9_500_000_000), "{}: {most_in_flight}", profile.name);
        if let Some(bandwidth) = trace.last().and_then(|last| last.snapshot.bandwidth) {
            let part = bandwidth.as_bytes_per_sec() as f64 / path.rate.as_bytes_per_sec() as f64;
            assert!((part - 1.0).abs() < 0.01, "{}: {bandwidth:?}", profile.name);
        }
    }
}

/// Segments of 1448 bytes, of which twenty million are in flight: slow start reaches the 20 GB of path and queue in
/// 21 round trips, and a loss leaves the fraction that the congestion-avoidance algorithm keeps.
#[test]
fn a_loss_among_millions_of_segments_keeps_the_share_of_avoidance() {
    for (name, kept) in [("hstcp", 0.91), ("bic", 819.0 / 1024.0), ("scalable", 0.875)] {
        let spec = spec(&format!("slow-start+{name}"));
        let trace = fill(&spec, &huge(Bytes(1448)), Span::from_secs(25), Expect::default()).expect("granted").trace;
        let threshold = |answer: &longhaul_cc::conformance::Answer| answer.control.ssthresh.expect("a threshold");
        let loss = trace.windows(2).find(|pair| threshold(&pair[1]) < threshold(&pair[0])).expect("a loss");
        let before = loss[0].control.cwnd;
        assert!(before > Bytes(20_000_000_000), "{name}: {before}");
        let share = threshold(&loss[1]).as_f64() / before.as_f64();
        assert!((share / kept - 1.0).abs() < 0.01, "{name}: {share}, not {kept}");
    }
}

/// After a timeout there are a mark and a further timeout, and both timeouts are spurious. The decrease for the mark
/// stays valid, and covers a loss among the same data.
#[test]
fn a_further_timeout_forgets_no_mark() {
    let granted = update!(Granted { ecn: longhaul_cc::EcnMark::Ect0, ..Granted::basic() });
    let rtt = Span::from_millis(100);
    let (start, resolution, cap) = (Time::ZERO, Span::from_nanos(1), Bytes::MAX);
    let (any, mss) = (decode(&[]).0, Bytes(1448));
    let scenario = update!(Scenario { start, resolution, mss, rtt, granted, handshake_lossy: false, cap, ..any });
    let mss = |sixteenths| Operation::Mss { sixteenths };
    let ack = |selective, marked| Operation::Ack { share: 0, rtt: 0, selective, marked };
    let lose = Operation::Lose { share: 0, timer: false };
    let (fill, timeout, spurious) = (Operation::Fill, Operation::Timeout, Operation::Spurious);
    let first = [mss(21), fill, ack(false, false), fill, timeout];
    let then = [mss(0), ack(true, true), timeout, spurious, lose];
    play(&spec("scalable"), &scenario, &[first, then].concat(), Expect::default());
}
