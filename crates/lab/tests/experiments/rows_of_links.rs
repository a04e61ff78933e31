//! Bottlenecks of several links, compared with values computed from rates, sizes and delays.

use crate::written::{known, measure, near, read, run};

const THREE: &str =
    "bottleneck = ['--rate 20mbit --delay 10ms', '--rate 5mbit --delay 20ms', '--rate 10mbit --delay 5ms']";

/// A single flow gets the rate of the slowest link on its way, for packets of 1500 bytes with 1448 bytes of data. Its
/// minimum RTT is the sum of the delays and of the transmission times of a packet, which are 0.6, 2.4 and 1.2 ms;
/// ACKs of about 70 bytes take at most 0.2 ms.
#[test]
fn a_flow_has_the_slowest_rate_and_the_sum_of_delays() {
    for (hops, rate, rtt) in [
        ("", 5.0, 74.2),
        ("hops = '1-3', ", 5.0, 74.2),
        ("hops = '2-3', ", 5.0, 53.6),
        ("hops = 3, ", 10.0, 11.2),
        ("hops = 1, ", 20.0, 20.6),
    ] {
        let lines =
            format!("{THREE}\nflows = [{{ name = 'x', {hops}congestion = 'vegas', tcp = {{ segment = 1448 }} }}]");
        let values = known("20s", &lines, &["goodput(x, 10s, 20s)", "rtt-least(x)"]);
        near(values[0], rate * 1448.0 / 1500.0, 0.01 * rate);
        near(values[1], rtt + 0.1, 0.15);
    }
}

/// 4 Mb/s over the first two links and 3 Mb/s over the last two share the second link.
#[test]
fn each_link_carries_what_crosses_it() {
    let lines = format!(
        "{}\n[[traffic]]\nname = 'a'\nkind = 'cbr'\nrate = '4mbit'\npacket = '1250B'\nhops = '1-2'\n\
         [[traffic]]\nname = 'b'\nkind = 'cbr'\nrate = '3mbit'\npacket = '1250B'\nhops = '2-3'",
        THREE.replace("5mbit", "8mbit")
    );
    let metrics =
        ["carried(1s, 11s)", "carried(link-2, 1s, 11s)", "carried(link-3, 1s, 11s)", "utilisation(link-2, 1s, 11s)"];
    let [first, second, third, utilisation] = known("11s", &lines, &metrics)[..] else { unreachable!() };
    near(first, 4.0, 0.0021);
    near(second, 7.0, 0.0021);
    near(third, 3.0, 0.0021);
    near(utilisation, 100.0 * 7.0 / 8.0, 0.03);
}

/// A long flow and one more on each link fill the link; together, they read what it carries.
#[test]
fn flows_of_a_parking_lot_fill_each_link() {
    let link = "'--rate 10mbit --delay 10ms --queue 50p'";
    let flow = |name: &str, hops: &str| {
        format!("[[flows]]\nname = '{name}'\nhops = '{hops}'\ncongestion = 'new-reno'\ntcp = {{ segment = 1448 }}\n")
    };
    let flows = [flow("long", "1-3"), flow("a", "1"), flow("b", "2"), flow("c", "3")].concat();
    let metrics = [
        "goodput(long, 10s, 60s)",
        "goodput(a, 10s, 60s)",
        "goodput(b, 10s, 60s)",
        "goodput(c, 10s, 60s)",
        "carried(link-1, 10s, 60s)",
        "carried(link-2, 10s, 60s)",
        "carried(link-3, 10s, 60s)",
    ];
    let values = known("60s", &format!("bottleneck = [{link}, {link}, {link}]\n{flows}"), &metrics);
    assert!(values[0] > 0.1, "{values:?}");
    for (short, carried) in values[1..4].iter().zip(&values[4..]) {
        near(*carried, 10.0, 0.2);
        near((values[0] + short) * 1500.0 / 1448.0, *carried, 0.1);
        // The long flow sees losses on three links.
        assert!(*short > values[0], "{values:?}");
    }
}

