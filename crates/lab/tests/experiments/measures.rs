//! Measures, compared with values computed from rates, sizes and delays.

use std::collections::BTreeSet;

use crate::written::{known, measure, read, run};
use longhaul_lab::experiment::Experiment;
use longhaul_lab::judge::{self, Numbers};
use longhaul_lab::record::Record;
use longhaul_lab::{measure as measures, series};

#[track_caller]
fn near(ours: Option<f64>, expected: f64, most: f64) {
    assert!(ours.is_some_and(|ours| (ours - expected).abs() <= most), "{ours:?} and not {expected} within {most}");
}

/// 4 Mb/s of 1250-byte packets: exact to a packet at a constant rate, otherwise within four standard deviations of
/// 4000 Poisson arrivals, or of a hundred exponentially distributed bursts and pauses.
#[test]
fn cross_traffic_has_its_rate_and_its_way() {
    const BOTTLENECK: &str = "bottleneck = '--rate 20mbit --rtt 10ms'";
    for (kind, most) in [
        ("kind = 'cbr', rate = '4mbit'", 0.0011),
        ("kind = 'poisson', rate = '4mbit'", 0.25),
        ("kind = 'on-off', rate = '8mbit', on = '50ms', off = '50ms'", 4.0 * 4.0 / 10.0),
    ] {
        for (way, carried) in [("there", 4.0), ("back", 0.0), ("both", 4.0)] {
            let lines = format!("{BOTTLENECK}\ntraffic = [{{ name = 'c', {kind}, packet = '1250B', way = '{way}' }}]");
            near(measure("11s", &lines, &["carried(1s, 11s)"])[0], carried, if carried > 0.0 { most } else { 0.0 });
        }
    }
    // Traffic from 2 s to 3 s only, and limited by the rate of its access link.
    let line = "name = 'c', kind = 'cbr', rate = '4mbit', packet = '1250B', start = '2s', stop = '3s'";
    let narrow = format!("{BOTTLENECK}\ntraffic = [{{ {line}, left = '--rate 1mbit --queue 1p' }}]");
    let values = measure("5s", &format!("{BOTTLENECK}\ntraffic = [{{ {line} }}]"), &["carried(2s)", "carried(2s, 3s)"]);
    assert_eq!(values[0], Some(0.0));
    near(values[1], 4.0, 0.011);
    near(measure("5s", &narrow, &["carried(2.1s, 2.9s)"])[0], 1.0, 0.013);
}

/// Start times that are not fixed differ between seeds, and are equal for the same seed.
#[test]
fn phases_differ_by_seed() {
    const SPREAD: &str = "flows = [{ name = 'x', congestion = 'cubic', bytes = '100kB', start-spread = '50ms' }]";
    const BESIDE: &str = "flows = [{ name = 'x', congestion = 'cubic', bytes = '100kB' }]\n\
        traffic = [{ name = 'c', kind = 'cbr', rate = '4mbit', packet = '1250B' }]";
    let times = |records: Vec<Record>| records.iter().map(|record| record.values[0].unwrap()).collect::<Vec<_>>();
    let back = BESIDE.replace("packet", "way = 'back', packet");
    for (rate, lines, metric) in
        [("1mbit", SPREAD, "sent(x, 130ms)"), ("10mbit", BESIDE, "completion(x)"), ("10mbit", &back, "completion(x)")]
    {
        let experiment = read("5s", &format!("bottleneck = '--rate {rate} --rtt 100ms'\n{lines}"), &[metric]).unwrap();
        let (first, again) = (times(run(&experiment, 8)), times(run(&experiment, 8)));
        assert_eq!(first, again);
        let is_other = |n: &usize| first[*n] != first[0];
        assert!((1..8).any(|n| is_other(&n)), "{metric}: {first:?}");
    }
}

