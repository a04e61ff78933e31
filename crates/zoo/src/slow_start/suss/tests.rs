use std::collections::VecDeque;

use longhaul_cc::{BuildParams, Granted, SegmentKind, update};
use longhaul_units::Span;

use super::*;
use crate::tests::{MSS, Sender, segments, sender};

const RTT: Span = Span::from_millis(100);

/// A sender over a bottleneck that needs `gap` per segment. Every segment is acknowledged by its own ACK.
struct Line {
    sender: Sender,
    gap: Span,
    /// ACK time and send time of each segment in flight.
    flight: VecDeque<(Time, Time)>,
    free: Time,
    sent: u64,
    /// Segments sent before each round began, and the time at which it began.
    rounds: Vec<(u64, Time)>,
    /// Segments sent until the next round begins.
    round_end: u64,
    acked: u64,
}

impl Line {
    fn new(spec: &str, gap: Span) -> Self {
        let sender = sender(spec);
        let (free, flight, rounds) = (sender.now, VecDeque::new(), Vec::new());
        let mut line = Self { sender, gap, flight, free, sent: 0, rounds, round_end: 0, acked: 0 };
        line.send();
        line
    }

    fn send(&mut self) {
        for _ in 0..self.sender.fill() {
            self.free = self.free.max(self.sender.now) + self.gap;
            self.flight.push_back((self.free + RTT, self.sender.now));
            self.sent += 1;
        }
    }

    /// Processes the next ACK or tick.
    fn step(&mut self) {
        let (due, left) = *self.flight.front().expect("something in flight");
        if let Some(tick) = self.sender.controller.next_tick().filter(|tick| *tick < due) {
            self.sender.now = tick;
            self.sender.controller.on_tick(tick, &self.sender.path);
        } else {
            self.flight.pop_front();
            self.sender.now = due;
            self.sender.rtt = due - left;
            if self.acked >= self.round_end {
                self.rounds.push((self.sent, due));
                self.round_end = self.sent;
            }
            self.acked += 1;
            self.sender.ack(1);
        }
        self.send();
    }

    /// Returns the segments sent in each of the first `count` rounds.
    fn totals(&mut self, count: usize) -> Vec<u64> {
        while self.rounds.len() < count {
            self.step();
        }
        let ends: Vec<_> = self.rounds.iter().map(|(sent, _)| *sent).collect();
        std::iter::once(0).chain(ends.iter().copied()).zip(&ends).map(|(from, to)| to - from).take(count).collect()
    }

    fn phase(&self) -> &'static str {
        self.sender.snapshot().phase
    }

    fn until_phase(&mut self, phase: &str) {
        for _ in 0..100_000 {
            if self.phase() == phase {
                return;
            }
            self.step();
        }
        panic!("never in {phase}, but in {}", self.phase());
    }
}

/// As in the kernel patch: ten segments, then four times as many in each of three rounds, then twice as many per
/// round.
#[test]
fn rounds_send_10_40_160_640_and_then_twice_as_much() {
    let mut line = Line::new("suss+cubic", Span::from_micros(1));
    assert_eq!(line.totals(6), [10, 40, 160, 640, 1280, 2560]);
    let mut line = Line::new("suss(jumps=2)+cubic", Span::from_micros(10));
    assert_eq!(line.totals(5), [10, 40, 160, 320, 640]);
    let mut line = Line::new("suss(jumps=1,iw=4)+cubic", Span::from_micros(10));
    assert_eq!(line.totals(5), [4, 16, 32, 64, 128]);
    let mut line = Line::new("suss(jumps=0)+cubic", Span::from_micros(10));
    assert_eq!((line.totals(4), line.phase()), (vec![10, 20, 40, 80], "slow-start"));
}

/// Trains that grow too fast: d^2 / dp, which is 160 gaps in round 3 and 640 in round 4, is compared with the RTT.
#[test]
fn a_slower_path_is_quadrupled_less_often() {
    for (gap, totals) in [(3000, [10, 20, 40]), (700, [10, 40, 80]), (600, [10, 40, 160])] {
        let mut line = Line::new("suss+cubic", Span::from_micros(gap));
        assert_eq!(line.totals(3), totals, "{gap} us a segment");
    }
}

