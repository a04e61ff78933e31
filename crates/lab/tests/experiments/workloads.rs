//! Workloads of short-lived connections, compared with values computed from rates, sizes and delays.

use crate::written::{known, near, read};

/// With an initial window of ten segments, three round trips of slow start carry 10, 20 and 40 segments. A response
/// of 70 segments thus takes three round trips from the request, and one of 71 takes four. With the approval of all
/// routers, all segments are sent at the requested rate in one round trip.
#[test]
fn responses_take_the_round_trips_of_slow_start() {
    let respond = |segments: u64, congestion: &str, router: &str| {
        let lines = format!(
            "bottleneck = '--rate 1gbit --rtt 60ms {router}'\n\
             [[workloads]]\nname = 'w'\nkind = 'http'\nload = '0.1%'\nresponse = '{}B'\ncongestion = '{congestion}'\n\
             left = ['--delay 5ms {router}']\nright = ['--delay 15ms {router}']\ntcp = {{ segment = 1448, paced = false }}",
            segments * 1448
        );
        known("20s", &lines, &["epoch(w, min)", "epoch(w, max)", "epochs(w)"])
    };
    // Forty packets of 1500 bytes take half a millisecond at 1 Gb/s.
    for (segments, round_trips) in [(10, 1.0), (11, 2.0), (30, 2.0), (70, 3.0), (71, 4.0)] {
        let [least, most, count] = respond(segments, "slow-start(iw=10)+new-reno", "")[..] else { unreachable!() };
        near(least, round_trips * 0.1, 0.002);
        near(most, round_trips * 0.1, 0.002);
        assert!(count > 10.0);
    }
    let asked = respond(70, "quick-start(rate=20480)+new-reno", "--router quick-start");
    near(asked[1], 0.1 + 69.0 * 1500.0 * 8.0 / 20.48e6, 0.005);
    let denied = respond(70, "quick-start(rate=20480)+slow-start(iw=10)+new-reno", "");
    near(denied[1], 0.3, 0.002);
}

/// 30 % of 10 Mb/s in responses of 20 kB are 18.75 responses per second, within four standard deviations of a Poisson
/// process. Connections with several exchanges have the same load, but a larger variance in their number and spacing.
#[test]
fn the_bottleneck_has_its_load() {
    for (kind, most) in [("http", 4.0), ("vectors", 10.0)] {
        let lines = format!(
            "bottleneck = '--rate 10mbit --rtt 40ms'\n[[workloads]]\nname = 'w'\nkind = '{kind}'\nload = '30%'\nresponse = '20kB'\n\
             congestion = 'cubic'\npairs = 3\nleft = ['--delay 0ms', '--delay 5ms']\nstart = '1s'\nstop = '61s'"
        );
        let metrics = [
            "epochs(w)",
            "epochs(w, 0s, 1s)",
            "unfinished(w)",
            "epochs(w, 1s, 20s) + epochs(w, 20s, 80s)",
            "offered(w, 0s, 80s)",
        ];
        let [count, before, open, parts, offered] = known("80s", &lines, &metrics)[..] else { unreachable!() };
        near(count, 60.0 * 18.75, most * f64::sqrt(60.0 * 18.75));
        assert_eq!((before, open, parts), (0.0, 0.0, count));
        near(offered, count * 20e3 * 8e-6 / 80.0, 1e-9);
    }
}

/// Size bounds apply to responses, the first included and the second excluded. Half of the sizes of a Pareto
/// distribution between 2239 bytes and 10 MB are below 4203 bytes. Arrivals do not depend on the outcome of earlier
/// connections, and each workload has its own arrivals.
#[test]
fn epochs_are_told_apart_by_size_and_name() {
    let lines = |controller: &str| {
        format!(
            "bottleneck = '--rate 100mbit --rtt 10ms'\n[[workloads]]\nname = 'w'\nkind = 'http'\nload = '10%'\ncongestion = '{controller}'\n\
             [[workloads]]\nname = 'v'\nkind = 'http'\nload = '10%'\ncongestion = 'cubic'"
        )
    };
    let metrics = [
        "epochs(w)",
        "epochs(w, 0B, 2239B)",
        "epochs(w, 0B, 4203B) / epochs(w)",
        "epochs(v)",
        "epochs(w, 0B, 10kB) + epochs(w, 10kB, 11MB)",
    ];
    let counts = known("40s", &lines("cubic"), &metrics);
    // 89 per second, 3571 in total.
    near(counts[0], 3571.0, 4.0 * f64::sqrt(3571.0));
    assert_eq!((counts[1], counts[4]), (0.0, counts[0]));
    near(counts[2], 0.5, 4.0 * 0.5 / f64::sqrt(3571.0));
    assert_ne!(counts[0], counts[3]);
    let other = known("40s", &lines("new-reno"), &["epochs(w) + unfinished(w)", "epochs(v) + unfinished(v)"]);
    let all = known("40s", &lines("cubic"), &["epochs(w) + unfinished(w)", "epochs(v) + unfinished(v)"]);
    assert_eq!(other, all);
}

#[test]
fn faults_are_named() {
    const SOUND: &str =
        "bottleneck = '--rate 10mbit'\n[[workloads]]\nname = 'w'\nkind = 'http'\nload = '30%'\ncongestion = 'cubic'\n";
    let fault = |from: &str, to: &str, metric: &str| read("9s", &SOUND.replace(from, to), &[metric]).unwrap_err();
    assert!(read("9s", SOUND, &["epoch(w, p95, 1kB, 10kB, 1s, 2s)"]).is_ok());
    for (from, to, metric, told) in [
        ("", "", "epoch(x, mean)", "metrics.value: there is no workload \"x\"; there are: w"),
        ("", "", "epoch(w)", "epoch is written epoch(WORKLOAD, QUANTILE[, FROM_BYTES, TO_BYTES][, FROM][, TO])"),
        ("", "", "epochs(w, 1kB)", "epochs is written epochs(WORKLOAD[, FROM_BYTES, TO_BYTES][, FROM][, TO])"),
        ("'http'", "'ftp'", "epochs(w)", "a.toml:11: workloads.kind: \"ftp\" is not a kind; there are: http, vectors"),
        ("--rate 10mbit", "--rtt 1ms", "epochs(w)", "workloads.load: the bottleneck has no constant --rate"),
        ("'30%'", "'much'", "epochs(w)", "workloads.load: "),
        ("'cubic'", "'qubic'", "epochs(w)", "workloads.congestion: "),
        ("'cubic'", "'cubic'\npairs = 0", "epochs(w)", "workloads.pairs: 0 pairs of hosts are not within 1 to 10000"),
        ("'cubic'", "'cubic'\nstop = '0s'", "epochs(w)", "workloads.stop: it ends before it begins"),
        ("'cubic'", "'cubic'\ntcp = { segment = 'x' }", "epochs(w)", "workloads.tcp.segment: "),
    ] {
        let fault = fault(from, to, metric);
        assert!(fault.contains(told), "{fault}");
    }
}
