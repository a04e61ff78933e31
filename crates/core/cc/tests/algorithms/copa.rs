//! Copa in a complete sender.

use longhaul_cc::registry::Spec;
use longhaul_cc::{BuildParams, Granted, PathEvent, RttSample, SegmentKind};
use longhaul_conformance::testing::{MSS, Sender, segments};
use longhaul_units::{Bytes, Span};
use proptest::prelude::*;

const BASE: Span = Span::from_millis(100);

/// Ten segments double per round trip until the queue makes the rate too high: 40 segments in 120 ms, of which 20 ms
/// are queueing delay, exceed 1 / (0.5 x 20 ms) = 100/s, which is 12 segments.
#[test]
fn slow_start_ends_where_the_target_is_passed() {
    let mut sender = Sender::new("copa");
    assert_eq!(sender.cwnd(), segments(10));
    sender.fill();
    sender.round();
    sender.round();
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(40), "slow-start"));
    sender.now += Span::from_millis(200);
    sender.rtt = Span::from_millis(120);
    sender.ack(1);
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(40), "default"));
    sender.ack(1);
    assert!(sender.cwnd() < segments(40), "{}", sender.cwnd());
    let pace = sender.control().pace.expect("a pace").rate.as_bytes_per_sec();
    let twice = 2.0 * sender.cwnd().as_f64() / 0.12;
    assert!((pace as f64 / twice - 1.0).abs() < 1e-6, "{pace} B/s, not {twice}");
}

#[test]
fn a_timeout_leaves_a_segment_and_a_spurious_one_is_undone() {
    let mut sender = Sender::new("copa");
    sender.fill();
    sender.round();
    sender.time_out(1);
    assert_eq!(sender.cwnd(), MSS);
    sender.time_out(2);
    let now = sender.now;
    sender.event(&PathEvent::Spurious { now, timeout: true, in_flight: Bytes::ZERO });
    assert_eq!(sender.cwnd(), segments(20));
    sender.event(&PathEvent::IdleRestart { now, idle: Span::from_secs(3) });
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(10), "slow-start"));
}

#[test]
fn its_name_says_its_options() {
    for text in ["copa", "copa(delta=0.1)", "copa(competitive=off)", "copa(delta=0.04,iw=2)"] {
        assert_eq!(Sender::new(text).controller.name(), text);
    }
}

/// Runs a flow alone over a bottleneck of `capacity` segments per second, where the RTT follows from the window.
fn alone(delta: f64, capacity: f64, secs: u64) -> Vec<f64> {
    let mut sender = Sender::new(&format!("copa(delta={delta})"));
    let (mut queue, mut queues, mut acks) = (0.0, Vec::new(), 0_u64);
    let end = sender.now + Span::from_secs(secs);
    // Sent segments are delivered after a base RTT and a queueing delay, one at a time.
    let mut flying = std::collections::VecDeque::new();
    let (mut free_at, mut round_end) = (sender.now, sender.now);
    let service = Span::from_secs_f64(1.0 / capacity);
    while sender.now < end {
        while sender.in_flight + MSS <= sender.cwnd() {
            let leaves = free_at.max(sender.now) + service;
            queue = leaves.since(sender.now).as_secs_f64() * capacity;
            free_at = leaves;
            flying.push_back((sender.now, leaves + BASE));
            sender.send(SegmentKind::Data);
        }
        let Some((sent, arrives)) = flying.pop_front() else { break };
        sender.now = arrives;
        sender.rtt = arrives.since(sent);
        let mut ack = sender.acked(1);
        ack.rtt = Some(RttSample::new(sender.rtt, sent));
        ack.round_start = sent >= round_end;
        if ack.round_start {
            round_end = arrives;
        }
        sender.tell(&ack);
        acks += 1;
        if end.since(sender.now) < Span::from_secs(secs / 2) {
            queues.push(queue);
        }
    }
    assert!(acks as f64 > 0.9 * capacity * secs as f64 * 0.9, "{acks}");
    queues
}

/// Section 3: on its own bottleneck, the queue varies between empty and about 2.5 / delta segments, with a mean of
/// 1.25 / delta.
#[test]
fn alone_it_keeps_a_queue_of_a_few_over_delta() {
    for (delta, capacity) in [(0.5, 1000.0), (0.5, 10_000.0), (0.1, 1000.0), (0.1, 5000.0)] {
        let queues = alone(delta, capacity, 40);
        let mean = queues.iter().sum::<f64>() / queues.len() as f64;
        let most = queues.iter().fold(0.0_f64, |most, one| most.max(*one));
        let unit = 1.0 / delta;
        assert!((unit..=1.5 * unit + 2.0).contains(&mean), "delta {delta}, {capacity}/s: mean {mean}");
        assert!(most < 2.5 * unit + 8.0, "delta {delta}, {capacity}/s: at most {most}");
    }
}

proptest! {
    /// For any RTTs, the window increases by at most the delivered data.
    #[test]
    fn it_earns_its_window(steps in prop::collection::vec((1_u64..400, 0_u64..40, any::<bool>()), 1..200)) {
        let mut sender = Sender::new("copa");
        for (rtt, wait, used) in steps {
            sender.fill();
            sender.now += Span::from_millis(wait);
            sender.rtt = Span::from_millis(rtt);
            let before = sender.cwnd();
            let mut ack = sender.acked(1);
            (ack.round_start, ack.cwnd_limited) = (wait > 20, used);
            sender.tell(&ack);
            let earned = if used { MSS + Bytes(1) } else { Bytes::ZERO };
            prop_assert!(sender.cwnd() <= before + earned);
            prop_assert!(sender.cwnd() >= segments(2));
        }
    }
}

/// Options are applied, and are part of the name: the pace.
#[test]
fn the_constants_are_options() {
    let text = "copa(patience=2,nearly=0,steady=1,step=0.5,rtt-min-window=3,pace=4)";
    let spec: Spec = text.parse().expect("a name");
    let mut sender = Sender::with(spec.build(&BuildParams::default()), Granted::basic());
    assert_eq!(sender.controller.name(), text);
    sender.fill();
    sender.round();
    let control = sender.controller.control();
    let windows =
        control.pace.expect("paced").rate.as_bytes_per_sec() as f64 * sender.rtt.as_secs_f64() / control.cwnd.as_f64();
    assert!((windows - 4.0).abs() < 1e-3, "{windows}");
}

#[test]
fn a_loss_alone_lowers_nothing() {
    let mut sender = Sender::new("copa");
    sender.fill();
    sender.round();
    let before = sender.cwnd();
    sender.lose();
    assert!(sender.cwnd() >= before);
}