/// If transfers begin 2 s apart, they end 2 s apart.
#[test]
fn flows_begin_apart() {
    let lines = "bottleneck = '--rate 10mbit --rtt 40ms'\n\
        flows = [{ name = 'x', congestion = 'cubic', count = 3, apart = '2s', bytes = '10kB' }]";
    let times = known("9s", lines, &["time-to(x, 10kB)", "time-to(x, 20kB)", "time-to(x, 30kB)"]);
    near(Some(times[1] - times[0]), 2.0, 1e-6);
    near(Some(times[2] - times[0]), 4.0, 1e-6);
}

/// Slow start with an initial window of two segments of 1448 bytes, an ACK per segment and an RTT of 100 ms: round n
/// delivers 2 * 2^n segments. The first round arrives 150 ms after the SYN, because of the handshake. At 1 Gb/s, a
/// 1500-byte packet takes 12 us, a SYN and a SYN-ACK less.
#[test]
fn time_to_a_byte_is_that_of_slow_start() {
    const FLOW: &str = "bottleneck = '--rate 1gbit --rtt 100ms'\n\
        flows = [{ name = 'x', congestion = 'slow-start=slow-start(iw=2,l=1),avoidance=new-reno,recovery=new-reno', start = '1s', \
        bytes = '1MB', tcp = { segment = 1448, ack-every = 1, paced = false } }]";
    let metrics =
        ["time-to(x, 1B)", "time-to(x, 2896B)", "time-to(x, 2897B)", "time-to(x, 8688B)", "time-to(x, 8689B)"];
    let values = measure("5s", FLOW, &metrics);
    for (value, expected) in values.into_iter().zip([0.15, 0.15, 0.25, 0.25, 0.35]) {
        near(value.map(|value| value - 100e-6), expected, 100e-6);
    }
    assert_eq!(measure("5s", FLOW, &["time-to(x, 2MB)"]), [None]);
    // The ACKs of round n arrive 200 + n * 100 ms after the SYN, and each adds a segment to the window of 2 * 2^n:
    // the last of four ACKs makes it eight at 1.3 s, and the first of eight makes it nine at 1.4 s.
    let windows =
        ["time-to-window(x, 11584B, 1s)", "time-to-window(x, 11585B, 1.1s)", "time-to-window(x, 2896B, 1.3s)"];
    let values = measure("5s", FLOW, &windows);
    near(values[0], 0.3 + 100e-6, 100e-6);
    near(values[1], 0.3 + 100e-6, 100e-6);
    near(values[2], 100e-6, 100e-6);
    assert_eq!(measure("5s", FLOW, &["time-to-window(x, 1GB, 1s)"]), [None]);
    // Windows double per round, so that the window in the fourth round is 16 segments.
    let values =
        measure("5s", FLOW, &["cwnd(x, 1.45s)", "estimate(x, min-rtt)", "estimate(x, nothing)", "rtt(x, max)"]);
    assert_eq!(values[0], Some(16.0 * 1448.0));
    near(values[1], 100.0, 0.1);
    assert_eq!(values[2], None);
    near(values[3], 100.0, 100.0 / 32.0 + 1.0);
}

/// A flow that starts at 1.1 s has an estimate at four of the six full seconds from 0 to 5 s.
#[test]
fn estimates_are_sampled_at_full_seconds() {
    const FLOW: &str = "bottleneck = '--rate 20mbit --rtt 100ms'\n\
        flows = [{ name = 'x', congestion = 'cubic', start = '1.1s' }]";
    let metrics = ["estimate-known(x, min-rtt)", "estimate-known(x, min-rtt, 2s, 5s)", "estimate-known(x, nothing)"];
    assert_eq!(
        measure("5s", FLOW, &metrics).iter().map(|known| known.unwrap().round()).collect::<Vec<_>>(),
        [67.0, 100.0, 0.0]
    );
    let metrics = ["estimate-quantile(x, min-rtt, p5)", "estimate-quantile(x, nothing, p5)"];
    let values = measure("5s", FLOW, &metrics);
    near(values[0], 100.0, 0.5);
    assert_eq!(values[1], None);
}

