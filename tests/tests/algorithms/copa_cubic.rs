//! `copa-cubic` over simulated links: random losses, jitter, its queue, and its share beside other flows.

use longhaul_link::{LinkConfig, Loss};
use longhaul_units::Span;
use longhaul_units::statistics::jain;

use crate::delay_based::{link, payload, run};

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

/// The link is full, flows of the same kind share it, and the queue, which CUBIC would fill, stays short. Six
/// flows need longer than this to empty one of 160 ms.
#[test]
fn the_queue_stays_short() {
    for (quarters, flows, evenly, most) in
        [(16, 1, 1.0, 8.0), (16, 2, 0.98, 8.0), (16, 6, 0.9, 150.0), (4, 10, 0.9, 30.0)]
    {
        let flows: Vec<_> = (0..flows).map(|number| ("copa-cubic", number)).collect();
        let outcome = run(shared(quarters), &flows, 30, 60);
        let (sum, fair) = (outcome.goodput.iter().sum::<f64>(), jain(&outcome.goodput).unwrap());
        let delay = outcome.delay_ms(0.5);
        assert!(sum > 0.97 * payload(50), "{} flows: {sum} Mb/s", flows.len());
        assert!(fair >= evenly && delay < most, "{} flows: Jain's index {fair}, {delay} ms", flows.len());
    }
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
