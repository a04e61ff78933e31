//! Comparison of controllers in a table.

use std::time::Duration;

use super::link::Least;
use super::race::Finish;
use longhaul_cli::report;

/// Maximum width of a line in columns.
const COLUMNS: usize = 80;

/// Formats the results over a link with the lower bound `least` for this file: one column per controller, and one for
/// the bound. A table that is wider than a terminal continues below.
#[must_use]
pub fn table(finishes: &[Finish], least: Least) -> String {
    let size = finishes.first().map_or(0, |finish| finish.sent.bytes);
    let mut rows = vec![Row::new("", finishes, |finish| finish.sent.congestion.clone(), "physical limit".into())];
    rows.push(Row::new("time", finishes, |finish| seconds(finish.took), seconds(least.all)));
    let goodput = |took| report::rate(report::bits_per_second(size, took));
    rows.push(Row::new("goodput", finishes, |finish| goodput(finish.took), goodput(least.all)));
    if !least.sending.is_zero() {
        let share = |took: Duration| format!("{:.0} %", 100.0 * least.sending.as_secs_f64() / took.as_secs_f64());
        rows.push(Row::new("share of the link", finishes, |finish| share(finish.took), share(least.all)));
    }
    let again = |finish: &Finish| report::size(finish.sent.retransmitted_bytes);
    rows.push(Row::new("retransmitted", finishes, again, String::new()));
    let queued = |of: fn([Duration; 2]) -> Duration| {
        move |finish: &Finish| finish.seen.map_or_else(String::new, |seen| report::time(Some(of(seen.queued))))
    };
    rows.push(Row::new("queueing, median", finishes, queued(|[p50, _]| p50), "0 us".into()));
    rows.push(Row::new("queueing, 95th %", finishes, queued(|[_, p95]| p95), "0 us".into()));
    let dropped = |finish: &Finish| finish.seen.map_or_else(String::new, |seen| seen.dropped.to_string());
    rows.push(Row::new("packets lost", finishes, dropped, String::new()));
    let verdict = |finish: &Finish| if finish.is_right() { "match" } else { "DIFFER" }.to_owned();
    rows.push(Row::new("hashes", finishes, verdict, String::new()));
    lay_out(&rows)
}

/// Returns an explanation of the bound and the outcome in words.
#[must_use]
pub fn conclusion(finishes: &[Finish], least: Least) -> String {
    let mut text = "physical limit: one round trip for the handshake, half of one for the way, and\n\
                    the file at the link's full rate. No transport is faster.\n"
        .to_owned();
    let Some(best) = finishes.iter().min_by_key(|finish| finish.took) else { return text };
    let name = |finish: &Finish| finish.sent.congestion.clone();
    text += &format!(
        "\n{} had the file across after {}; the link needs {}.",
        name(best),
        seconds(best.took),
        seconds(least.all)
    );
    // The best controller is compared with CUBIC, the Internet's default, if it is present.
    let cubic = finishes.iter().find(|finish| name(finish) == "cubic");
    let slowest = finishes.iter().max_by_key(|finish| finish.took);
    if let Some(other) = cubic.filter(|cubic| cubic.took > best.took).or(slowest).filter(|other| other.took > best.took)
    {
        let times = other.took.as_secs_f64() / best.took.as_secs_f64().max(1e-9);
        let known = if name(other) == "cubic" { ", which most of the Internet uses," } else { "" };
        text += &format!("\n{}{known} took {times:.1} times as long.", name(other));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quickstart::running::Seen;
    use longhaul_cli::receiver::File;
    use longhaul_cli::report::Sent;
    use longhaul_cli::transport::Snapshot;

    fn finish(congestion: &str, seconds: u64, contents: &[u8]) -> Finish {
        let connection = Snapshot { congestion: congestion.into(), retransmitted_bytes: 2048, ..Snapshot::default() };
        let took = Duration::from_secs(seconds);
        let (bytes, hash) = (5_000_000, blake3::hash(b"sent"));
        let sent = Sent::new("f".into(), (bytes, 0), took, &Snapshot::default(), &connection, &hash);
        let received = File { name: "f".into(), bytes, resumed: 0, took, hash: blake3::hash(contents) };
        let queued = [Duration::ZERO, Duration::from_millis(20)];
        Finish { sent, connection, received, took, seen: Some(Seen { queued, dropped: 3, is_reliable: true }) }
    }

    #[test]
    fn each_has_a_column_and_so_has_the_limit() {
        let least = Least { all: Duration::from_secs(2), sending: Duration::from_secs(1) };
        let text = table(&[finish("cubic", 10, b"sent"), finish("a-longer-name", 4, b"else")], least);
        let expected = [
            "                      cubic  a-longer-name  physical limit",
            "time                10.00 s         4.00 s          2.00 s",
            "goodput            4.0 Mb/s      10.0 Mb/s       20.0 Mb/s",
            "share of the link      10 %           25 %            50 %",
            "retransmitted      2.00 KiB       2.00 KiB",
            "queueing, median       0 us           0 us            0 us",
            "queueing, 95th %    20.0 ms        20.0 ms            0 us",
            "packets lost              3              3",
            "hashes                match         DIFFER",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let unlimited = table(&[finish("cubic", 10, b"sent")], Least { sending: Duration::ZERO, ..least });
        assert!(!unlimited.contains("share"), "{unlimited}");
    }

    /// Ten controllers need three tables. Each has all rows, and the bound is the last column of the last one.
    #[test]
    fn wide_tables_continue_below() {
        let least = Least { all: Duration::from_secs(2), sending: Duration::from_secs(1) };
        let names: Vec<String> = (0..10).map(|number| format!("slow-start+{number}")).collect();
        let finishes: Vec<Finish> = names.iter().map(|name| finish(name, 3, b"sent")).collect();
        let text = table(&finishes, least);
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with(' ')).collect();
        let shown: Vec<&str> = heads.iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(shown, names.iter().map(String::as_str).chain(["physical", "limit"]).collect::<Vec<_>>());
        assert_eq!((heads.len(), text.matches("packets lost").count()), (3, 3), "{text}");
    }

    #[test]
    fn the_last_words_compare_the_best_with_cubic() {
        let least = Least { all: Duration::from_secs(2), sending: Duration::from_secs(1) };
        let of = |names: &[(&str, u64)]| {
            let finishes: Vec<Finish> = names.iter().map(|(name, took)| finish(name, *took, b"sent")).collect();
            let text = conclusion(&finishes, least);
            assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
            text.split_once("\n\n").unwrap().1.to_owned()
        };
        let bbr = "bbr had the file across after 4.00 s; the link needs 2.00 s.\n";
        assert_eq!(of(&[("bbr", 4)]), bbr);
        let cubic = "cubic, which most of the Internet uses, took 2.5 times as long.\n";
        assert_eq!(of(&[("cubic", 10), ("hybla", 20), ("bbr", 4)]), format!("{bbr}{cubic}"));
        assert_eq!(of(&[("hybla", 20), ("bbr", 4)]), format!("{bbr}hybla took 5.0 times as long.\n"));
        assert_eq!(of(&[("bbr", 4), ("copa", 4)]), bbr);
    }
}