/// If losses are random, the rate of a flow is inversely proportional to its RTT and to the square root of the loss
/// rate. With three times the loss rate and r times the RTT, a long flow gets 1 / (1 + sqrt(3) r) of each link. CoDel
/// keeps queues short, so that r is little more than 1.
#[test]
fn a_long_flow_has_what_the_root_law_leaves_it() {
    let link = "'--rate 10mbit --delay 10ms --queue 200p --aqm codel'";
    let flow = |name: &str, hops: &str, delay: &str| {
        format!(
            "[[flows]]\nname = '{name}'\nhops = '{hops}'\ncongestion = 'new-reno'\nleft = '--delay {delay}'\nright = '--delay {delay}'\n"
        )
    };
    let short = ["1", "2", "3"].map(|hop| flow(&format!("s{hop}"), hop, "10ms")).concat();
    let lines = format!("bottleneck = [{link}, {link}, {link}]\n{}{short}", flow("long", "1-3", "0ms"));
    let metrics = ["goodput(long, 50s, 300s)", "goodput(s2, 50s, 300s)", "rtt(long, mean)", "rtt(s2, mean)"];
    let [long, short, far, near_by] = known("300s", &lines, &metrics)[..] else { unreachable!() };
    let expected = 1.0 / (1.0 + f64::sqrt(3.0) * far / near_by);
    near(long / (long + short), expected, 0.15 * expected);
}

/// 2 Mb/s arrive over a link of 10 Mb/s at one of 1 Mb/s with a queue of ten packets: half of the packets are dropped
/// there, and the others wait for at most ten packets of 10 ms each. On the first link, none waits.
#[test]
fn measures_of_a_link_are_of_that_link() {
    let lines = "bottleneck = ['--rate 10mbit --delay 5ms', '--rate 1mbit --delay 5ms --queue 10p']\n\
        [[traffic]]\nname = 'c'\nkind = 'cbr'\nrate = '2mbit'\npacket = '1250B'\n\
        [series]\nqueue = { value = 'queue(link-2)', unit = 'B' }\nfirst = { value = 'queue()', unit = 'B' }\n\
        drops = { value = 'drops(link-2)', unit = '' }";
    let metrics = [
        "dropped()",
        "dropped(link-2)",
        "lost(link-2, queue-full, 1s, 9s)",
        "drops(link-2, 1s, 9s)",
        "delay(link-2, max)",
        "delay(max)",
        "queue-max(link-2)",
        "queue-max(link-1)",
        "first-drop(link-2)",
        "queue-mean(link-2, 2s, 9s)",
    ];
    let record = run(&read("9s", lines, &metrics).unwrap(), 1).remove(0);
    let values: Vec<f64> = record.values.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    // A packet that passes through an empty queue counts as queued.
    assert_eq!((values[0], values[5], values[7]), (0.0, 0.0, 1250.0));
    // 900 of 1800 packets have been sent, and ten are queued.
    near(values[1], 100.0 * 890.0 / 1800.0, 0.2);
    near(values[2], 50.0, 0.1);
    near(values[3], 8.0 * 100.0, 1.0);
    near(values[4], 97.5, 2.6);
    assert_eq!(values[6], 12_500.0);
    // The 22nd packet is dropped, as with a single queue, but 6 ms later.
    near(values[8], 21.0 * 0.005 + 0.0085, 0.0026);
    near(values[9], 12_500.0, 1250.0);
    assert!(record.series["first"].iter().all(|(_, bytes)| *bytes == 0.0));
    assert!(record.series["queue"][2..].iter().all(|(_, bytes)| *bytes >= 11_250.0));
    near(record.series["drops"].len() as f64, 890.0, 3.0);
    assert!(measure("1s", lines, &["first-drop()"])[0].is_none());
}

/// 30 % of the second link's 10 Mb/s in responses of 20 kB are 18.75 per second, within four standard deviations of a
/// Poisson process.
#[test]
fn a_load_is_of_the_first_link_that_is_crossed() {
    let lines = "bottleneck = ['--rate 100mbit --delay 1ms', '--rate 10mbit --delay 1ms']\n\
        [[workloads]]\nname = 'w'\nkind = 'http'\nload = '30%'\nresponse = '20kB'\ncongestion = 'cubic'\nhops = 2";
    let [count, first, second] = known("61s", lines, &["epochs(w, 0s, 60s)", "carried()", "carried(link-2)"])[..]
    else {
        unreachable!()
    };
    near(count, 60.0 * 18.75, 4.0 * f64::sqrt(60.0 * 18.75));
    assert_eq!(first, 0.0);
    near(second, count * 20_000.0 * 8e-6 / 61.0 * 1500.0 / 1448.0, 0.15);
}

/// A probe measures the narrowest of all links.
#[test]
fn tools_measure_the_whole_row() {
    let lines = format!("{THREE}\nprobes = [{{ name = 't', method = 'capprobe' }}]");
    near(known("60s", &lines, &["capacity(t)"])[0], 5.0, 0.05);
}