/// Packets of 1500 bytes at 100 Mb/s are 120 us apart. A card that holds them for less shows the rate of their payloads of
/// 1448 bytes, and one that holds them for 1 ms merges them, so that their gaps are unknown.
#[test]
fn a_card_that_merges_segments_conceals_the_capacity() {
    let measured = |hold: &str| {
        let lines = format!(
            "bottleneck = '--rate 100mbit --rtt 40ms --queue 1bdp'\nflows = [{{ name = 'x', congestion = \
             'copa-cubic', tcp = {{ moderation = true, receive-hold = '{hold}' }} }}]"
        );
        measure(
            "5s",
            &lines,
            &["estimate-known(x, bandwidth, 2s, 5s)", "estimate-quantile(x, bandwidth, median, 2s, 5s)"],
        )
    };
    for hold in ["0s", "100us"] {
        let values = measured(hold);
        assert_eq!(values[0], Some(100.0), "{hold}");
        near(values[1], 100.0 * 1448.0 / 1500.0, 0.1);
    }
    assert_eq!(measured("1ms"), [Some(0.0), None]);
}

/// A transfer that begins and ends between two samples is counted: 100 kB in 70 segments, some of which the link
/// drops.
#[test]
fn a_short_transfer_is_counted() {
    const FLOW: &str = "bottleneck = '--rate 20mbit --rtt 20ms --loss-list-up 10,30'\n\
        flows = [{ name = 'x', congestion = 'cubic', start = '1.1s', bytes = '100kB', tcp = { segment = 1448 } }]";
    let values = measure("5s", FLOW, &["completion(x)", "sent(x)", "resent(x)", "losses(x)"]);
    assert!(values[0].is_some_and(|seconds| seconds < 0.8), "{values:?}");
    assert_eq!(values[1], Some(100_000.0));
    assert!(values[2].is_some_and(|percent| (2.0..5.0).contains(&percent)) && values[3] >= Some(1.0), "{values:?}");
}

/// Slow start with an initial window of two segments, an ACK per segment, an RTT of 100 ms and a threshold of 16
/// segments ends on the last ACK of the third round, three round trips after the handshake, with a window of 15
/// before this ACK. 28 segments have been sent by then: 2 + 4 + 8 in the first rounds, and 14 on the other seven ACKs
/// of this round. The 30th segment, the last of the fourth round, is lost. The ACKs of that round and one of the next
/// increase the window to 17. Recovery then takes one round trip.
#[test]
fn phases_are_as_long_as_rounds() {
    const FLOW: &str = "bottleneck = '--delay 50ms --loss-list-up 32'\n\
        flows = [{ name = 'x', congestion = 'slow-start=slow-start(iw=2,l=1),avoidance=new-reno,recovery=new-reno', bytes = '1MB', \
        tcp = { segment = 1448, ack-every = 1, paced = false, threshold = '23168B', sack = false } }]";
    let metrics = [
        "phase-time(x, slow-start)",
        "phase-window(x, slow-start) / 1448",
        "phase-segments(x, slow-start)",
        "phase-time(x, recovery)",
        "phase-window(x, congestion-avoidance) / 1448",
        "phase-probes(x, recovery)",
    ];
    for (value, expected) in measure("5s", FLOW, &metrics).into_iter().zip([0.3, 15.0, 28.0, 0.1, 17.0, 0.0]) {
        near(value, expected, 1e-9);
    }
    assert_eq!(measure("5s", FLOW, &["phase-time(x, no-such-phase)"]), [None]);
}

/// For a single lost segment, TCP-Peach sends a probe for each segment of the window and ignores half of the answers
/// (Akyildiz et al., 2001): with a window of 65 segments, growth begins on the 34th answer. All answers together
/// restore the window.
#[test]
fn answers_to_probes_are_counted() {
    const FLOW: &str = "bottleneck = '--rate-up 10mbit --delay 275ms --queue-up 50p --aqm-up priority --loss-list-up 130'\n\
        flows = [{ name = 'x', congestion = 'tcp-peach', tcp = { segment = 1000, window = 256000, ack-every = 1, ecn = false, paced = false } }]";
    let metrics = [
        "phase-window(x, congestion-avoidance) / 1000",
        "phase-probes(x, recovery)",
        "answers-to-growth(x)",
        "phase-window(x, window-expanding) / 1000",
    ];
    for (value, expected) in measure("8s", FLOW, &metrics).into_iter().zip([65.0, 65.0, 34.0, 65.0]) {
        near(value, expected, 0.05);
    }
}

