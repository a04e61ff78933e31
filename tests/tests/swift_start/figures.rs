//! Figures 1 to 3 of NASA TM-2004-212938: transmission times at 5 Mb/s and 500 ms, as text pictures.

use std::fmt::Write;

use longhaul_cc::launch::swift_start::estimate::capacity_window;
use longhaul_units::{Span, Time};

use crate::testbed::{MSS, Run, Start, Testbed};

const WIDTH: usize = 76;

/// Returns a picture of the segments sent: a column is `step` long, a row stands for `each` segments, and it begins
/// `from` after the SYN. ACK arrivals are shown below.
fn picture(run: &Run, from: Span, step: Span, (rows, each): (usize, usize)) -> String {
    let traffic = run.traffic();
    let column = |at: Time| {
        let since = at.since(run.begun).as_nanos().checked_sub(from.as_nanos())?;
        Some((since / step.as_nanos()) as usize).filter(|column| *column < WIDTH)
    };
    let mut grid = vec![vec![' '; WIDTH]; rows];
    for (number, (at, _)) in traffic.sent.iter().enumerate() {
        if let Some((column, row)) = column(*at).zip(grid.get_mut(number / each)) {
            row[column] = 'o';
        }
    }
    let mut acks = vec![' '; WIDTH];
    traffic.acks.iter().filter_map(|at| column(*at)).for_each(|column| acks[column] = '^');
    let mut text = String::new();
    for (number, row) in grid.iter().enumerate().rev() {
        let line: String = row.iter().collect();
        writeln!(text, "{:>5} |{}", (number + 1) * each, line.trim_end()).unwrap();
    }
    writeln!(text, " ACKs |{}", acks.iter().collect::<String>().trim_end()).unwrap();
    let label = |column: usize| format!("{:.2} s", (from + step * column as u64).as_secs_f64());
    let (first, half, last) = (label(0), label(WIDTH / 2), label(WIDTH));
    writeln!(text, "       {first:<38}{half:<32}{last}").unwrap();
    text
}

/// Returns the transmission times from `from` to `until` after the SYN in ms, with simultaneous segments combined.
fn list(run: &Run, from: u64, until: u64) -> String {
    let mut text = String::new();
    for (at, count) in run.bursts(Span::ZERO) {
        let since = at.since(run.begun);
        if (Span::from_millis(from)..Span::from_millis(until)).contains(&since) {
            writeln!(text, "{:9.3} ms: {count}", since.as_secs_f64() * 1e3).unwrap();
        }
    }
    text
}

fn run(start: Start, millis: u64) -> Run {
    let mut run = Testbed::new(5_000_000, 500).open(start, 1_000_000);
    run.until(Span::from_millis(millis));
    run
}

/// BBN's code: six segments are sent in the second round trip, although the BDP is 216 segments.
#[test]
fn figure_1_six_packets_for_216() {
    let run = run(Start::Bbn, 2600);
    let second =
        run.traffic().sent.iter().filter(|(at, _)| (1000..1507).contains(&at.since(run.begun).as_millis())).count();
    // A segment takes 2316.8 us without headers, and the BDP is 312,500 bytes.
    let holds = capacity_window(MSS, 500_000_000, 2_316_800, 1);
    assert_eq!((second, holds, holds.div_ceil(MSS)), (6, 312_500, 216));
    insta::assert_snapshot!("figure-1", picture(&run, Span::from_millis(450), Span::from_millis(28), (20, 1)));
}

/// BBN's code: pacing begins before there is an estimate, and leaves a gap between the second and the third segment.
#[test]
fn figure_2_premature_pacing() {
    let run = run(Start::Bbn, 1600);
    insta::assert_snapshot!("figure-2", list(&run, 1000, 1507));
}

/// NASA's code: evenly paced in the second round trip, and slow start from the third on.
#[test]
fn figure_3_corrected() {
    let run = run(Start::Swift(1), 3000);
    let text = picture(&run, Span::from_millis(450), Span::from_millis(33), (36, 20));
    insta::assert_snapshot!("figure-3", text);
    let gaps: Vec<_> = {
        let sent = run.traffic().sent;
        sent.windows(2).skip(7).take(190).map(|pair| pair[1].0.since(pair[0].0).as_millis()).collect()
    };
    // 507 ms divided by 203 segments is 2.5 ms, and ticks are 1 ms.
    assert!(gaps.iter().all(|gap| (2..=3).contains(gap)), "{gaps:?}");
}
