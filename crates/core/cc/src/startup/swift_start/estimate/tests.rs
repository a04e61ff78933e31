use super::*;

/// Picoseconds per second: the tables below need more than nanosecond precision.
const PICOS: u64 = 1_000_000_000_000;

/// Returns the serialisation time of `bytes` at `rate` bits per second, in picoseconds.
fn sending(bytes: u64, rate: u64) -> u64 {
    let picos = u128::from(bytes) * 8 * u128::from(PICOS) / u128::from(rate);
    u64::try_from(picos).unwrap()
}

/// Returns the segments of rounds that grow by half, as with delayed ACKs, from `first` until `enough`.
fn rounds(first: u64, enough: impl Fn(usize, u64) -> bool) -> Vec<u64> {
    let mut windows = vec![first];
    while !enough(windows.len(), *windows.last().unwrap()) {
        windows.push((windows.last().unwrap() * 3).div_ceil(2));
    }
    windows
}

/// Returns a row of tables 1 and 2 of BBN TR 8339: rounds and bytes of slow start until it fills the path, and of
/// Swift Start with `gamma` for `count` rounds, the second of which is the estimate. If the estimate does not exceed
/// slow start's second round, Swift Start's values are those of slow start.
fn row(rate: u64, gamma: u64, count: usize) -> ((usize, u64), (usize, u64)) {
    const SEGMENT: u64 = 984;
    let (rtt, gap) = (PICOS / 10, sending(SEGMENT, rate));
    // Capacity of the path in thousandths of a segment, because rounds end when the window is at least the exact
    // value.
    let holds = capacity_window(1000, rtt, gap, 1);
    let slow = rounds(4, |_, window| window * 1000 >= holds);
    let sum = |windows: &[u64]| (windows.len(), SEGMENT * windows.iter().sum::<u64>());
    let second = capacity_window(SEGMENT, rtt, gap, gamma) / SEGMENT;
    if second <= slow[1] {
        return (sum(&slow), sum(&slow));
    }
    let mut swift = vec![4];
    swift.extend(rounds(second, |len, _| len + 1 == count));
    (sum(&slow), sum(&swift))
}

/// BBN TR 8339, tables 1 and 2: all ten rows, with 984 bytes, 100 ms and delayed ACKs.
#[test]
fn bbn_tables_1_and_2() {
    let rows = [
        (1_500_000, (5, 53_136), (4, 47_232), (5, 53_136)),
        (45_000_000, (14, 2_414_736), (4, 1_337_256), (7, 1_469_112)),
        (155_000_000, (17, 8_179_008), (4, 4_603_152), (7, 5_040_048)),
        (1_000_000_000, (21, 41_465_760), (4, 29_690_232), (7, 32_467_080)),
        (10_000_000_000, (27, 472_490_232), (4, 296_877_720), (7, 324_722_952)),
    ];
    for (rate, slow, gamma_2, gamma_8) in rows {
        assert_eq!(row(rate, 2, 4), (slow, gamma_2), "{rate} b/s, gamma 2");
        assert_eq!(row(rate, 8, 7), (slow, gamma_8), "{rate} b/s, gamma 8");
    }
}

/// NASA TM-2004-212938, table 6: all 18 values. Some have quarters of a byte, so the test counts those.
#[test]
fn nasa_table_6() {
    let rows = [
        (20_000_000, 500, [1_250_000.0, 312_500.0, 156_250.0]),
        (20_000_000, 100, [250_000.0, 62_500.0, 31_250.0]),
        (5_000_000, 500, [312_500.0, 78_125.0, 39_062.5]),
        (5_000_000, 100, [62_500.0, 15_625.0, 7_812.5]),
        (500_000, 500, [31_250.0, 7_812.5, 3_906.25]),
        (500_000, 100, [6_250.0, 1_562.5, 781.25]),
    ];
    for (rate, millis, values) in rows {
        for (gamma, value) in [1, 4, 8].into_iter().zip(values) {
            let quarters = capacity_window(4 * 2896, PICOS / 1000 * millis, sending(2896, rate), gamma);
            assert_eq!(quarters as f64 / 4.0, value, "{rate} b/s, {millis} ms, gamma {gamma}");
        }
    }
}