/// Without timestamps, a segment carries the twelve bytes of the option as payload (RFC 7323, appendix A). The
/// initial window is ten segments.
#[test]
fn timestamps_can_be_left_out() {
    for (timestamps, segment) in [(true, 1448.0), (false, 1460.0)] {
        let flow = format!(
            "bottleneck = '--delay 50ms'\n\
            flows = [{{ name = 'x', congestion = 'cubic', bytes = '1MB', tcp = {{ segment = 1448, timestamps = {timestamps} }} }}]"
        );
        assert_eq!(measure("5s", &flow, &["cwnd(x, 150ms)"]), [Some(10.0 * segment)], "{timestamps}");
    }
}

/// For 1 s, a packet of 1250 bytes arrives every 5 ms at a link that takes 10 ms per packet. Of 200 packets, the nth
/// waits n times 5 ms. All are sent after 2 s, and the queue's integral is 1250 bytes times the sum of these waiting
/// times.
#[test]
fn a_queue_of_known_content() {
    const CBR: &str = "traffic = [{ name = 'c', kind = 'cbr', rate = '2mbit', packet = '1250B', stop = '1s' }]";
    let lines = format!("bottleneck = '--rate 1mbit --delay 500ms'\n{CBR}");
    let metrics = [
        "delay(max)",
        "delay(median)",
        "delay(p95)",
        "delay(mean)",
        "queue-mean()",
        "utilisation(1s, 1.5s)",
        "utilisation()",
        "queue-max()",
        "delay(min, 1.1s, 3s)",
        "queue-mean(2.5s, 4s)",
    ];
    let values = measure("4s", &lines, &metrics);
    let about = |value: Option<f64>, expected: f64| near(value, expected * (1.0 + 1.0 / 64.0), expected / 60.0);
    near(values[0], 995.0, 1e-6);
    about(values[1], 5.0 * 99.0);
    about(values[2], 5.0 * 189.0);
    near(values[3], 5.0 * 199.0 / 2.0, 1e-6);
    near(values[4], 1250.0 * 0.005 * (200.0 * 199.0 / 2.0) / 4.0, 1e-3);
    near(values[5], 100.0, 1e-9);
    near(values[6], 50.0, 1e-9);
    // The 200th packet arrives at 995 ms and some microseconds, when the transmission of 100 packets has begun.
    near(values[7], 1250.0 * 100.0, 1.0);
    about(values[8], 5.0 * 110.0);
    assert_eq!(values[9], Some(0.0));
    // A queue of ten packets is sufficient until about the twentieth. From then on, half of the arriving packets are
    // dropped.
    let lines = format!("bottleneck = '--rate 1mbit --queue 10p'\n{CBR}");
    let metrics = ["first-drop()", "first-drop(random)", "lost(queue-full)", "lost(random)", "lost(low)", "dropped()"];
    let values = measure("3s", &lines, &metrics);
    // Before packet n arrives, the transmission of floor(n / 2) + 1 packets has begun. The difference is 10 first for
    // n = 21, but at n = 22 the queue advances first.
    near(values[0], 21.0 * 0.005 + 0.0025, 0.0026);
    assert_eq!((values[1], values[3], values[4]), (None, Some(0.0), None));
    near(values[2], 100.0 * 90.0 / 200.0, 0.51);
    assert_eq!(values[2], values[5]);
}

