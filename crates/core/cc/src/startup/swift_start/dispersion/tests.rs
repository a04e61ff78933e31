use longhaul_units::Time;
use proptest::prelude::*;

use super::*;
use crate::{SegmentKind, TxId};

const MSS: Bytes = Bytes(1448);

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// Segment number `tx`, sent at `sent` and arrived at `arrival`, in microseconds.
fn segment(tx: u64, sent: u64, arrival: Option<u64>) -> AckedSegment {
    let mut segment = AckedSegment::new(TxId(tx), at(sent), MSS);
    segment.arrival = arrival.map(at);
    segment
}

fn flight(arrivals: &[Option<u64>]) -> Dispersion {
    let mut dispersion = Dispersion::default();
    (0..).zip(arrivals).for_each(|(tx, arrival)| dispersion.note(&segment(tx, 0, *arrival)));
    dispersion
}

fn mbit(dispersion: &Dispersion) -> Option<f64> {
    dispersion.rate().map(|rate| rate.as_bits_per_sec() as f64 / 1e6)
}

/// 1448 bytes per 1158.4 us are 10 Mb/s.
#[test]
fn even_gaps_are_the_rate() {
    let arrivals: Vec<_> = (0..10).map(|k| Some(500_000 + 11_584 * k / 10)).collect();
    let rate = mbit(&flight(&arrivals)).unwrap();
    assert!((rate - 10.0).abs() < 0.01, "{rate}");
}

/// An estimate needs three gaps. Segments that were not reported, were merged, were retransmitted or were sent at
/// another time do not yield a gap.
#[test]
fn only_neighbours_that_left_together_count() {
    assert_eq!(flight(&[Some(0), Some(1000), Some(2000)]).rate(), None, "two gaps");
    assert_eq!(flight(&[Some(0), Some(1000), None, Some(3000), Some(4000)]).gaps, 2);
    let note = |change: fn(&mut AckedSegment)| {
        let mut dispersion = flight(&[Some(1000), Some(2000), Some(3000), Some(4000)]);
        let mut next = segment(4, 0, Some(5000));
        change(&mut next);
        dispersion.note(&next);
        dispersion.gaps
    };
    assert_eq!(note(|_| {}), 4);
    assert_eq!(note(|segment| segment.arrival_coalesced = true), 3);
    assert_eq!(note(|segment| segment.kind = SegmentKind::Retransmit), 3);
    assert_eq!(note(|segment| segment.sent_at = at(1)), 3);
    assert_eq!(note(|segment| segment.tx = TxId(5)), 3);
    assert_eq!(note(|segment| segment.arrival = Some(at(4000))), 3, "at one time");
    assert_eq!(note(|segment| segment.arrival = Some(at(3500))), 3, "overtaken");
}

/// A single early segment does not change the median. Other flows between the segments reduce the rate over all gaps.
#[test]
fn the_lower_of_median_and_whole() {
    // All gaps are 1 ms, except one of 1.9 ms that is followed by one of 0.1 ms: the median and the mean are 1 ms.
    let early = flight(&[0, 1000, 2000, 3900, 4000, 5000].map(Some));
    assert!((mbit(&early).unwrap() - 11.584).abs() < 0.01);
    // Every third gap is 4 ms: the median does not change, but the mean doubles.
    let shared = flight(&[0, 1000, 2000, 6000, 7000, 8000, 12_000].map(Some));
    assert!((mbit(&shared).unwrap() - 5.792).abs() < 0.01);
    // Most gaps are long.
    let slow = flight(&[0, 2000, 4000, 6000, 6100].map(Some));
    assert!((mbit(&slow).unwrap() - 5.792).abs() < 0.01);
}

#[test]
fn a_restart_counts_anew() {
    let mut dispersion = flight(&[0, 1000, 2000, 3000].map(Some));
    dispersion.restart();
    assert_eq!((dispersion.gaps, dispersion.rate()), (0, None));
    (4..7).for_each(|tx| dispersion.note(&segment(tx, 0, Some(1000 * tx))));
    assert_eq!(dispersion.gaps, 3);
    assert!(dispersion.rate().is_some());
}

proptest! {
    /// For any arrivals, the rate is at most that over all gaps, and at least that or the rate of the longest gap,
    /// whichever is lower.
    #[test]
    fn the_rate_is_within_what_was_seen(gaps in prop::collection::vec(1_u64..1_000_000, 3..60)) {
        let mut time = 0;
        let mut arrivals = vec![Some(0)];
        for gap in &gaps {
            time += gap;
            arrivals.push(Some(time));
        }
        let rate = flight(&arrivals).rate().unwrap();
        let whole = Rate::from_bytes_over(MSS * gaps.len() as u64, Span::from_micros(time));
        let least = Rate::from_bytes_over(MSS, Span::from_micros(*gaps.iter().max().unwrap()));
        prop_assert!(rate <= whole && rate >= least.min(whole), "{rate:?} {whole:?} {least:?}");
    }
}
