use longhaul_units::Span;

use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

const BASE: Span = Span::from_millis(100);

fn flow(segments: f64) -> Rounds<Vegas> {
    let mut flow = Rounds::new(Vegas::default(), BASE, segments);
    flow.round();
    flow.window.cwnd = segments * MSS.as_f64();
    flow
}

/// The backlog is W (1 - base / RTT) at W = 100: 1.96 segments at 102 ms, 2.9 at 103 ms, 3.8 at 104 ms, 4.8 at 105
/// ms.
#[test]
fn it_rises_below_two_segments_and_falls_above_four() {
    for (rtt, expected) in [(100, 1.0), (102, 1.0), (103, 0.0), (104, 0.0), (105, -1.0), (300, -1.0)] {
        let mut flow = flow(100.0);
        flow.rtt = Span::from_millis(rtt);
        flow.round();
        flow.round();
        flow.window.cwnd = 100.0 * MSS.as_f64();
        let raised = flow.round();
        assert!((raised - expected).abs() < 0.03, "{rtt} ms: {raised}");
    }
}

/// At a bottleneck of `capacity` segments per second the queue settles within the band, from below and from above.
#[test]
fn the_queue_settles_between_alpha_and_beta() {
    let capacity = 1000.0;
    for start in [50.0, 150.0] {
        let mut flow = flow(start);
        for _ in 0..200 * 100 {
            flow.rtt = BASE.max(Span::from_secs_f64(flow.cwnd() / capacity));
            flow.ack();
        }
        let queue = flow.cwnd() - capacity * BASE.as_secs_f64();
        assert!((1.5..=4.5).contains(&queue), "from {start}: {queue}");
    }
}

#[test]
fn a_loss_halves_and_the_window_keeps_two_segments() {
    assert!((flow(100.0).lose() - 0.5).abs() < 1e-4);
    let authors = Vegas { keep: 0.75, ..Vegas::default() };
    assert!((Rounds::new(authors, BASE, 100.0).lose() - 0.75).abs() < 1e-4);
    let mut flow = Rounds::new(Vegas { alpha: 0.1, beta: 0.2, ..Vegas::default() }, BASE, 100.0);
    flow.round();
    flow.rtt = BASE * 3;
    flow.round();
    flow.round();
    let mut window = Window::new(2.5 * MSS.as_f64());
    flow.algorithm.judge(&flow.path, &mut window);
    assert_eq!(window.cwnd, 2.0 * MSS.as_f64());
}