#[test]
fn one_link_is_one_written_as_a_row() {
    let flow = "flows = [{ name = 'x', congestion = 'cubic' }]";
    let metrics = ["goodput(x)", "dropped()", "delay(mean)", "resent(x)"];
    let link = "'--rate 10mbit --rtt 40ms --queue 20p --loss 0.1%'";
    let one = measure("20s", &format!("bottleneck = {link}\n{flow}"), &metrics);
    assert_eq!(one, measure("20s", &format!("bottleneck = [{link}]\n{flow}"), &metrics));
}

/// Thirty sources of 0.25 Mb/s that start 0.2 s apart increase the rate in steps of 0.25 Mb/s.
#[test]
fn sources_that_begin_apart_are_steps() {
    let lines = "bottleneck = '--rate 20mbit --rtt 10ms'\n\
        [[traffic]]\nname = 'c'\nkind = 'cbr'\nrate = '250kbit'\npacket = '125B'\ncount = 30\napart = '200ms'\nstart = '1s'";
    let metrics = ["carried(1s)", "carried(1.01s, 1.2s)", "carried(3.01s, 3.2s)", "carried(7s, 9s)", "drops()"];
    let values = known("9s", lines, &metrics);
    // Each source sends a packet every 4 ms.
    near(values[0], 0.0, 0.0);
    near(values[1], 0.25, 0.25 * 4.0 / 190.0);
    near(values[2], 11.0 * 0.25, 11.0 * 0.25 * 4.0 / 190.0);
    near(values[3], 7.5, 7.5 * 4.0 / 2000.0);
    assert_eq!(values[4], 0.0);
}

#[test]
fn faults_are_named() {
    const SOUND: &str = "bottleneck = [\n  '--rate 10mbit',\n  '--rate 10mbit --rtt 5ms',\n]\n[[flows]]\nname = 'x'\ncongestion = 'cubic'\nhops = '1-2'\n\
        [[traffic]]\nname = 'c'\nkind = 'cbr'\nrate = '1mbit'\npacket = '99B'\nhops = 2\n";
    let fault = |from: &str, to: &str, metric: &str| read("9s", &SOUND.replacen(from, to, 1), &[metric]).unwrap_err();
    assert!(read("9s", SOUND, &["dropped(link-2, 1s)"]).is_ok());
    for (from, to, metric, told) in [
        ("--rtt 5ms", "--rtt 5", "dropped()", "a.toml:10: bottleneck: --rtt \"5\" has no unit"),
        (
            "'1-2'",
            "'1-3'",
            "dropped()",
            "a.toml:15: flows.hops: \"1-3\" is not within the 2 links of the bottleneck, which are numbered from 1",
        ),
        ("'1-2'", "0", "dropped()", "a.toml:15: flows.hops: \"0\" is not within the 2 links"),
        ("'1-2'", "'2-1'", "dropped()", "flows.hops: \"2-1\" is not within the 2 links"),
        ("'1-2'", "'all'", "dropped()", "flows.hops: \"all\" is not a link or range of links; write it as 2 or 1-3"),
        ("hops = 2", "hops = 3", "dropped()", "a.toml:21: traffic.hops: \"3\" is not within the 2 links"),
        ("hops = 2", "count = 0", "dropped()", "traffic.count: 0 is not within 1 to 1000"),
        ("", "", "dropped(link-3)", "metrics.value: there is no link-3; the bottleneck has 2"),
        ("", "", "dropped(link-0)", "metrics.value: \"link-0\" is not a link; links are numbered from link-1"),
        ("", "", "delay(mean, link-2)", "delay is written delay([link-N, ]QUANTILE[, FROM][, TO])"),
        ("--rate 10mbit --rtt", "--rtt", "utilisation(link-2)", "utilisation of a bottleneck without --rate"),
        (
            "[\n  '--rate 10mbit',\n  '--rate 10mbit --rtt 5ms',\n]",
            "[]",
            "dropped()",
            "a.toml:8: bottleneck: 0 links are not within 1 to 16",
        ),
        ("[\n  '--rate 10mbit',\n  '--rate 10mbit --rtt 5ms',\n]", "3", "dropped()", "a.toml:8: "),
    ] {
        let fault = fault(from, to, metric);
        assert!(fault.contains(told), "{fault}");
    }
}