/// 5 % random loss and an unlimited queue: 5 % of 10,000 packets, within four standard deviations.
#[test]
fn losses_are_told_apart() {
    let lines = "bottleneck = '--rate 20mbit --loss-up 5%'\n\
        traffic = [{ name = 'c', kind = 'cbr', rate = '10mbit', packet = '1250B', stop = '10s', dscp = '1' }]";
    let metrics = ["lost(random)", "lost(queue-full)", "lost(low)", "lost(low, random)", "lost(normal)", "delay(max)"];
    let values = measure("11s", lines, &metrics);
    near(values[0], 5.0, 4.0 * 0.22);
    assert_eq!((values[1], values[2], values[3]), (Some(0.0), values[0], values[0]));
    assert_eq!((values[4], values[5]), (None, Some(0.0)));
}

/// Shares of two flows on a link that one of them had to itself before.
#[test]
fn shares_and_convergence() {
    let flow = |name: &str, start: &str| {
        format!("{{ name = '{name}', congestion = 'cubic', start = '{start}', tcp = {{ window = 60000 }} }}")
    };
    // The windows together are less than the BDP, so both flows get the same rate at once, the second one from its
    // third round on.
    let lines =
        format!("bottleneck = '--rate 100mbit --rtt 100ms'\nflows = [{}, {}]", flow("a", "0s"), flow("b", "2.5s"));
    let metrics = ["share(a, b, 5s, 15s)", "share(a, b, 0s, 2s)", "convergence(a, b)", "oscillation(a, 5s)", "jain(a)"];
    let values = measure("15s", &lines, &metrics);
    near(values[0], 0.5, 0.002);
    assert_eq!((values[1], values[4]), (Some(1.0), Some(1.0)));
    near(values[2], 0.5, 1e-9);
    near(values[3], 0.0, 0.02);
    // 60 kB per 100 ms, except for two segments that do not fit, are 4.57 to 4.8 Mb/s. Nothing was retransmitted.
    let values = measure(
        "15s",
        &lines,
        &["goodput(a, 5s, 15s)", "spurious(a)", "probe-overhead(a)", "undone(a)", "overshoot(a)"],
    );
    near(values[0], 4.685, 0.115);
    assert_eq!(values[1..], [Some(0.0), Some(0.0), None, None]);
}

/// Slow start over a short queue: the measures of the first drops are consistent with each other.
#[test]
fn the_first_drop_and_the_overshoot() {
    let lines = "bottleneck = '--rate 10mbit --rtt 100ms --queue 20p'\n\
        flows = [{ name = 'x', congestion = 'slow-start=slow-start(iw=2,l=1),avoidance=new-reno,recovery=new-reno', bytes = '3MB', \
        tcp = { ecn = false, ack-every = 1 } }]\n\
        [series]\ndrops = { value = 'drops()', unit = '' }\n\
        window = { value = 'cwnd(x)', unit = 'bytes', every = '1ms' }\n\
        before = { value = 'rtt-before-loss(x)', unit = 's' }\n\
        resent = { value = 'resent(x)', unit = 'bytes' }\n";
    let metrics = ["first-drop()", "cwnd-at-first-drop(x)", "overshoot(x)", "queue-max()", "losses(x)", "timeouts(x)"];
    let record = run(&read("10s", lines, &metrics).unwrap(), 1).remove(0);
    let [first, window, overshoot, most] = [0, 1, 2, 3].map(|metric: usize| record.values[metric].unwrap());
    let series = |name: &str| &record.series[name];
    assert_eq!(series("drops")[0], (first, 1.0));
    let then = series("window").iter().rfind(|(at, _)| *at <= first).unwrap().1;
    assert!((then..=then + 2.0 * 1448.0).contains(&window), "{then} {window}");
    // Slow start sends up to twice the capacity of path and queue: the BDP is 83 segments, and the queue 20.
    let (at, before) = series("before")[0];
    let dropped_by_then = series("drops").iter().take_while(|(when, _)| *when < at).count();
    assert_eq!(overshoot, dropped_by_then as f64);
    assert!(overshoot > 1.0 && (29_000.0..=30_000.0).contains(&most), "{overshoot} {most}");
    // Before a loss, the queue is full: 20 packets of 1.2 ms in addition to 100 ms, and the packet itself.
    near(Some(before), 0.1 + 21.0 * 0.0012, 0.003);
    assert!(series("resent").len() as f64 >= overshoot);
    // One per episode, the first of which has many losses.
    let episodes = [4, 5].map(|metric: usize| record.values[metric].unwrap()).iter().sum::<f64>();
    assert_eq!(series("before").len() as f64, episodes);
}