/// Round 2 with an RTT of 100 ms: 20 additional segments are paced over 50 ms. Before that is a guard interval of half
/// of what the train and these 50 ms leave of the RTT. Red ACKs of round 3 do not open the window.
#[test]
fn the_red_part_is_paced_after_a_guard() {
    let gap = Span::from_micros(100);
    let mut line = Line::new("suss+cubic", gap);
    let began = line.sender.now;
    while line.acked < 9 {
        assert_eq!(line.sender.controller.next_tick(), None);
        line.step();
    }
    // The first ACK came after a gap and the propagation RTT, the sum of which is the minimum RTT. The ninth came
    // eight gaps later, which makes a train of ten gaps, one of which is still to come.
    let least = RTT + gap;
    let guard = (least / 2 - gap * 10) / 2;
    assert_eq!(line.sender.now, began + gap * 9 + RTT);
    assert_eq!(line.sender.controller.next_tick(), Some(line.sender.now + gap + guard));
    assert_eq!((line.sent, line.sender.cwnd()), (28, segments(19)));
    line.step();
    assert_eq!((line.sent, line.sender.cwnd(), line.phase()), (30, segments(20), "suss"));
    line.step();
    assert_eq!((line.sent, line.sender.cwnd(), line.phase()), (50, segments(40), "suss-paced"));
    let pace = line.sender.control().pace.expect("a pace");
    assert_eq!((pace.rate, pace.quantum), (Rate::from_bytes_over(segments(20), least / 2), None));
    while line.acked < 30 {
        line.step();
    }
    assert_eq!((line.sender.cwnd(), line.phase()), (segments(60), "suss"));
    while line.acked < 50 && line.phase() == "suss" {
        assert_eq!(line.sender.cwnd(), segments(60));
        line.step();
    }
    assert_eq!(line.sender.cwnd(), segments(160));
    while line.acked < 50 {
        line.step();
        assert_eq!(line.sender.cwnd(), segments(160));
    }
}

/// Data that ACKs release is also paced, but so fast that the pace itself does not make a long train.
#[test]
fn the_blue_part_is_paced_at_64_windows_a_round_trip() {
    let mut line = Line::new("suss+cubic", Span::from_micros(10));
    line.step();
    line.step();
    let pace = line.sender.control().pace.expect("a pace");
    let srtt = line.sender.path.srtt.expect("a sample");
    let expected = Rate::from_bytes_over(segments(12), srtt).mul_f64(64.0);
    assert_eq!(pace.rate, expected);
}

/// A receiver that acknowledges every second segment delays the ACK of the last of an odd number. This does not make a
/// long train.
#[test]
fn an_answer_kept_back_is_no_long_train() {
    // 40 ms later is after the red part has begun, 20 ms later is before it.
    for late in [40, 20] {
        let mut line = Line::new("suss+cubic", Span::from_micros(10));
        line.flight.back_mut().expect("in flight").0 += Span::from_millis(late);
        for _ in 0..9 {
            line.step();
        }
        assert!(line.sender.controller.next_tick().is_some());
        assert_eq!(line.totals(4), [10, 40, 160, 640], "{late} ms");
    }
}

/// The window falls back to the bytes in flight if the red part was not sent in time.
#[test]
fn what_the_red_part_left_unsent_is_no_burst() {
    let mut line = Line::new("suss+cubic", Span::from_micros(10));
    line.until_phase("suss-paced");
    // The tick made room for twenty segments, which were sent. Eight of them are taken back, as if they had not been
    // sent.
    for _ in 0..8 {
        line.flight.pop_back();
        line.sender.in_flight -= MSS;
    }
    let before = line.sender.in_flight;
    let (due, _) = line.flight.pop_front().expect("in flight");
    line.sender.now = due;
    line.sender.ack(1);
    assert_eq!(line.sender.cwnd(), before + MSS);
}

/// Returns the state of rounds in round `round`, after a last blue train of length `before`.
fn rounds(round: u32, before: Span, least_in: u32) -> Rounds {
    let mut rounds = Rounds::new(segments(10).as_f64(), 3);
    set(&mut rounds, round, before, least_in);
    rounds
}

/// Sets the state from which a test starts.
const fn set(rounds: &mut Rounds, round: u32, before: Span, least_in: u32) {
    (rounds.round, rounds.before, rounds.least_in) = (round, Some(before), least_in);
    (rounds.head, rounds.tail) = (Bytes::ZERO, Bytes::MAX);
}

/// Round 2 requires an RTT above 10 ms and a train shorter than a quarter of it.
#[test]
fn round_2_asks_for_10_ms_and_a_train_of_a_quarter() {
    let ns = Span::from_nanos(1);
    let second = |least: Span, train: Span| rounds(2, Span::ZERO, 1).has_room(train, least, Some(least));
    assert!(!second(Span::from_millis(10), ns) && second(Span::from_millis(10) + ns, ns));
    assert!(second(RTT, RTT / 4 - ns) && !second(RTT, RTT / 4));
}

