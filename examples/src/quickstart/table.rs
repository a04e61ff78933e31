//! Controllers side by side.

use std::time::Duration;

use super::link::Least;
use super::race::Finish;
use crate::report;

/// How each did over a link whose limit for this file is `least`: a column for each, and one for the limit.
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
    rows.push(Row::new("sent again", finishes, again, String::new()));
    let queued = |of: fn([Duration; 2]) -> Duration| {
        move |finish: &Finish| finish.seen.map_or_else(String::new, |seen| report::time(Some(of(seen.queued))))
    };
    rows.push(Row::new("queueing delay, p50", finishes, queued(|[p50, _]| p50), "0 us".into()));
    rows.push(Row::new("queueing delay, p95", finishes, queued(|[_, p95]| p95), "0 us".into()));
    let dropped = |finish: &Finish| finish.seen.map_or_else(String::new, |seen| seen.dropped.to_string());
    rows.push(Row::new("packets dropped", finishes, dropped, String::new()));
    let verdict = |finish: &Finish| if finish.is_right() { "match" } else { "DIFFER" }.to_owned();
    rows.push(Row::new("hashes", finishes, verdict, String::new()));
    lay_out(&rows)
}

struct Row(Vec<String>);

impl Row {
    fn new(name: &str, finishes: &[Finish], cell: impl Fn(&Finish) -> String, limit: String) -> Self {
        let cells = finishes.iter().map(cell);
        Self([name.to_owned()].into_iter().chain(cells).chain([limit]).collect())
    }
}

/// Columns as wide as what is in them, numbers to the right.
fn lay_out(rows: &[Row]) -> String {
    let columns = rows.first().map_or(0, |Row(cells)| cells.len());
    let width = |column| rows.iter().filter_map(|Row(cells)| cells.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for Row(cells) in rows {
        for (number, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            text += &if number == 0 { format!("{cell:width$}") } else { format!("  {cell:>width$}") };
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quickstart::running::Seen;
    use crate::receiver::File;
    use crate::report::Sent;
    use crate::transport::Snapshot;

    fn finish(congestion: &str, seconds: u64, contents: &[u8]) -> Finish {
        let connection = Snapshot { congestion: congestion.into(), retransmitted_bytes: 2048, ..Snapshot::default() };
        let took = Duration::from_secs(seconds);
        let (bytes, hash) = (5_000_000, blake3::hash(b"sent"));
        let sent = Sent::new("f".into(), bytes, took, &Snapshot::default(), &connection, &hash);
        let received = File { name: "f".into(), bytes, took, hash: blake3::hash(contents) };
        let queued = [Duration::ZERO, Duration::from_millis(20)];
        Finish { sent, connection, received, took, seen: Some(Seen { queued, dropped: 3, is_reliable: true }) }
    }

    #[test]
    fn each_has_a_column_and_so_has_the_limit() {
        let least = Least { all: Duration::from_secs(2), sending: Duration::from_secs(1) };
        let text = table(&[finish("cubic", 10, b"sent"), finish("a-longer-name", 4, b"else")], least);
        let expected = [
            "                        cubic  a-longer-name  physical limit",
            "time                  10.00 s         4.00 s          2.00 s",
            "goodput              4.0 Mb/s      10.0 Mb/s       20.0 Mb/s",
            "share of the link        10 %           25 %            50 %",
            "sent again           2.00 KiB       2.00 KiB",
            "queueing delay, p50      0 us           0 us            0 us",
            "queueing delay, p95   20.0 ms        20.0 ms            0 us",
            "packets dropped             3              3",
            "hashes                  match         DIFFER",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let unlimited = table(&[finish("cubic", 10, b"sent")], Least { sending: Duration::ZERO, ..least });
        assert!(!unlimited.contains("share"), "{unlimited}");
    }
}
