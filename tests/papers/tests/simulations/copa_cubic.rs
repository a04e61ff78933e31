//! `copa-cubic` over simulated links: random losses, jitter, its queue, and its share beside other flows.

use longhaul_link::statistics::jain;
use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, Loss, Outage, OutageKind, Step};
use longhaul_units::{Rate, Span, Time};

use crate::delay_based::{link, payload, run, run_as, run_over};
use crate::first_write::{arrives, writes};

/// A bottleneck of 50 Mb/s and 40 ms with a queue of `quarters` quarters of a bandwidth-delay product.
fn shared(quarters: u64) -> LinkConfig {
    link(50, 40, quarters * 50 * 40 * 125 / 4)
}

/// Of 155 Mb/s over 65 ms, CUBIC gets 3 Mb/s with 1 % of random losses (Mathis et al., CCR 27(3), 1997).
#[test]
fn random_losses_do_not_matter() {
    for (loss, least) in [(0.005, 0.97), (0.01, 0.95), (0.02, 0.9)] {
        let lossy = link(155, 65, 155 * 65 * 125).loss(Loss::Uniform(loss));
        let goodput = run(lossy, &[("copa-cubic", 0)], 5, 15).goodput[0];
        assert!(goodput > least * (1.0 - loss) * payload(155), "{loss}: {goodput} Mb/s");
    }
}

/// With 10 ms of jitter, Copa falls to a seventh of the link.
#[test]
fn jitter_is_no_queue() {
    for (ms, least) in [(2, 0.85), (10, 0.75)] {
        let mut jittery = link(45, 270, 45 * 270 * 125).loss(Loss::Uniform(0.0003));
        jittery.jitter = Span::from_millis(ms);
        let goodput = run(jittery, &[("copa-cubic", 0)], 10, 50).goodput[0];
        assert!(goodput > least * payload(45), "{ms} ms: {goodput} Mb/s");
    }
}

/// The queue that Copa keeps lasts 0.06 ms, and jitter 10. By delays alone, the window is a random walk far below what
/// the path holds.
#[test]
fn jitter_that_hides_the_queue_does_not_matter() {
    let mut there = link(400, 14, 4 * 400 * 14 * 125);
    there.jitter = Span::from_millis(10);
    let back = LinkConfig { jitter: there.jitter, ..LinkConfig::delay(there.delay) };
    let [with, without] = ["copa-cubic", "copa-cubic(reach=off)"].map(|controller| {
        let duplex = Duplex { there: there.clone(), back: back.clone() };
        run_over(duplex, &[(controller, 0)], 5, 20).goodput[0] / payload(400)
    });
    assert!(with > 0.5 && without < 0.3, "{with} {without}");
}

/// A way back of 0.5 Mb/s carries 780 ACKs of 80 bytes per second; 40 Mb/s cause 1700. Without requests for fewer, they
/// wait for the second that the queue holds, and 31 Mb/s remain.
#[test]
fn a_slow_way_back_does_not_matter() {
    let mut back = link(40, 100, 64_000);
    back.rate = Rate::from_bits_per_sec(500_000).into();
    let there = link(40, 100, 40 * 100 * 125);
    let goodput = run_over(Duplex { there, back }, &[("copa-cubic", 0)], 10, 40).goodput[0];
    assert!(goodput > 0.95 * payload(40), "{goodput} Mb/s");
}

/// The RTT becomes 40 ms longer after a silence of 0.3 s, in which the window was lost: a delay that does not change
/// when the window does is no queue.
#[test]
fn a_longer_route_is_no_queue() {
    let at = Time::ZERO + Span::from_secs(15);
    let mut there = link(100, 40, 500_000);
    there.outages = vec![Outage { from: at, until: at + Span::from_millis(300), kind: OutageKind::default() }];
    let mut back = LinkConfig::delay(there.delay);
    for direction in [&mut there, &mut back] {
        direction.steps = vec![Step { at, rate: None, delay: Some(Span::from_millis(40)) }];
    }
    let goodput = run_over(Duplex { there, back }, &[("copa-cubic", 0)], 18, 40).goodput[0];
    assert!(goodput > 0.9 * payload(100), "{goodput} Mb/s");
}

