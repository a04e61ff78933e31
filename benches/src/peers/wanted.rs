//! What was wanted of the table, and whether it is so.

use super::{COURSES, Row};
use crate::behind::Link;

/// The kernel's BBR, and ours of version 1 and 3.
const BBR: [&str; 3] = ["tcp-bbr", "bbr1", "bbr"];
/// Version 1 and the kernel's differ by this share at most.
const SAME: f64 = 0.03;
/// Version 3 reaches this share of the kernel's,
const PART: f64 = 0.97;
/// where fewer than so many percent of the kernel's packets find the queue full.
const FEW: f64 = 2.0;
/// Mb/s of the link that the order is of.
const OC3: u32 = 155;
/// Laws that ask the path for its rate, and laws that take every loss for congestion.
const ASKING: [&str; 3] = ["westwood", "abse", "westwood-bbe"];
const LOSS_BASED: [&str; 9] =
    ["tcp-cubic", "cubic", "new-reno", "reno-classic", "hstcp", "bic", "scalable", "h-tcp", "hybla"];

/// The order on a link of that rate with these losses (Persson, Marcondes, Sanadidi, Gerla, TCP Westwood experiments over
/// large bandwidth-delay product networks, Table V).
const ORDER: [&str; 3] = ["tcpw-a", "fast", "hstcp"];

/// The section about it. What was not measured is not judged; what failed is no "yes".
pub(super) fn section(rows: &[Row]) -> String {
    let mut text = "## What was wanted\n\n".to_owned();
    for (number, course) in COURSES.iter().enumerate() {
        let Link { mbps, rtt_ms, loss_percent, .. } = course.link;
        text += &format!("* {mbps} Mb/s, {rtt_ms} ms, {loss_percent} % lost:\n");
        let at = |name: &str| rows.iter().find(|row| row.name == name).and_then(|row| row.cells.get(number));
        let goodput = |name| at(name).map(|cell| cell.goodput);
        let [kernel, one, three] = BBR.map(goodput);
        if let (Some(kernel), Some(one)) = (kernel, one) {
            text += &line("`bbr1` within 3 % of the kernel's BBR", (one / kernel - 1.0).abs() <= SAME, one / kernel);
        }
        if let (Some(kernel), Some(three)) = (kernel, three)
            && at(BBR[0]).is_some_and(|cell| cell.overflow < FEW)
        {
            text += &line("`bbr` at least 0.97 of it", three / kernel >= PART, three / kernel);
        }
        let best = LOSS_BASED.into_iter().filter_map(goodput).fold(0.0, f64::max);
        for name in ASKING.into_iter().filter(|_| loss_percent > 0.0) {
            if let Some(ratio) = goodput(name).map(|goodput| goodput / best) {
                text += &line(&format!("`{name}` above every loss-based law"), ratio > 1.0, ratio);
            }
        }
        let is_measured = mbps == OC3 && loss_percent > 0.0;
        if let [Some(first), Some(second), Some(third)] = ORDER.map(|name| goodput(name).filter(|_| is_measured)) {
            let holds = first > second && second > third;
            text += &line("in the order `tcpw-a`, `fast`, `hstcp`, first over last", holds, first / third);
        }
    }
    text
}

fn line(wanted: &str, holds: bool, ratio: f64) -> String {
    format!("  * {wanted}: {}, {ratio:.2}\n", if holds { "yes" } else { "**no**" })
}

#[cfg(test)]
mod tests {
    use super::super::Cell;
    use super::*;

    fn row(name: &str, goodput: f64, overflow: f64) -> Row {
        let cell = Cell { goodput, overflow, ..Cell::default() };
        Row { name: name.to_owned(), cells: vec![cell; COURSES.len()] }
    }

    #[test]
    fn verdicts_follow_from_the_ratios() {
        let rows = |overflow| {
            [row("tcp-bbr", 100.0, overflow), row("bbr1", 96.0, 0.0), row("bbr", 98.0, 0.0)]
                .into_iter()
                .chain([row("tcp-cubic", 10.0, 0.0), row("westwood", 11.0, 0.0), row("abse", 9.0, 0.0)])
                .collect::<Vec<_>>()
        };
        let text = section(&rows(1.0));
        assert!(text.contains("kernel's BBR: **no**, 0.96") && text.contains("0.97 of it: yes, 0.98"), "{text}");
        assert!(text.contains("`westwood` above every loss-based law: yes, 1.10"), "{text}");
        assert!(text.contains("`abse` above every loss-based law: **no**, 0.90"), "{text}");
        assert!(!text.contains("westwood-bbe"), "what was not measured is not judged");
        let failed = [row("tcp-bbr", f64::NAN, 0.0), row("bbr1", 96.0, 0.0)];
        assert!(section(&failed).contains("kernel's BBR: **no**, NaN"), "what failed is no yes");
        assert!(!section(&rows(3.0)).contains("of it"), "the kernel's own drops excuse it");
    }
}