/// Round 3 and later: d^2 / dp must not exceed the RTT, where d = train * 2^(r-2), and dp = the last quadrupled
/// round's train * 2^(r-3).
#[test]
fn later_rounds_ask_how_the_train_grows() {
    let ms = Span::from_millis;
    for (round, before, most) in [(3, ms(1), ms(5)), (3, ms(4), ms(10)), (4, ms(8), ms(10))] {
        assert!(rounds(round, before, 1).has_room(most, RTT, Some(RTT)), "round {round}");
        let more = most + Span::from_nanos(1);
        assert!(!rounds(round, before, 1).has_room(more, RTT, Some(RTT)), "round {round}");
    }
    assert!(!rounds(3, Span::ZERO, 1).has_room(ms(1), RTT, Some(RTT)));
}

/// With `suss_max` 3, rounds 2, 3 and 4 may be quadrupled.
#[test]
fn no_more_than_three_rounds_are_quadrupled() {
    let tiny = Span::from_micros(1);
    for (round, room) in [(2, true), (3, true), (4, true), (5, false), (60, false)] {
        assert_eq!(rounds(round, tiny, 1).has_room(tiny, RTT, Some(RTT)), room, "round {round}");
    }
}

/// (k + 1) times the round's minimum RTT must not exceed (k + 1) times the minimum RTT plus k times an eighth of it.
#[test]
fn a_growing_round_trip_refuses() {
    let tiny = Span::from_micros(1);
    for (least_in, most) in [(3, 100_000), (2, 106_250), (1, 108_333)] {
        let room = |us| rounds(3, tiny, least_in).has_room(tiny, RTT, Some(Span::from_micros(us)));
        assert!(room(most) && !room(most + 1), "least in round {least_in}");
    }
    assert!(!rounds(3, tiny, 1).has_room(tiny, RTT, None));
    let mut rounds = rounds(3, tiny, 1);
    rounds.found_less();
    assert!(!rounds.has_room(tiny, RTT, Some(Span::from_micros(100_001))));
}

/// Returns the decision of `rounds` on a blue train of length `train`.
fn judge(rounds: &mut Rounds, train: Span, limited: bool) -> Option<Jump> {
    let began = Time::from_nanos(1_000_000_000);
    let mut ack = Ack::new(began);
    (ack.total_delivered, ack.in_flight) = (segments(1_000_000), Bytes::ZERO);
    assert!(rounds.begins(&ack));
    // The bytes counted before the last ACK are all bytes of the train.
    ack.delivered = Bytes::from_f64(rounds.blue_part() / 2.0);
    (ack.total_delivered, ack.now) = (Bytes::ZERO, began + train);
    assert!(!rounds.count(&ack, MSS));
    ack.cwnd_limited = limited;
    rounds.judge(&ack, Some(RTT), Some(RTT)).expect("a later round")
}

/// In round 3, a quarter of the round trip is left for the train and the guard interval.
#[test]
fn a_train_as_long_as_what_is_left_is_not_followed_but_may_be_later() {
    let ms = Span::from_millis;
    let mut short = rounds(2, ms(30), 2);
    let jump = judge(&mut short, ms(24), true).expect("room");
    assert_eq!((jump.red, jump.duration), (segments(120).as_f64(), ms(75)));
    assert_eq!(short.jumps, 1);
    let mut long = rounds(2, ms(30), 2);
    assert_eq!((judge(&mut long, ms(25), true), long.jumps), (None, 0));
    set(&mut long, 2, ms(30), 2);
    assert!(judge(&mut long, ms(1), true).is_some());
}

/// After a refused round, all later rounds are refused.
#[test]
fn later_rounds_of_a_refused_connection_are_refused() {
    let ms = Span::from_millis;
    let mut refused = rounds(2, ms(10), 2);
    assert_eq!(judge(&mut refused, ms(1), false), None);
    set(&mut refused, 2, ms(10), 2);
    assert_eq!(judge(&mut refused, ms(1), true), None);
}

/// A refusal is final, even if the train becomes short.
#[test]
fn a_refusal_is_final() {
    let mut line = Line::new("suss+cubic", Span::from_micros(1000));
    line.totals(2);
    line.gap = Span::from_micros(1);
    // Round 3 sees the trains of round 2, with 1 ms per segment, and refuses; then the path becomes fast.
    assert_eq!(line.totals(5)[2..], [80, 160, 320]);
}