/// The link is full, flows of the same kind share it, and the queue, which CUBIC would fill, stays short. Six flows need
/// up to a minute to empty one of 160 ms.
#[test]
fn the_queue_stays_short() {
    for (quarters, flows, from, evenly, most) in [
        (16, 1, 30, 1.0, 8.0),
        (16, 2, 30, 0.98, 8.0),
        (4, 4, 30, 0.95, 8.0),
        (16, 6, 60, 0.9, 8.0),
        (4, 10, 30, 0.95, 15.0),
    ] {
        let flows: Vec<_> = (0..flows).map(|number| ("copa-cubic", number)).collect();
        let outcome = run(shared(quarters), &flows, from, from + 30);
        let (sum, fair) = (outcome.goodput.iter().sum::<f64>(), jain(&outcome.goodput).unwrap());
        let delay = outcome.delay_ms(0.5);
        assert!(sum > 0.97 * payload(50), "{} flows: {sum} Mb/s", flows.len());
        assert!(fair >= evenly && delay < most, "{} flows: Jain's index {fair}, {delay} ms", flows.len());
    }
}

/// Without arrival times the capacity is unknown, and a delay that does not respond may always be the queue of others.
/// If a flow with few losses took it for the path's, it would keep a twentieth of the link.
#[test]
fn without_arrival_times_the_share_is_no_less() {
    let queue = shared(4);
    let run = |flows: &[(&str, u64)]| {
        let duplex = Duplex { there: queue.clone(), back: LinkConfig::delay(queue.delay) };
        run_as(duplex, flows, 35, 95, |config| config.extensions = false)
    };
    let first = run(&[("copa-cubic", 0), ("new-reno", 6)]).share(0);
    let last = run(&[("new-reno", 0), ("copa-cubic", 6)]).share(1);
    assert!([first, last].iter().all(|share| (0.3..0.7).contains(share)), "{first}, {last}");
}

/// The flow gets a share beside CUBIC and NewReno, and leaves them theirs, in both orders. Without the competitive mode
/// it would get little.
#[test]
fn the_share_beside_loss_based_flows_is_fair() {
    for (other, quarters) in [("cubic", 2), ("cubic", 4), ("cubic", 16), ("new-reno", 2), ("new-reno", 8)] {
        let first = run(shared(quarters), &[("copa-cubic", 0), (other, 1)], 30, 80).share(0);
        let last = run(shared(quarters), &[(other, 0), ("copa-cubic", 1)], 30, 80).share(1);
        for share in [first, last] {
            assert!((0.2..0.7).contains(&share), "{other}, {quarters}/4 BDP: {first}, {last}");
        }
    }
    let without = run(shared(8), &[("cubic", 0), ("copa-cubic(compete=off)", 1)], 30, 80).share(1);
    assert!(without < 0.15, "without the competitive mode: {without}");
}

/// After a pause of less than a minute, the window is what the path held before, half of the file, so that what follows
/// takes a round trip of 200 ms less than on a new connection. After a longer one, or less data, the window is that of a new
/// connection, and so is the start. CUBIC needs six round trips to double the restart window to 1 MB.
#[test]
fn data_after_a_pause_is_faster_than_on_a_new_connection() {
    let (file, connected, pause) = (1_000_000, Span::from_millis(250), Span::from_secs(5));
    let after = |name, first, pause| {
        let once = arrives(name, &writes(&[(first, connected)]));
        arrives(name, &writes(&[(first, connected), (file, pause)])) - once - pause
    };
    let new = arrives("copa-cubic", &writes(&[(file, connected)])) - connected;
    let after_a_pause = after("copa-cubic", file, pause);
    assert!(after_a_pause + Span::from_millis(150) <= new, "{new} on a new connection, {after_a_pause} after a pause");
    for (first, pause) in [(file, Span::from_secs(61)), (100_000, pause)] {
        let after_a_pause = after("copa-cubic", first, pause);
        assert!(after_a_pause <= new, "{new} on a new connection, {after_a_pause} {pause} after {first} bytes");
    }
    let restarted = after("cubic", file, pause);
    assert!(restarted > after_a_pause + Span::from_millis(400), "{restarted} with CUBIC");
}
