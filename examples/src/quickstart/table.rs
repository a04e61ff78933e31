//! Comparison of controllers in a table.

use std::time::Duration;

use super::link::Least;
use super::race::Finish;
use longhaul_link::text;
use longhaul_units::Span;

/// Maximum width of a line in columns.
const COLUMNS: usize = 80;

/// Formats the results: one column per controller, and one for `least`, the lower bound over an emulated link. Columns
/// that exceed the width of a terminal continue in another table below.
#[must_use]
pub fn table(finishes: &[Finish], least: Option<Least>) -> String {
    let mut rows = vec![Row::new("", finishes, |finish| finish.congestion.clone(), "physical limit".into())];
    let limit = |of: fn(Least) -> String| least.map_or_else(String::new, of);
    rows.push(Row::new("time", finishes, |finish| seconds(finish.took), limit(|least| seconds(least.all))));
    let size = finishes.first().map_or(0, |finish| finish.size);
    let best = least.map_or_else(String::new, |least| goodput(size, least.all));
    rows.push(Row::new("goodput", finishes, |finish| goodput(finish.size, finish.took), best));
    if let Some(least) = least.filter(|least| !least.sending.is_zero()) {
        let share = |took: Duration| format!("{:.0} %", 100.0 * least.sending.as_secs_f64() / took.as_secs_f64());
        rows.push(Row::new("share of the link", finishes, |finish| share(finish.took), share(least.all)));
    }
    rows.push(Row::new("retransmitted", finishes, |finish| text::size(finish.retransmitted), String::new()));
    if least.is_some() {
        rows.extend(of_the_link(finishes));
    } else {
        rows.iter_mut().for_each(|Row(cells)| drop(cells.pop()));
    }
    lay_out(&rows)
}

fn of_the_link(finishes: &[Finish]) -> [Row; 3] {
    let none = || "0 us".to_owned();
    let queued = |of: fn([Duration; 2]) -> Duration| {
        move |finish: &Finish| finish.seen.map_or_else(String::new, |seen| time(of(seen.queued)))
    };
    let dropped = |finish: &Finish| finish.seen.map_or_else(String::new, |seen| seen.dropped.to_string());
    [
        Row::new("queueing, median", finishes, queued(|[p50, _]| p50), none()),
        Row::new("queueing, 95th %", finishes, queued(|[_, p95]| p95), none()),
        Row::new("packets lost", finishes, dropped, String::new()),
    ]
}

/// Returns a sentence that explains the lower bound and names the best controller, or an empty text without a bound.
#[must_use]
pub fn conclusion(finishes: &[Finish], least: Option<Least>) -> String {
    let Some(least) = least else { return String::new() };
    let mut text = "physical limit: one round trip for the handshake, half of one for the way, and\n\
                    the data at the link's full rate. No transport is faster.\n"
        .to_owned();
    let Some(best) = finishes.iter().min_by_key(|finish| finish.took) else { return text };
    text += &format!(
        "\n{} had the data across after {}; the link needs {}.",
        best.congestion,
        seconds(best.took),
        seconds(least.all)
    );
    // The best controller is compared with CUBIC, the Internet's default, if CUBIC took part.
    let cubic = finishes.iter().find(|finish| finish.congestion == "cubic");
    let slowest = finishes.iter().max_by_key(|finish| finish.took);
    if let Some(other) = cubic.filter(|cubic| cubic.took > best.took).or(slowest).filter(|other| other.took > best.took)
    {
        let times = other.took.as_secs_f64() / best.took.as_secs_f64().max(1e-9);
        let known = if other.congestion == "cubic" { ", which most of the Internet uses," } else { "" };
        text += &format!("\n{}{known} took {times:.1} times as long.", other.congestion);
    }
    text + "\n"
}

struct Row(Vec<String>);

impl Row {
    fn new(name: &str, finishes: &[Finish], cell: impl Fn(&Finish) -> String, limit: String) -> Self {
        let cells = finishes.iter().map(cell);
        Self([name.to_owned()].into_iter().chain(cells).chain([limit]).collect())
    }
}

