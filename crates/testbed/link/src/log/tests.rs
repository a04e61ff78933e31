use longhaul_units::Rate;
use std::sync::Arc;

use super::*;
use crate::{Limit, Link, LinkRate, Outage, OutageKind, Step, Trace};

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

#[test]
fn lines_match_mahimahis_format() {
    let at = Time::from_nanos(12_999_999);
    let lines = [
        LogLine::Opportunity(at, 1504),
        LogLine::Arrival(at, 1500),
        LogLine::Departure(at, 1500, Span::from_micros(7_100)),
        LogLine::Drop(at, 2, 3000),
    ];
    assert_eq!(lines.map(|line| line.to_string()), ["12 # 1504", "12 + 1500", "12 - 1500 7", "12 d 2 3000"]);
    assert!(header("link", "infinite []", 5).ends_with("# init timestamp: 5\n# base timestamp: 0\n"));
}

/// Offers packets of one size at the given milliseconds, and returns the log until `end`.
fn logged(config: LinkConfig, arrivals: impl IntoIterator<Item = u64>, size: u32, end: u64) -> String {
    let log = Log::of(&config, header("test", "fifo", 1_700_000_000_000));
    let mut link = Link::with_hook(config, 1, 0, Some(log)).unwrap();
    for millis in arrivals {
        while let Some(now) = link.next_event().filter(|now| *now <= at(millis)) {
            link.poll(now);
        }
        link.offer(at(millis), Packet::new(size, ()));
    }
    while let Some(now) = link.next_event().filter(|now| *now <= at(end)) {
        link.poll(now);
    }
    let log = link.hook.as_mut().unwrap();
    log.flush(at(end));
    assert!(!log.has_failed());
    core::mem::take(log.out())
}

/// The totals that mahimahi's graph scripts compute from a log. This panics where the scripts would fail; unlike
/// them, it accepts drops.
#[derive(Debug, Default)]
struct Graph {
    first: Option<u64>,
    last: u64,
    capacity: u64,
    throughput: u64,
    delays: Vec<u64>,
}

impl Graph {
    fn read(text: &str, beyond: u64) -> Self {
        let (mut graph, mut base) = (Self::default(), None);
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("# base timestamp: ") {
                assert_eq!(base.replace(number.parse::<u64>().unwrap()), None, "one base");
            }
            let fields: Vec<_> = line.split_whitespace().collect();
            if fields[0] == "#" || fields[1] == "d" {
                continue;
            }
            let number = |index: usize| fields[index].parse::<u64>().unwrap();
            let time = number(0).checked_sub(base.unwrap()).expect("no line is before the base");
            assert!(time >= graph.last, "in the order of time: {line}");
            graph.first.get_or_insert(time);
            graph.last = time;
            match fields[1] {
                "+" => assert!(number(2) > 0),
                "#" => graph.capacity += number(2),
                "-" => {
                    graph.throughput += number(2);
                    assert!(time >= number(3), "it came before the base");
                    graph.delays.push(number(3));
                }
                other => panic!("unknown event {other}"),
            }
            assert!(graph.throughput <= graph.capacity + beyond, "{line}");
        }
        assert!(graph.capacity > 0 && graph.first < Some(graph.last) && !graph.delays.is_empty());
        graph
    }

    /// Returns the mean rate of the opportunities in bytes per second.
    fn rate(&self) -> f64 {
        self.capacity as f64 * 1e3 / (self.last - self.first.unwrap()) as f64
    }
}

