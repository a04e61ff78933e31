//! The standard scenarios: one column each.

use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Loss, Step, scenario};
use longhaul_units::{Rate, Span, Time};

use crate::emulated::seconds;

/// How long goodput and queues are measured.
pub(super) const SPAN: Span = Span::from_secs(60);
/// What is timed.
const SIZE: u64 = 1_000_000;
/// Payload of a full segment, and the IP packet it is in: with timestamps, over UDP and IPv4.
const PAYLOAD: u64 = 1448;
const PACKET: u64 = PAYLOAD + 24 + 28;
/// Mb/s of a radio link whose rate changes each second, over and over: mean 13.2.
const RADIO: [u64; 9] = [12, 24, 6, 18, 3, 30, 9, 2, 15];

/// What a column measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Mb/s over [`SPAN`].
    Goodput,
    /// Seconds until so many bytes have arrived.
    Completion(u64),
    /// The 95th percentile of the time in the queue, in ms.
    QueueP95,
}

/// A scenario.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// The head of the column.
    pub head: &'static str,
    /// What it is, in a line.
    pub title: String,
    pub measure: Measure,
    /// The way of the data, and back.
    pub links: Duplex,
    /// Whether it costs less than a second for each composition.
    pub is_quick: bool,
}

/// All of them.
pub(super) fn all() -> Vec<Column> {
    let mut columns: Vec<_> = [
        ("155M", 0.0, "no loss"),
        ("155M 0.1%", 0.001, "0.1 % of random loss"),
        ("155M 0.25%", 0.0025, "0.25 % of random loss"),
        ("155M 0.5%", 0.005, "0.5 % of random loss"),
    ]
    .into_iter()
    .map(|(head, loss, words)| {
        let link = even(155, 65).queue(Limit::Bytes(bdp(155, 65, 1.0))).loss(uniform(loss));
        Column::goodput(head, format!("155 Mb/s, 65 ms, queue of 1 BDP, {words}"), link)
    })
    .collect();
    let long = even(100, 133).queue(Limit::Bytes(150_000)).loss(uniform(0.00005));
    columns.push(Column::goodput("133 ms", "100 Mb/s, 133 ms, queue of 150 kB, 0.005 % of random loss", long));
    let satellite = even(20, 500).queue(Limit::Bytes(bdp(20, 500, 1.0))).loss(uniform(0.001));
    let satellite = Column::goodput("500 ms", "20 Mb/s, 500 ms, queue of 1 BDP, 0.1 % of random loss", satellite);
    columns.push(Column { is_quick: true, ..satellite });
    let shallow = even(80, 133).queue(Limit::Bytes(bdp(80, 133, 0.25)));
    columns.push(Column::goodput("shallow", "80 Mb/s, 133 ms, queue of 0.25 BDP", shallow));
    let gigabit = even(1000, 4).queue(Limit::Bytes(bdp(1000, 4, 1.0)));
    columns.push(Column::goodput("1G", "1 Gb/s, 4 ms, queue of 1 BDP", gigabit));
    if let Some(leo) = scenario::find("leo") {
        let title = "low orbit: 15 s at 100 Mb/s and 20 ms, 15 s at 40 Mb/s and 60 ms, in turn";
        columns.push(Column::goodput("LEO", title, leo.link().back));
    }
    for (head, jitter) in [("270 ms", 0), ("jitter 2 ms", 2), ("jitter 10 ms", 10)] {
        let words = if jitter == 0 { "no jitter".to_owned() } else { format!("up to {jitter} ms of jitter each way") };
        let title = format!("45 Mb/s, 270 ms, queue of 1 BDP, 0.03 % of random loss, {words}");
        let link = even(45, 270).queue(Limit::Bytes(bdp(45, 270, 1.0))).loss(uniform(0.0003));
        columns.push(Column::goodput(head, title, LinkConfig { jitter: Span::from_millis(jitter), ..link }));
    }
    let title = "radio: 12, 24, 6, 18, 3, 30, 9, 2 and 15 Mb/s for a second each, 60 ms, queue of 300 kB";
    columns.push(Column { is_quick: true, ..Column::goodput("radio", title, radio()) });
    let oc3 = even(155, 65).queue(Limit::Bytes(bdp(155, 65, 1.0)));
    let title = "seconds from the SYN until 1 MB has arrived: 155 Mb/s, 65 ms, queue of 1 BDP";
    let timed = Column::new("1 MB", title, Measure::Completion(SIZE), oc3);
    columns.push(Column { is_quick: true, ..timed });
    let deep = even(20, 40).queue(Limit::Bytes(bdp(20, 40, 4.0)));
    let title = "95th percentile of the time in the queue, in ms: 20 Mb/s, 40 ms, queue of 4 BDP, which holds 160 ms";
    columns.push(Column { is_quick: true, ..Column::new("deep", title, Measure::QueueP95, deep) });
    columns
}