/// Formats columns as wide as their contents, right-aligned, in as many tables below each other as the line width
/// requires.
fn lay_out(rows: &[Row]) -> String {
    let columns = rows.first().map_or(0, |Row(cells)| cells.len());
    let width = |column| rows.iter().filter_map(|Row(cells)| cells.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let names = widths.first().copied().unwrap_or(0);
    let mut tables: Vec<Vec<usize>> = Vec::new();
    let mut used = COLUMNS;
    for (column, width) in widths.iter().enumerate().skip(1) {
        match tables.last_mut().filter(|_| used + 2 + width <= COLUMNS) {
            Some(table) => table.push(column),
            None => {
                tables.push(vec![column]);
                used = names;
            }
        }
        used += 2 + width;
    }
    let table = |columns: &Vec<usize>| -> String {
        let line = |Row(cells): &Row| {
            let cell = |column: usize| cells.get(column).map_or("", String::as_str);
            let mut line = format!("{:names$}", cell(0));
            for &column in columns {
                line += &format!("  {:>width$}", cell(column), width = widths.get(column).copied().unwrap_or(0));
            }
            line.trim_end_matches(' ').to_owned() + "\n"
        };
        rows.iter().map(line).collect()
    };
    tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn time(time: Duration) -> String {
    text::time(Span::from_nanos(time.as_nanos() as u64))
}

fn goodput(size: u64, took: Duration) -> String {
    text::rate(8.0 * size as f64 / took.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quickstart::running::Seen;

    fn finish(congestion: &str, seconds: u64) -> Finish {
        let queued = [Duration::ZERO, Duration::from_millis(20)];
        Finish {
            congestion: congestion.into(),
            size: 5_000_000,
            took: Duration::from_secs(seconds),
            retransmitted: 2048,
            seen: Some(Seen { queued, dropped: 3, is_reliable: true }),
        }
    }

    #[test]
    fn each_has_a_column_and_so_has_the_limit() {
        let least = Some(Least { all: Duration::from_secs(2), sending: Duration::from_secs(1) });
        let text = table(&[finish("cubic", 10), finish("a-longer-name", 4)], least);
        let expected = [
            "                      cubic  a-longer-name  physical limit",
            "time                10.00 s         4.00 s          2.00 s",
            "goodput            4.0 Mb/s      10.0 Mb/s       20.0 Mb/s",
            "share of the link      10 %           25 %            50 %",
            "retransmitted        2.0 kB         2.0 kB",
            "queueing, median       0 us           0 us            0 us",
            "queueing, 95th %    20.0 ms        20.0 ms            0 us",
            "packets lost              3              3",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let unlimited = least.map(|least| Least { sending: Duration::ZERO, ..least });
        assert!(!table(&[finish("cubic", 10)], unlimited).contains("share"));
        let loopback = [
            "                    cubic",
            "time              10.00 s",
            "goodput          4.0 Mb/s",
            "retransmitted    2.0 kB",
        ];
        let shown = table(&[finish("cubic", 10)], None);
        assert_eq!(
            shown.lines().map(|line| line.split_whitespace().collect()).collect::<Vec<Vec<_>>>(),
            loopback.map(|line| line.split_whitespace().collect::<Vec<_>>())
        );
    }

    /// Ten controllers need three tables. Each table has all rows, and the bound is the last column of the last table.
    #[test]
    fn wide_tables_continue_below() {
        let least = Some(Least { all: Duration::from_secs(2), sending: Duration::from_secs(1) });
        let names: Vec<String> = (0..10).map(|number| format!("slow-start+{number}")).collect();
        let finishes: Vec<Finish> = names.iter().map(|name| finish(name, 3)).collect();
        let text = table(&finishes, least);
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with(' ')).collect();
        let shown: Vec<&str> = heads.iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(shown, names.iter().map(String::as_str).chain(["physical", "limit"]).collect::<Vec<_>>());
        assert_eq!((heads.len(), text.matches("packets lost").count()), (3, 3), "{text}");
    }

    #[test]
    fn the_last_words_compare_the_best_with_cubic() {
        let least = Some(Least { all: Duration::from_secs(2), sending: Duration::from_secs(1) });
        let of = |names: &[(&str, u64)]| {
            let finishes: Vec<Finish> = names.iter().map(|(name, took)| finish(name, *took)).collect();
            let text = conclusion(&finishes, least);
            assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
            text.split_once("\n\n").unwrap().1.to_owned()
        };
        let bbr = "bbr had the data across after 4.00 s; the link needs 2.00 s.\n";
        assert_eq!(of(&[("bbr", 4)]), bbr);
        let cubic = "cubic, which most of the Internet uses, took 2.5 times as long.\n";
        assert_eq!(of(&[("cubic", 10), ("hybla", 20), ("bbr", 4)]), format!("{bbr}{cubic}"));
        assert_eq!(of(&[("hybla", 20), ("bbr", 4)]), format!("{bbr}hybla took 5.0 times as long.\n"));
        assert_eq!(of(&[("bbr", 4), ("copa", 4)]), bbr);
    }
}