/// NASA TM-2004-212938, table 3: the percentages follow from an RTT and a `delta` in whole milliseconds. The paper
/// prints tenths, some truncated and some rounded. For 24 of the 25 rows, a pair of milliseconds matches; the
/// remaining one differs by 0.07.
#[test]
fn nasa_table_3_follows_from_milliseconds() {
    type Row<'a> = (u64, u64, &'a [(f64, u64, u64)]);
    let rows: [Row<'_>; 6] = [
        (20_000_000, 500, &[(116.5, 503, 1), (116.7, 504, 1), (58.3, 503, 2)]),
        (20_000_000, 100, &[(119.3, 103, 1), (59.7, 103, 2), (59.1, 102, 2)]),
        (5_000_000, 500, &[(94.0, 507, 5), (93.8, 506, 5), (117.5, 507, 4), (78.2, 506, 6)]),
        (5_000_000, 100, &[(98.2, 106, 5), (99.2, 107, 5), (81.9, 106, 6), (123.9, 107, 4), (125.1, 108, 4)]),
        (500_000, 500, &[(104.2, 551, 49), (104.4, 552, 49), (102.1, 551, 50), (111.6, 554, 46), (106.6, 552, 48)]),
        (500_000, 100, &[(142.8, 151, 49), (141.9, 147, 48), (139.9, 151, 50), (139.0, 150, 50), (143.7, 152, 49)]),
    ];
    for (rate, millis, pairs) in rows {
        let calculated = rate * millis / 8000;
        for &(printed, rtt, delta) in pairs {
            let percent = 100.0 * capacity_window(2896, rtt, delta, 1) as f64 / calculated as f64;
            assert!((percent - printed).abs() < 0.1, "{rate} b/s, ({rtt}, {delta}): {percent}, printed {printed}");
        }
    }
}

/// NASA TM-2004-212938, conclusions: a clock of 1 ms cannot measure more than 23.168 Mb/s.
#[test]
fn a_tick_bounds_the_rate() {
    let a_second = 1000;
    assert_eq!(capacity_window(2896, a_second, 1, 1) * 8, 23_168_000);
    assert_eq!(capacity_window(2896, a_second, 0, 1), capacity_window(2896, a_second, 1, 1), "no delta is a tick");
    assert_eq!(capacity_window(u64::MAX, u64::MAX, 1, 1), u64::MAX);
    assert_eq!(capacity_window(2896, 503, 1, 4), 364_172, "rounded down to bytes");
}

/// Ticks are those of the clock, not rounded durations: 0.2 ms may be one tick, and 0.9 ms none.
#[test]
fn ticks_are_counted_not_rounded() {
    let clock = TickClock { tick: Span::from_millis(1) };
    let at = |micros| Time::ZERO + Span::from_micros(micros);
    assert_eq!((clock.steps(at(900), at(1100)), clock.steps(at(50), at(950))), (1, 0));
    assert_eq!(clock.steps(at(950), at(2180)), 2);
    assert_eq!(clock.span(503), Span::from_millis(503));
    assert_eq!((clock.next(at(1000)), clock.after(at(1000)), clock.next(at(1001))), (at(1000), at(2000), at(2000)));
    let continuous = TickClock::default();
    assert!(clock.ticks() && !continuous.ticks());
    assert_eq!(continuous.steps(at(1), at(3)), 2000);
    assert_eq!((continuous.next(at(7)), continuous.after(at(7)).as_nanos()), (at(7), 7001));
    assert_eq!(clock.steps(at(5000), at(1000)), 0, "a clock that goes back");
}
