//! `tide` over simulated links: its queue, its share beside its own kind and others, and losses that are the link's.

use longhaul_link::statistics::jain;
use longhaul_link::{LinkConfig, Loss};

use crate::delay_based::{link, payload, run};

/// A bottleneck of 50 Mb/s and 40 ms with a queue of `quarters` quarters of a bandwidth-delay product.
fn shared(quarters: u64) -> LinkConfig {
    link(50, 40, quarters * 50 * 40 * 125 / 4)
}

/// One flow and several fill a link without filling its queue of 160 ms, which CUBIC does. The threshold is 5 ms.
#[test]
fn the_queue_is_emptied_together() {
    for (flows, least) in [(1, 1.0), (2, 0.98), (10, 0.95)] {
        let flows: Vec<_> = (0..flows).map(|number| ("tide", number)).collect();
        let outcome = run(shared(16), &flows, 20, 50);
        let (sum, fair) = (outcome.goodput.iter().sum::<f64>(), jain(&outcome.goodput).unwrap());
        let delay = outcome.delay_ms(0.95);
        assert!(sum > 0.94 * payload(50), "{} flows: {sum} Mb/s", flows.len());
        assert!(fair >= least && delay < 20.0, "{} flows: Jain's index {fair}, {delay} ms", flows.len());
    }
}

/// Of 155 Mb/s over 65 ms, CUBIC gets 3 Mb/s with 1 % of random losses (Mathis et al., CCR 27(3), 1997).
#[test]
fn losses_of_the_link_do_not_matter() {
    for (loss, least) in [(0.005, 0.94), (0.02, 0.9), (0.05, 0.6)] {
        let lossy = link(155, 65, 155 * 65 * 125).loss(Loss::Uniform(loss));
        let goodput = run(lossy, &[("tide", 0)], 5, 20).goodput[0];
        assert!(goodput > least * (1.0 - loss) * payload(155), "{loss}: {goodput} Mb/s");
    }
}

/// Others that fill the queue are met by CUBIC, in both orders. Without that, the flow would get little.
#[test]
fn others_get_their_share() {
    for (other, quarters) in [("cubic", 1), ("cubic", 4), ("cubic", 16), ("new-reno", 2), ("new-reno", 8)] {
        let first = run(shared(quarters), &[("tide", 0), (other, 1)], 20, 60).share(0);
        let last = run(shared(quarters), &[(other, 0), ("tide", 1)], 20, 60).share(1);
        for share in [first, last] {
            assert!((0.2..0.7).contains(&share), "{other}, {quarters}/4 BDP: {first}, {last}");
        }
    }
    let alone = run(shared(4), &[("tide(compete=off)", 0), ("cubic", 1)], 20, 60).share(0);
    assert!(alone < 0.2, "{alone}");
}
