use longhaul_units::{Span, Time};
use proptest::prelude::*;

use super::{Arrival, Arrivals, decode_gap, encode_gap};

fn at(seq: u32, micros: u64) -> Arrival {
    Arrival::new(seq, Time::from_nanos(micros * 1000), false)
}

#[test]
fn a_pair_keeps_its_dispersion() {
    // Segments of 1448 bytes after a 155 Mb/s bottleneck are 77.4 us apart.
    let mut arrivals = Arrivals::EMPTY;
    assert!(arrivals.push(Arrival::new(5000, Time::from_nanos(1_000_000), false)));
    assert!(arrivals.push(Arrival::new(6448, Time::from_nanos(1_077_400), true)));
    let read: Vec<_> = arrivals.iter().collect();
    assert_eq!(read[1].since(&read[0]), Some(Span::from_nanos(1209 * 64)));
    assert_eq!((read[0].seq, read[0].coalesced), (5000, false));
    assert_eq!((read[1].seq, read[1].coalesced), (6448, true));
}

#[test]
fn arrivals_that_cannot_be_encoded_are_refused() {
    let mut arrivals = Arrivals::EMPTY;
    assert!(arrivals.push(at(100_000, 50)));
    let before = arrivals;
    assert!(!arrivals.push(at(100_000, 49)), "time goes back");
    assert!(!arrivals.push(at(100_000 + 32_768, 50)), "too far ahead");
    assert!(!arrivals.push(at(100_000 - 32_769, 50)), "too far behind");
    assert!(!arrivals.push(at(100_000, 50 + 4_294_968)), "too late");
    assert_eq!(arrivals, before);
    assert!(arrivals.push(at(100_000 - 32_768, 50)), "reordered");
    assert!(arrivals.push(at(100_000 - 1, 4_290_000)), "a very slow link");
    assert!(arrivals.push(Arrival { coalesced: true, ..at(100_000, 4_290_000) }), "the same batch");
}

#[test]
fn five_arrivals_fit_and_can_be_truncated() {
    let mut arrivals = Arrivals::EMPTY;
    for i in 0..5 {
        assert!(arrivals.push(at(i * 1448, u64::from(i) * 12)));
    }
    assert!(!arrivals.push(at(5 * 1448, 60)));
    let mut first_two = Arrivals::EMPTY;
    first_two.push(at(0, 0));
    first_two.push(at(1448, 12));
    arrivals.truncate(2);
    assert_eq!(arrivals, first_two);
    arrivals.truncate(0);
    assert_eq!(arrivals, Arrivals::EMPTY);
}

#[test]
fn the_clock_may_wrap_inside() {
    let mut arrivals = Arrivals::EMPTY;
    assert!(arrivals.push(Arrival { seq: 0xffff_fff0, ticks: 0x7fff_fff0, coalesced: false }));
    assert!(arrivals.push(Arrival { seq: 0x10, ticks: 0x10, coalesced: false }));
    let last = arrivals.iter().last();
    assert_eq!(last, Some(Arrival { seq: 0x10, ticks: 0x10, coalesced: false }));
}

/// Longest gap in ticks that can be encoded: it is rounded down to 2047 x 2^15.
const LONGEST_GAP: u32 = (2047 << 15) + (1 << 14) - 1;

#[test]
fn the_longest_gap_and_beyond() {
    assert_eq!(encode_gap(LONGEST_GAP).map(decode_gap), Some(2047 << 15));
    assert_eq!(encode_gap(LONGEST_GAP + 1), None);
}

proptest! {
    #[test]
    fn gaps_are_exact_when_short_and_near_when_long(ticks in 0..=LONGEST_GAP) {
        let read = decode_gap(encode_gap(ticks).unwrap());
        if ticks < 2048 {
            prop_assert_eq!(read, ticks);
        }
        prop_assert!(u64::from(read.abs_diff(ticks)) * 4096 <= u64::from(ticks) * 2);
        // Encoding a decoded gap does not change it.
        prop_assert_eq!(decode_gap(encode_gap(read).unwrap()), read);
    }

    /// The precision of a gap does not depend on the gaps before it.
    #[test]
    fn a_short_gap_after_a_long_one_keeps_its_precision(gaps in prop::collection::vec(0_u64..200_000_000, 4)) {
        let mut arrivals = Arrivals::EMPTY;
        let mut now = 0;
        let mut truth = vec![Arrival::new(0, Time::from_nanos(now), false)];
        for &gap in &gaps {
            now += gap >> (gap % 28);
            truth.push(Arrival::new(0, Time::from_nanos(now), false));
        }
        for &arrival in &truth {
            prop_assert!(arrivals.push(arrival));
        }
        let read: Vec<_> = arrivals.iter().collect();
        for (read, truth) in read.windows(2).zip(truth.windows(2)) {
            let read = read[1].since(&read[0]).unwrap().as_nanos();
            let truth = truth[1].since(&truth[0]).unwrap().as_nanos();
            prop_assert!(read.abs_diff(truth) * 2048 <= truth);
        }
    }
}
