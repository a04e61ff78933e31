//! Rounds of slow start, segment by segment.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::LinkConfig;
use longhaul_sim::{Packet, Plan, Setup, Sighting, Sim, Tap, full_segments};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec};

const MSS: u64 = 1448;

/// Records when each data segment of host 0 was sent, first transmissions and retransmissions separately.
#[derive(Default)]
struct Sent(Vec<(Time, u32)>);

impl Tap for Sent {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, _)) = CheshireCodec::parse(&packet.payload) else { return };
        if sighting == Sighting::Sent(0) && packet.zeros > 0 {
            self.0.push((now, header.seq));
        }
    }
}

/// RFC 6928: the initial window is ten segments. RFC 5681, section 3.1: each acknowledged segment then adds one, which
/// doubles the window every round. With byte counting (RFC 3465 without limit), round n has 10 * 2^n segments
/// regardless of delayed ACKs. If an ACK counts as one segment (the upper bound of SMSS per ACK in RFC 5681) and
/// acknowledges two, the window grows by half: round n + 1 has the segments of round n plus one per two segments of
/// round n. If their number is odd, the last one is acknowledged alone.
#[test]
fn ten_rounds_of_slow_start() {
    let second = Span::from_millis(500);
    for (name, delay, doubles) in [
        ("slow-start+new-reno", Span::ZERO, true),
        ("slow-start+new-reno", Span::from_millis(40), true),
        ("slow-start(l=1)+new-reno", Span::ZERO, true),
        ("slow-start(l=1)+new-reno", Span::from_millis(40), false),
    ] {
        let setup = Setup::symmetric(1, LinkConfig::delay(second / 2)).configure(|config| {
            full_segments(config);
            config.congestion = longhaul_tests_core::congestion(name);
            config.ack_delay = delay;
        });
        let mut sim = Sim::new(setup);
        let sent = Rc::new(RefCell::new(Sent::default()));
        sim.add_tap(Rc::clone(&sent));
        sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        sim.run_for(second * 13);
        let sent = &sent.borrow().0;
        let (began, first) = sent[0];
        // Pacing at twice the window per round trip sends each round within its first half.
        let rounds: Vec<&[(Time, u32)]> = sent
            .chunk_by(|(a, _), (b, _)| {
                (*a - began).as_nanos() / second.as_nanos() == (*b - began).as_nanos() / second.as_nanos()
            })
            .collect();
        let counts: Vec<u64> = rounds.iter().take(10).map(|round| round.len() as u64).collect();
        let grows = |a: u64, b: u64| if doubles { b == 2 * a } else { (3 * a..=3 * a + 2).contains(&(2 * b)) };
        let as_expected = counts[0] == 10 && counts.windows(2).all(|pair| grows(pair[0], pair[1]));
        assert!(as_expected && counts.len() == 10, "{name}, ACKs delayed by {delay}: {counts:?}");
        // The first segment of each round is sent on the first ACK of the previous round, exactly one round trip later.
        // If that ACK waits for a second segment, it is delayed by the pacing interval between the two: 2^n segments
        // per round trip, plus up to 1 us.
        for (n, round) in (0u64..10).zip(&rounds) {
            let late = round[0].0 - (began + second * n);
            let most = if delay.is_zero() { Span::ZERO } else { Span::from_micros(1) };
            assert!(round[0].0 >= began + second * n && late <= most, "{name}, {delay}: round {n} begins {late} late");
        }
        // Segments are sent in order, once each, without gaps.
        for (n, (_, seq)) in (0u32..).zip(sent.iter()) {
            assert_eq!(*seq, first.wrapping_add(n * MSS as u32), "segment {n}");
        }
    }
}
