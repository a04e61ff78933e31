use longhaul_units::{Bytes, Time};
use proptest::prelude::*;

use super::*;
use crate::tests::{MSS, segments};

/// Literal RFC 6582, section 3.2: the window bounds FlightSize, and is therefore inflated and deflated.
#[derive(Debug)]
struct Textbook {
    cwnd: u64,
    flight: u64,
}

impl Textbook {
    /// Step 2: the third duplicate ACK arrives with `flight` segments outstanding.
    fn enter(flight: u64, ssthresh: u64) -> Self {
        Self { cwnd: ssthresh + 3, flight }
    }

    /// RFC 5681, section 3.2, step 4.
    fn duplicate(&mut self) {
        self.cwnd += 1;
    }

    /// Step 3: a partial ACK.
    fn partial(&mut self, acked: u64) {
        self.flight -= acked;
        self.cwnd = self.cwnd.saturating_sub(acked) + 1;
    }

    fn send(&mut self) -> u64 {
        let count = self.cwnd.saturating_sub(self.flight);
        self.flight += count;
        count
    }
}

/// The same sender with a constant window over the bytes in flight, from which each duplicate ACK removes a segment.
struct Ours {
    recovery: NewReno,
    window: Window,
    flight: u64,
    duplicates: u64,
}

impl Ours {
    fn enter(flight: u64, ssthresh: u64) -> Self {
        let mut window = Window::new(segments(flight).as_f64());
        let mut recovery = NewReno::default();
        let ack = Ack::new(Time::ZERO);
        recovery.enter(segments(ssthresh).as_f64(), &ack, &Path::new(MSS), &mut window);
        Self { recovery, window, flight, duplicates: 3 }
    }

    /// SND.NXT - SND.UNA without the segments that duplicate ACKs stand for; the lost segment was retransmitted (RFC
    /// 9937, section 6.2).
    fn in_flight(&self) -> Bytes {
        segments(self.flight - self.duplicates)
    }

    fn tell(&mut self) {
        let mut ack = Ack::new(Time::ZERO);
        ack.in_flight = self.in_flight();
        self.recovery.on_ack(&ack, &Path::new(MSS), &mut self.window);
    }

    fn send(&mut self) -> u64 {
        let mut count = 0;
        while (self.in_flight() + MSS).as_f64() <= self.window.cwnd {
            self.flight += 1;
            count += 1;
        }
        count
    }
}

proptest! {
    /// Both senders send the same number of segments after each ACK of an episode, and end with the same window.
    #[test]
    fn a_constant_window_over_the_pipe_is_rfc_6582(
        flight in 5_u64..200,
        events in prop::collection::vec(prop::option::weighted(0.3, 0_u64..20), 1..200),
    ) {
        let ssthresh = (flight / 2).max(2);
        let (mut textbook, mut ours) = (Textbook::enter(flight, ssthresh), Ours::enter(flight, ssthresh));
        for event in events {
            match event {
                // A duplicate ACK: one more segment has left the network, if there is one.
                None if ours.duplicates + 1 < ours.flight => {
                    textbook.duplicate();
                    ours.duplicates += 1;
                }
                None => continue,
                // A hole is filled, and with it segments that duplicate ACKs stood for.
                Some(more) => {
                    let filled = more.min(ours.duplicates);
                    if filled + 2 > ours.flight {
                        continue;
                    }
                    textbook.partial(filled + 1);
                    ours.flight -= filled + 1;
                    ours.duplicates -= filled;
                }
            }
            ours.tell();
            prop_assert_eq!(textbook.send(), ours.send(), "{:?}", textbook);
            prop_assert_eq!(textbook.flight, ours.flight);
        }
        // Step 3, full acknowledgment, option 1: everything except what is still in flight is acknowledged.
        let left = ours.in_flight();
        let mut ack = Ack::new(Time::ZERO);
        ack.in_flight = left;
        ours.recovery.exit(&ack, &Path::new(MSS), &mut ours.window);
        let expected = segments(ssthresh).min(left.max(MSS) + MSS);
        prop_assert_eq!(ours.window.cwnd, expected.as_f64());
    }
}

#[test]
fn option_two_leaves_the_threshold() {
    let mut recovery = NewReno { careful_exit: false, ..NewReno::default() };
    let mut window = Window::new(segments(20).as_f64());
    let (ack, path) = (Ack::new(Time::ZERO), Path::new(MSS));
    recovery.enter(segments(10).as_f64(), &ack, &path, &mut window);
    recovery.exit(&ack, &path, &mut window);
    assert_eq!(window.cwnd, segments(10).as_f64());
}

#[test]
fn without_partial_acks_it_asks_for_the_episodes_of_reno() {
    let reno = NewReno { partial_acks: false, ..NewReno::default() };
    let wanted = [NewReno::default(), reno].map(|recovery| recovery.needs().detection());
    assert_eq!(wanted, [Some(Detection::DuplicateAcks), Some(Detection::Reno)]);
}
