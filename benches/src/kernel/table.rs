//! The results, for people.

use super::{Row, Side};

/// Prints the table, a verdict in each of its lines.
pub(super) fn print(rows: &[Row]) {
    println!(
        "\n{:<34} {:<12} {:>26} {:>26} {:>6}  verdict",
        "link", "metric", "kernel (quartiles)", "longhaul (quartiles)", "ratio"
    );
    for row in rows {
        println!("{}", line(row));
    }
    let agreeing = rows.iter().filter(|row| row.agrees).count();
    println!("\n{agreeing} of {} rows agree", rows.len());
}

fn line(row: &Row) -> String {
    let link = row.link;
    let mut name = format!("{} Mb/s {} ms {} BDP", link.mbps, link.rtt_ms, link.queue_bdp);
    if link.loss_percent > 0.0 {
        name += &format!(" loss {} %", link.loss_percent);
    }
    let [kernel, longhaul] = [&row.kernel, &row.longhaul].map(cell);
    let (metric, ratio) = (row.metric, row.ratio);
    format!("{name:<34} {metric:<12} {kernel:>26} {longhaul:>26} {ratio:>6.3}  {}", verdict(row))
}

fn cell(side: &Side) -> String {
    let Side { p25, median, p75, .. } = side;
    if side.runs.len() == 1 { format!("{median:.3}") } else { format!("{median:.3} ({p25:.3}-{p75:.3})") }
}

fn verdict(row: &Row) -> String {
    let is_clean = row.link.loss_percent == 0.0;
    let verdict = match (is_clean, row.agrees) {
        (true, true) => "within 10 %",
        (true, false) => "NOT within 10 %",
        (false, true) => "intervals overlap",
        (false, false) => "intervals do NOT overlap",
    };
    let disturbed = row.kernel.disturbed + row.longhaul.disturbed;
    if disturbed > 0 { format!("{verdict}; {disturbed} runs were disturbed") } else { verdict.to_owned() }
}
