use super::*;
use crate::tests::Rounds;
use crate::tests::{MSS, after_a_loss, segments};

fn flow(rtt_ms: u64, segments: f64) -> Rounds<Hybla> {
    let algorithm = Hybla::default();
    Rounds::new(algorithm, Span::from_millis(rtt_ms), segments)
}

/// The increase is rho^2 segments per round trip, so that the throughput grows by the same amount per second at any
/// RTT. Up to 25 ms it is NewReno's one segment.
#[test]
fn a_round_raises_by_rho_squared() {
    for (rtt, rho) in [(5, 1.0), (25, 1.0), (50, 2.0), (100, 4.0), (600, 24.0)] {
        let w = 100_000.0;
        let raised = flow(rtt, w).round();
        assert!((raised / (rho * rho) - 1.0).abs() < 0.01, "{rtt} ms: {raised}");
        assert_eq!(flow(rtt, w).lose(), 0.5);
    }
}

/// The sawtooth runs between W/2 and W with an increase of rho^2. Then 1.5 / p = (W average / rho)^2, which is the
/// throughput of the reference flow.
#[test]
fn the_response_function_is_that_of_the_reference() {
    let (p, rho) = (1e-5_f64, 4.0);
    let expected = rho * (1.5 / p).sqrt();
    let average = flow(100, expected).average(p, 20);
    assert!((average / expected - 1.0).abs() < 0.03, "{average}, not {expected}");
}

/// Without the bound, a small window over a long path would grow by hundreds of segments per ACK.
#[test]
fn the_gain_is_bounded() {
    let mut algorithm = Hybla::default();
    let mut path = Path::new(MSS);
    path.min_rtt = Some(Span::from_millis(600));
    let ack = Ack::new(longhaul_units::Time::ZERO);
    algorithm.observe(&ack, &path);
    let mut window = Window::new(segments(10).as_f64());
    algorithm.on_ack(&ack, MSS, &path, &mut window);
    assert_eq!(window.cwnd, segments(18).as_f64());
}

/// In a complete controller the window grows by more than the acknowledged amount.
#[test]
fn a_sender_rises_by_rho_squared() {
    let mut sender = after_a_loss("slow-start+hybla");
    let before = sender.cwnd();
    sender.round();
    let raised = (sender.cwnd() - before).segments(MSS);
    assert!((raised - 16.0).abs() < 2.5, "{raised}");
}