#[test]
fn mahimahis_graph_scripts_accept_logs_of_any_link() {
    let rate = Rate::from_bytes_per_sec;
    let constant = LinkConfig::new(rate(1_000_000), Span::from_millis(50)).queue(Limit::Packets(10));
    let slower = Step { at: at(500), rate: Some(rate(500_000)), delay: None };
    let stepped = LinkConfig { steps: vec![slower], ..constant.clone() };
    let hold = Outage { from: at(200), until: at(450), kind: OutageKind::Hold };
    let held = LinkConfig { outages: vec![hold], ..constant.clone() };
    let trace = LinkConfig { rate: LinkRate::Trace(Arc::new(Trace::parse("1\n1\n4").unwrap())), ..constant.clone() };
    // While a link holds packets back there are no opportunities, but the packet in transmission completes.
    for (config, mean, beyond) in [(constant, 1e6, 0), (stepped, 0.75e6, 0), (held, 0.75e6, 1_500), (trace, 1.128e6, 0)]
    {
        // One packet per millisecond exceeds the rate of every link.
        let graph = Graph::read(&logged(config.clone(), 0..1_000, 1_500, 1_000), beyond);
        assert!((graph.rate() / mean - 1.0).abs() < 0.01, "{} for {mean}", graph.rate());
        assert!(graph.throughput as f64 > 0.95 * graph.capacity as f64, "{graph:?}");
        // With few packets, unused opportunities are logged as well.
        let graph = Graph::read(&logged(config, (0..1_000).step_by(70), 100, 1_000), beyond);
        assert!((graph.rate() / mean - 1.0).abs() < 0.01, "{} for {mean}", graph.rate());
        assert_eq!((graph.throughput, graph.delays.iter().max() < Some(&300)), (1_500, true));
    }
}

#[test]
fn opportunities_are_those_of_the_trace() {
    let config = LinkConfig { rate: LinkRate::Trace(Arc::new(Trace::parse("1\n1\n4").unwrap())), ..Default::default() };
    let log = logged(config, [2, 5], 1_500, 9);
    // Two opportunities in one millisecond share a line; a packet that arrives together with those of 5 ms misses
    // both.
    let lines: Vec<_> = log.lines().skip(4).collect();
    assert_eq!(
        lines,
        [
            "1 # 3008",
            "2 + 1500",
            "4 # 1504",
            "4 - 1500 2",
            "5 # 3008",
            "5 + 1500",
            "8 # 1504",
            "8 - 1500 3",
            "9 # 3008"
        ]
    );
}

#[test]
fn an_idle_link_writes_few_lines_and_loses_no_opportunity() {
    let gigabit = LinkConfig::new(Rate::from_bits_per_sec(1_000_000_000), Span::ZERO);
    let hours = 3 * 3_600_000;
    let log = logged(gigabit.clone(), [0, hours], 1_500, hours + 1);
    assert!(log.lines().count() < 1_200, "{}", log.lines().count());
    assert!((Graph::read(&log, 0).rate() / 125e6 - 1.0).abs() < 1e-6);
    // If the log is flushed ten times per second, as the emulator does, there are ten lines per second after the
    // first one.
    let mut log = Log::of(&gigabit, String::new());
    (1..=100).for_each(|tenth| log.flush(at(tenth * 100)));
    assert!(log.out().lines().count() < 1_000 + 200, "{}", log.out().lines().count());
}

#[test]
fn reconfiguration_changes_the_opportunities() {
    let rate = |bytes| LinkConfig::new(Rate::from_bytes_per_sec(bytes), Span::ZERO);
    let mut log = Log::of(&rate(1_504_000), String::new());
    log.reconfigure(at(2), &LinkConfig::default());
    log.reconfigure(at(5), &rate(752_000));
    log.flush(at(8));
    assert_eq!(log.out(), "0 # 1504\n1 # 1504\n2 # 1504\n5 # 1504\n7 # 1504\n");
    let mut log = Log::new(String::new());
    log.flush(at(8));
    assert_eq!(log.out(), "");
}

#[test]
fn a_link_is_logged_in_the_order_of_time() {
    let rate = Rate::from_bytes_per_sec(1_000_000);
    let config = LinkConfig::new(rate, Span::from_millis(50)).queue(Limit::Packets(1));
    let mut link = Link::with_hook(config, 1, 0, Some(Log::new(String::new()))).unwrap();
    for millis in [0, 1, 2, 3] {
        link.offer(at(millis), Packet::new(2_000, ()));
    }
    while let Some(now) = link.next_event() {
        link.poll(now);
    }
    let log = link.hook.as_mut().unwrap();
    log.flush(Time::MAX);
    assert!(!log.has_failed());
    // Each packet takes 2 ms; the last one finds the third waiting.
    assert_eq!(log.out(), "0 + 2000\n1 + 2000\n2 - 2000 2\n2 + 2000\n3 + 2000\n3 d 1 2000\n4 - 2000 3\n6 - 2000 4\n");
}
