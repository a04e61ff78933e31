//! Hosts of papers.

use longhaul_lab::experiment::Experiment;
use longhaul_lab::runner;

/// Returns the congestion window in segments after one, two and three round trips of 100 ms over a path without a rate.
fn windows(host: &str, congestion: &str, segment: u32) -> Vec<Option<f64>> {
    let text = format!(
        r#"id = "hosts"
title = ""
source = "nobody"
runs = 1
quick-runs = 1
duration = "1s"
bottleneck = "--delay 50ms"
host = "{host}"

[[flows]]
name = "x"
congestion = "{congestion}"
bytes = "1MB"

[metrics]
a = {{ value = "cwnd(x, 235ms) / {segment}", unit = "segments" }}
b = {{ value = "cwnd(x, 335ms) / {segment}", unit = "segments" }}
c = {{ value = "cwnd(x, 435ms) / {segment}", unit = "segments" }}
"#
    );
    runner::run(&Experiment::read("hosts.toml", &text).unwrap(), 1, 1).unwrap().remove(0).values
}

/// By hand. Each ACK opens the window by a segment: for each segment in ns-2, and for each second one in FreeBSD, whose
/// ninth segment waits for the timer. Linux acknowledges the first 16 segments one by one: 3, 6 and 7 of 12, whose other 5
/// cause two ACKs.
#[test]
fn windows_open_as_on_the_papers_hosts() {
    for (host, congestion, segment, expected) in [
        ("ns-2", "avoidance=new-reno", 1000, [2.0, 4.0, 8.0]),
        ("ns-2", "slow-start=slow-start(iw=2)", 1000, [4.0, 8.0, 16.0]),
        ("freebsd-4.1", "avoidance=new-reno", 1448, [6.0, 9.0, 13.0]),
        ("linux-2.6.18", "startup=none", 1448, [6.0, 12.0, 21.0]),
    ] {
        assert_eq!(windows(host, congestion, segment), expected.map(Some), "{host}, {congestion}");
    }
}