/// Each kind of series, compared with metrics of the same run.
#[test]
fn series_agree_with_metrics() {
    let lines = "bottleneck = '--rate 10mbit --rtt 100ms --queue 1bdp'\n\
        flows = [{ name = 'x', congestion = 'cubic', bytes = '5MB', start = '250ms', tcp = { segment = 1448 } }]\n\
        [series]\nread = { value = 'read(x)', unit = 'bytes', every = '500ms' }\n\
        goodput = { value = 'goodput(x)', unit = 'Mb/s' }\n\
        queue = { value = 'queue()', unit = 'bytes', every = '10ms' }\n\
        segments = { value = 'segments(x)', unit = 'bytes' }\n\
        acks = { value = 'acks(x)', unit = 'bytes' }\n\
        rtt = { value = 'rtt(x)', unit = 's' }\n\
        few = { value = 'rtt(x)', unit = 's', every = '1s' }\n\
        srtt = { value = 'srtt(x)', unit = 's', every = '100ms', runs = 1 }\n\
        rate = { value = 'estimate(x, delivery-rate)', unit = 'Mb/s', every = '100ms' }\n\
        flight = { value = 'in-flight(x)', unit = 'bytes', every = '100ms', runs = 0 }";
    let metrics = ["completion(x)", "rtt(x, max)", "rtt(x, mean)", "queue-max()", "goodput(x, 2s, 3s)"];
    let mut records = run(&read("10s", lines, &metrics).unwrap(), 2);
    assert!(records[0].series.contains_key("srtt") && !records[1].series.contains_key("srtt"));
    let record = records.remove(0);
    assert!(!record.series.contains_key("flight"));
    let series = |name: &str| &record.series[name][..];
    let values = |name: &str| series(name).iter().map(|(_, value)| *value);
    assert_eq!(series("read").last(), Some(&(10.0, 5e6)));
    assert_eq!((series("read").len(), series("read")[0]), (21, (0.0, 0.0)));
    assert_eq!(series("goodput").iter().find(|(at, _)| *at == 3.0).unwrap().1, record.values[4].unwrap());
    // 5 MB in segments of 1448 bytes, the last of which is shorter. All are acknowledged, with one more for the FIN.
    let offsets: Vec<f64> = values("segments").collect();
    assert_eq!(offsets, (0..3454).map(|n| 1448.0 * f64::from(n)).collect::<Vec<_>>());
    near(Some(series("segments")[0].0), 0.25 + 0.1, 0.001);
    assert_eq!(values("acks").fold(0.0, f64::max), 5e6 + 1.0);
    let longest = values("rtt").fold(0.0, f64::max) * 1e3;
    near(record.values[1], longest, 1e-6);
    let mean = values("rtt").sum::<f64>() / series("rtt").len() as f64;
    near(record.values[2], mean * 1e3, 1e-3);
    assert!((5..=10).contains(&series("few").len()) && series("few").windows(2).all(|two| two[1].0 - two[0].0 >= 1.0));
    let most = values("queue").fold(0.0, f64::max);
    assert!(most > 0.9 * record.values[3].unwrap() && most <= record.values[3].unwrap());
    assert!(values("srtt").all(|srtt| (0.1..0.25).contains(&srtt)));
    let (_, rate) = series("rate")[30];
    near(Some(rate), 10.0 * 1448.0 / 1500.0, 0.3);
}

/// The documentation describes each measure and each kind of series, and no others.
#[test]
fn all_that_can_be_measured_is_documented() {
    let text = include_str!("../../../../docs/lab.md");
    let described = |heading: &str| -> BTreeSet<String> {
        let (_, section) = text.split_once(heading).unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let row = |line: &str| {
            let (usage, about) = line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
            assert!(about.len() > 10, "{line}");
            Some(usage.replace("\\|", "|"))
        };
        section.lines().filter_map(row).collect()
    };
    let measures = measures::all().map(|measure| measure.usage.to_owned());
    assert_eq!(described("## What can be measured"), measures.collect());
    let of_series = series::usages().map(str::to_owned);
    assert_eq!(described("## What can be recorded"), of_series.collect());
}