impl Column {
    fn goodput(head: &'static str, title: impl Into<String>, link: LinkConfig) -> Self {
        Self::new(head, title, Measure::Goodput, link)
    }

    /// `link` is the way of the data; back there is its delay, jitter and rate, and no loss.
    fn new(head: &'static str, title: impl Into<String>, measure: Measure, link: LinkConfig) -> Self {
        let back = LinkConfig { loss: Loss::None, ..link.clone() };
        Self { head, title: title.into(), measure, links: Duplex { there: link, back }, is_quick: false }
    }

    /// Whether another seed would be another run.
    pub(super) fn has_chance(&self) -> bool {
        self.links.there.loss != Loss::None || !self.links.there.jitter.is_zero()
    }

    /// What physics allows: the payload's part of the mean rate; the handshake, the way there and the packets at the rate
    /// of the link. `None` of a queue.
    pub(super) fn limit(&self) -> Option<f64> {
        let there = &self.links.there;
        let rate = mean_rate(there)?;
        match self.measure {
            Measure::Goodput => Some(rate * 8e-6 * PAYLOAD as f64 / PACKET as f64),
            Measure::Completion(size) => {
                let bytes = size + size.div_ceil(PAYLOAD) * (PACKET - PAYLOAD);
                Some(seconds(there.delay) * 2.0 + seconds(self.links.back.delay) + bytes as f64 / rate)
            }
            Measure::QueueP95 => None,
        }
    }

    /// A measured value as it stands in tables.
    pub(super) fn text(&self, value: f64) -> String {
        match self.measure {
            Measure::Completion(_) => format!("{value:.3}"),
            Measure::Goodput | Measure::QueueP95 => format!("{value:.1}"),
        }
    }
}

/// Mb/s and ms of round trip.
fn even(megabits: u64, rtt_millis: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_sec(megabits * 1_000_000), Span::from_micros(rtt_millis * 500))
}

/// `part` of the bandwidth-delay product of so many Mb/s and ms, in bytes.
fn bdp(megabits: u64, rtt_millis: u64, part: f64) -> u64 {
    ((megabits * rtt_millis * 125) as f64 * part) as u64
}

fn uniform(share: f64) -> Loss {
    if share > 0.0 { Loss::Uniform(share) } else { Loss::None }
}

fn radio() -> LinkConfig {
    let rate = |second: u64| RADIO.get(second as usize % RADIO.len()).copied().unwrap_or_default();
    let step = |second| Step {
        at: Time::ZERO + Span::from_secs(second),
        rate: Some(Rate::from_bits_per_sec(rate(second) * 1_000_000)),
        delay: None,
    };
    let steps = (1..SPAN.as_nanos() / 1_000_000_000).map(step).collect();
    LinkConfig { steps, ..even(rate(0), 60).queue(Limit::Bytes(300_000)) }
}

/// Bytes a second, over [`SPAN`].
fn mean_rate(link: &LinkConfig) -> Option<f64> {
    let end = Time::ZERO + SPAN;
    let starts: Vec<_> = std::iter::once(Time::ZERO)
        .chain(link.steps.iter().map(|step| step.at).filter(|at| *at < end))
        .chain([end])
        .collect();
    let parts = starts.windows(2).map(|ends| match ends {
        [from, to] => Some(link.rate_at(*from)?.as_bytes_per_sec() as f64 * seconds(*to - *from)),
        _ => None,
    });
    Some(parts.sum::<Option<f64>>()? / seconds(SPAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(head: &str) -> f64 {
        all().into_iter().find(|column| column.head == head).unwrap().limit().unwrap()
    }

    #[test]
    fn limits_by_hand() {
        // 1448 of 1500 bytes.
        assert!((limit("155M") - 149.626_666).abs() < 1e-3);
        // Half of the minute at 100 Mb/s, half of it at 40.
        assert!((limit("LEO") - 67.573_333).abs() < 1e-3);
        // Six whole turns of 119 Mb/s together, and the first six of the seventh: 807 / 60.
        assert!((limit("radio") - 13.45 * 1448.0 / 1500.0).abs() < 1e-3);
        // A round trip and a half, and 691 packets: 1 MB and 52 bytes for each.
        assert!((limit("1 MB") - (0.0975 + 1_035_932.0 * 8.0 / 155e6)).abs() < 1e-6);
    }

    #[test]
    fn all_links_are_possible_and_have_heads_of_their_own() {
        let columns = all();
        for (number, column) in columns.iter().enumerate() {
            assert_eq!(column.links.there.validate(), Ok(()), "{}", column.head);
            assert!(columns[..number].iter().all(|other| other.head != column.head));
        }
        assert_eq!(columns.iter().filter(|column| column.has_chance()).count(), 8);
        let jittery = columns.iter().filter(|column| !column.links.there.jitter.is_zero());
        assert!(jittery.clone().all(|column| column.links.back.jitter == column.links.there.jitter));
        assert_eq!(jittery.count(), 2);
    }
}