/// An application that does not fill the window does not need a larger one.
#[test]
fn an_idle_window_refuses() {
    let mut line = Line::new("suss+cubic", Span::from_micros(10));
    for count in 0..10 {
        let (due, _) = line.flight.pop_front().expect("in flight");
        line.sender.now = due;
        let mut ack = line.sender.acked(1);
        ack.cwnd_limited = false;
        line.sender.tell(&ack);
        assert_eq!(line.phase(), if count < 8 { "suss" } else { "slow-start" });
    }
    assert_eq!((line.sender.controller.next_tick(), line.sender.cwnd()), (None, segments(10)));
}

/// A transport that does not pace cannot spread the additional data.
#[test]
fn without_pacing_it_is_hystart() {
    let congestion = crate::tests::spec("suss+cubic");
    let granted = update!(Granted { pacing: false, ..Granted::basic() });
    let sender = Sender::with(congestion.build(&BuildParams::default()), granted);
    assert_eq!((sender.snapshot().phase, sender.control().pace), ("slow-start", None));
}

/// Later slow starts are HyStart.
#[test]
fn after_a_timeout_it_is_hystart() {
    let mut line = Line::new("suss+cubic", Span::from_micros(10));
    line.totals(2);
    line.sender.time_out(1);
    line.sender.send(SegmentKind::Retransmit);
    assert_eq!((line.phase(), line.sender.controller.next_tick()), ("slow-start", None));
}

/// The length of the blue train is doubled once per quadrupled round. If the result exceeds half of the RTT, the
/// window is capped at its current size plus what this round still brings for the blue data acknowledged so far.
#[test]
fn a_long_blue_train_caps_the_window_and_ends_it() {
    let gap = Span::from_micros(600);
    let mut line = Line::new("suss+cubic", gap);
    line.totals(3);
    // Rounds 2 and 3 were quadrupled. In round 4, a train of 13.2 ms (22 gaps) is the first that exceeds 50.8 ms if
    // taken four times.
    assert_eq!(line.sender.cwnd(), segments(161), "its first ACK");
    let mut sent = line.sent;
    while line.phase() == "suss" {
        sent = line.sent;
        line.step();
    }
    // The cap is 160 + 22 segments and three times the 22 acknowledged. The window that exceeds it is 249 segments,
    // and falls to the bytes in flight.
    assert_eq!((line.phase(), line.sent), ("congestion-avoidance", sent));
    let ssthresh = line.sender.ssthresh();
    assert_eq!(ssthresh, line.sender.cwnd());
    assert!(ssthresh > segments(245) && ssthresh < segments(252), "{}", ssthresh.segments(MSS));
}

/// HyStart's delay detector ends slow start at the ninth sample of a round.
#[test]
fn a_long_round_trip_ends_it() {
    let mut line = Line::new("suss+cubic", Span::from_micros(10));
    line.totals(2);
    while line.acked < line.round_end {
        line.step();
    }
    for (due, _) in &mut line.flight {
        *due += RTT;
    }
    for sample in 1..=9 {
        assert_ne!(line.phase(), "congestion-avoidance", "sample {sample}");
        line.step();
    }
    assert_eq!(line.phase(), "congestion-avoidance");
    assert_eq!(line.sender.ssthresh(), line.sender.cwnd());
}

/// A loss during the red part: of the 640 segments that the window allows, congestion avoidance sees only those that
/// were sent. CUBIC's plateau shows this: according to RFC 9438, section 4.1, the window returns to its former size K
/// = cbrt(W_max (1 - beta) / C) seconds after the loss.
#[test]
fn what_was_opened_and_not_sent_is_no_plateau() {
    let mut line = Line::new("suss+cubic", Span::from_micros(10));
    let opened = segments(640);
    while line.sender.cwnd() < opened {
        line.step();
    }
    assert_eq!((line.sender.cwnd(), line.phase()), (opened, "suss-paced"));
    // The tick made room for 480 segments, which were sent. All but 80 of them are taken back, as if they had not been
    // sent.
    for _ in 0..400 {
        line.flight.pop_back();
        line.sender.in_flight -= MSS;
    }
    let flight = line.sender.in_flight;
    assert!(flight > segments(150) && flight < segments(250), "{flight}");
    let sender = &mut line.sender;
    sender.lose();
    assert_eq!(sender.ssthresh(), flight.mul_f64(0.7));
    sender.recover();
    sender.fill();
    let w_max = flight.as_f64() / MSS.as_f64();
    let rounds = ((w_max * 0.3 / 0.4).cbrt() / RTT.as_secs_f64()).round() as u32;
    (0..rounds).for_each(|_| sender.round());
    let back = sender.cwnd().as_f64() / flight.as_f64();
    assert!((back - 1.0).abs() < 0.03, "{back} of what was in flight");
}
