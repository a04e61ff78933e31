//! Estimates of probes and senders, compared with the emulated path.

use crate::written::{measure, read};

#[track_caller]
fn within(ours: Option<f64>, least: f64, most: f64) {
    assert!(ours.is_some_and(|ours| (least..=most).contains(&ours)), "{ours:?} and not within {least} to {most}");
}

/// On a 20 Mb/s link with 8 Mb/s of cross traffic, CapProbe finds the capacity and Pathload the available bandwidth.
/// Both report their duration.
#[test]
fn tools_find_the_rate_and_what_is_left_of_it() {
    let lines = "bottleneck = '--rate 20mbit --rtt 40ms --queue 100kB'\n\
        traffic = [{ name = 'others', kind = 'poisson', rate = '8mbit', packet = '500B' }]\n\
        probes = [{ name = 'one', method = 'capprobe', start = '1s', left = '--rate 1gbit' }, { name = 'two', method = 'pathload' }]";
    let metrics = ["capacity(one)", "converged(one)", "available-low(two)", "available-high(two)", "probed(two)"];
    let values = measure("60s", lines, &metrics);
    within(values[0], 19.0, 21.0);
    // Two sizes with 40 pairs each, sent at least one round trip apart.
    within(values[1], 1.0, 20.0);
    within(values[2], 7.0, 12.0);
    within(values[3], 12.0, 16.0);
    within(values[4], 1.0, 60.0);
    let alone = measure("60s", &lines.replace("8mbit", "0mbit"), &metrics);
    within(alone[2], 18.0, 20.5);
}

/// A single BBE flow over 20 Mb/s, 50 ms and a queue of 25 kB, which is 10 ms: at each loss the queue is full, and
/// the window is halved.
#[test]
fn losses_by_overflow_come_at_the_round_trip_of_a_full_queue() {
    let lines = "bottleneck = '--rate 20mbit --rtt 50ms --queue 25kB'\n\
        flows = [{ name = 'x', congestion = 'westwood-bbe', tcp = { pairs = true, ack-every = 1 } }]";
    let values = measure(
        "60s",
        lines,
        &[
            "losses(x)",
            "lost-within(x, 58ms, 61ms)",
            "cut-congested(x)",
            "buffer-delay(x)",
            "rtt-overlap(x)",
            "random-loss(x)",
            "rtt-least(x)",
            "rtt-most(x)",
            "pair-capacity(x)",
            "pair-converged(x)",
            "estimate-mean(x, buffer)",
            "estimate-mean(x, be, 20s, 60s)",
            "rtt-within(x, 50ms, 61ms)",
            "goodput(x, 20s, 60s)",
        ],
    );
    within(values[0], 5.0, 60.0);
    within(values[1], 90.0, 100.0);
    within(values[2], 45.0, 55.0);
    // Measured from the peak of all RTT samples, which is near that of an empty queue.
    within(values[3], 5.0, 10.0);
    within(values[4], 0.0, 50.0);
    // At the first loss, the maximum queueing delay is still unknown, so it counts as random: one segment out of more
    // than 80,000.
    within(values[5], 0.0, 100.0 / 80_000.0);
    within(values[6], 50.0, 51.0);
    within(values[7], 59.0, 62.0);
    within(values[8], 19.5, 20.5);
    // 40 pairs, one per round trip.
    within(values[9], 40.0 * 0.05, 10.0);
    within(values[10], 8.0, 10.5);
    // The estimated rate of payload equals the goodput.
    let goodput = values[13].unwrap();
    within(values[11], 0.9 * goodput, 1.1 * goodput);
    within(values[12], 99.0, 100.0);
}

/// 0.1 % random loss on a link that is never full. There is no queue, so losses occur at the minimum RTT, count as
/// random, and reduce the window by almost nothing.
#[test]
fn losses_by_chance_come_at_any_round_trip() {
    let lines = "bottleneck = '--rate 100mbit --rtt 50ms --queue 1bdp --loss-up 0.1%'\n\
        flows = [{ name = 'x', congestion = 'westwood-bbe', tcp = { ack-every = 1, window = 200000 } }]";
    let metrics =
        ["lost-within(x, 50ms, 52ms)", "cut-idle(x)", "random-loss(x)", "rtt-overlap(x)", "known(buffer-delay(x))"];
    let values = measure("60s", lines, &metrics);
    within(values[0], 95.0, 100.0);
    within(values[1], 0.0, 10.0);
    // 160 of 160,000 packets are lost; three standard deviations are a quarter of this.
    within(values[2], 0.075, 0.125);
    within(values[3], 80.0, 100.0);
    assert_eq!(values[4], Some(0.0));
}

#[test]
fn invalid_probes_are_reported() {
    let told = |lines: &str, metric: &str| {
        read("60s", &format!("bottleneck = '--rate 20mbit'\n{lines}"), &[metric]).unwrap_err()
    };
    let line = |more: &str| format!("probes = [{{ name = 'p', {more} }}]");
    let unknown = told(&line("method = 'ping'"), "capacity(p)");
    assert!(
        unknown.contains("\"ping\" is not a method; there are: capprobe, pathrate, pathload, pathchirp"),
        "{unknown}"
    );
    let nobody = told(&line("method = 'capprobe'"), "capacity(q)");
    assert!(nobody.contains("there is no probe \"q\"; there are: p"), "{nobody}");
    let ends = "traffic = [{ name = 'c', kind = 'cbr', rate = '1mbit', packet = '500B', stop = '5s' }]\n";
    let stops = told(&format!("{ends}{}", line("method = 'capprobe'")), "capacity(p)");
    assert!(stops.contains("cross traffic must not end while a probe measures; leave out its `stop`"), "{stops}");
}