/// A second flow waits for the end of the first one. On hosts with a path cache, NewReno's second slow start ends
/// below the window that overflowed the queue. Without the cache, it overflows the queue again.
#[test]
fn flows_follow_each_other_and_remember() {
    let lines = |cache: bool| {
        format!(
            "bottleneck = '--rate 20mbit --rtt 100ms --queue 1bdp'\n\
             [[flows]]\nname = 'a'\ncongestion = 'slow-start=slow-start,avoidance=new-reno'\nbytes = '30MB'\n\
             tcp = {{ cache = {cache}, ecn = false }}\n\
             [[flows]]\nname = 'b'\ncongestion = 'slow-start=slow-start,avoidance=new-reno'\nbytes = '4MB'\n\
             after = 'a'\nhosts = 'a'\nstart = '500ms'\n\
             [series]\nsegments = {{ value = 'segments(b)', unit = '' }}\nfirst = {{ value = 'segments(a)', unit = '' }}"
        )
    };
    let metrics = ["completion(a)", "resent(b)", "completion(b)", "resent(a)"];
    let [cached, fresh] = [true, false].map(|cache| run(&read("60s", &lines(cache), &metrics).unwrap(), 1).remove(0));
    let value = |record: &Record, metric: usize| record.values[metric].unwrap();
    assert!(
        value(&fresh, 1) > 0.0 && value(&cached, 1) == 0.0 && value(&cached, 3) > 0.0,
        "{:?} {:?}",
        cached.values,
        fresh.values
    );
    assert!(value(&cached, 2) > 4e6 * 8.0 / 20e6);
    // The second flow begins half a second after the last byte of the first one, plus the handshake.
    let (began, offset) = cached.series["segments"][0];
    near(Some(began), value(&cached, 0) + 0.5 + 0.1, 0.001);
    assert_eq!((offset, cached.series["segments"].last().unwrap().1 < 4e6), (0.0, true));
    assert!(cached.series["first"].last().unwrap().0 < began);
}

/// With 4 Mb/s of CBR traffic on a 10 Mb/s link, a flow gets six tenths of its goodput alone, which is a harm of 0.4.
#[test]
fn metrics_relate_cells() {
    let text = |relative: &str| {
        format!(
            "id = 'a'\ntitle = ''\nsource = ''\nruns = 1\nquick-runs = 1\nduration = '20s'\n\
             bottleneck = '--rate 10mbit --rtt 40ms --queue 2bdp'\n\
             axes = [{{ name = 'udp', choices = ['0mbit', '4mbit'] }}, {{ name = 'controller', choices = ['cubic', 'new-reno'] }}]\n\
             flows = [{{ name = 'x', congestion = '{{controller}}' }}]\n\
             traffic = [{{ name = 'c', kind = 'cbr', rate = '{{udp}}', packet = '1500B' }}]\n\
             [metrics]\nm = {{ value = 'goodput(x, 5s, 20s)', unit = '', {relative} }}\n\
             [[rows]]\nid = '1'\nmetric = 'm'\nat = {{ controller = 'new-reno' }}\nover = 'udp'\norder = ['0mbit', '4mbit']\nrule = 'decreasing'"
        )
    };
    for (form, alone, beside) in [("", 1.0, 0.6), (", form = 'harm'", 0.0, 0.4)] {
        let experiment =
            Experiment::read("a.toml", &text(&format!("relative-to = {{ udp = '0mbit' }}{form}"))).unwrap();
        let row = judge::judge(&experiment, &run(&experiment, 1), 1).remove(0);
        let Numbers::Many(ours) = row.ours else { panic!("{row:?}") };
        assert_eq!(ours[0], Some(alone));
        near(ours[1], beside, 0.05);
    }
}
