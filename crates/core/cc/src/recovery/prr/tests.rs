use longhaul_units::Time;
use proptest::prelude::*;

use super::*;
use crate::TxId;
use crate::tests::{MSS, segments};

/// PRR with a window and the state of the flight, in segments.
struct Flow {
    prr: Prr,
    window: Window,
    in_flight: Bytes,
    sent: u64,
    path: Path,
}

/// Contents of one ACK in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Says {
    delivered: u64,
    lost: u64,
    cumulative: u64,
}

impl Flow {
    /// Starts an episode towards `target` segments, with `in_flight` segments in flight before the first ACK.
    fn begin(in_flight: u64, target: u64, says: Says) -> Self {
        let mut flow = Self {
            prr: Prr::default(),
            window: Window::new(segments(in_flight).as_f64()),
            in_flight: segments(in_flight),
            sent: 0,
            path: Path::new(MSS),
        };
        let mut ack = flow.ack(says);
        ack.recover_flight = segments(in_flight);
        flow.prr.enter(segments(target).as_f64(), &ack, &flow.path, &mut flow.window);
        flow
    }

    fn ack(&mut self, says: Says) -> Ack<'static> {
        let mut ack = Ack::new(Time::ZERO);
        ack.prior_in_flight = self.in_flight;
        self.in_flight -= segments(says.delivered + says.lost);
        ack.in_flight = self.in_flight;
        ack.delivered = segments(says.delivered);
        ack.newly_lost = segments(says.lost);
        ack.cumulative = segments(says.cumulative);
        ack.episode = Episode::In;
        ack
    }

    fn tell(&mut self, says: Says) {
        let ack = self.ack(says);
        self.prr.on_ack(&ack, &self.path, &mut self.window);
    }

    /// Sends what the window allows, retransmissions or new data. Returns the number of segments.
    fn send(&mut self) -> u64 {
        let mut count = 0;
        while (self.in_flight + MSS).as_f64() <= self.window.cwnd {
            self.in_flight += MSS;
            self.prr.on_sent(&Sent::new(Time::ZERO, TxId(0), MSS), &Path::new(MSS));
            count += 1;
        }
        self.sent += count;
        count
    }

    fn acks(&mut self, count: u64, says: Says) -> Vec<u64> {
        (0..count)
            .map(|_| {
                self.tell(says);
                self.send()
            })
            .collect()
    }
}

const DELIVERS_ONE: Says = Says { delivered: 1, lost: 0, cumulative: 0 };

/// Setting of RFC 6937, section 4, first example: 20 segments are in flight, the first is lost, and ssthresh is 10.
/// By RFC 9937's equations in bytes, k x 10 / 20 segments may have been sent after k were delivered. Every second ACK
/// therefore releases a segment once the forced retransmission is compensated, while RFC 6675 is silent for eight
/// ACKs. At k = 16 ten segments are in flight, and each further delivery is replaced.
#[test]
fn one_loss_halves_the_flight_evenly() {
    let mut flow = Flow::begin(20, 10, Says { delivered: 1, lost: 1, cumulative: 0 });
    assert_eq!(flow.send(), 1, "the retransmission");
    let released = flow.acks(16, DELIVERS_ONE);
    assert_eq!(released, [0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1]);
    assert_eq!(flow.in_flight, segments(10));
    assert_eq!(flow.acks(3, DELIVERS_ONE), [1, 1, 1]);
    assert_eq!(flow.in_flight, segments(10));
}

/// Second example of that section: most of 20 segments are lost at once, so that fewer than ssthresh remain. Each ACK
/// releases what it delivered. Once SND.UNA advances without further losses, it releases one segment more, up to the
/// target.
#[test]
fn a_burst_of_losses_conserves_segments_then_grows_to_the_target() {
    let mut flow = Flow::begin(20, 10, Says { delivered: 1, lost: 15, cumulative: 0 });
    assert_eq!(flow.send(), 1);
    assert_eq!(flow.acks(3, DELIVERS_ONE), [1, 1, 1]);
    assert_eq!(flow.in_flight, segments(5));
    assert_eq!(flow.acks(3, Says { delivered: 1, lost: 0, cumulative: 1 }), [2, 2, 2]);
    assert_eq!(flow.acks(1, Says { delivered: 1, lost: 1, cumulative: 1 }), [1], "no safe ACK");
    let rest = flow.acks(6, Says { delivered: 1, lost: 0, cumulative: 1 });
    assert_eq!(rest, [2, 2, 2, 1, 1, 1]);
    assert_eq!(flow.in_flight, segments(10));
}

/// A congestion mark requires no retransmission: the amount in flight decreases from the first ACK on.
#[test]
fn a_mark_forces_nothing() {
    let mut ack = Ack::new(Time::ZERO);
    (ack.prior_in_flight, ack.in_flight, ack.delivered) = (segments(10), segments(9), segments(1));
    let mut window = Window::new(segments(10).as_f64());
    Prr::default().enter(segments(1).as_f64(), &ack, &Path::new(MSS), &mut window);
    assert!(window.cwnd < (ack.in_flight + MSS).as_f64(), "{}", window.cwnd);
}

/// RFC 9937, section 6.2: the first retransmission is sent at once, even if the proportion does not allow it.
#[test]
fn the_first_retransmission_is_forced() {
    // A timer detected the loss, and nothing was delivered.
    let mut flow = Flow::begin(100, 50, Says { delivered: 0, lost: 10, cumulative: 0 });
    assert_eq!(flow.send(), 1);
    // Later losses detected by a timer release nothing by themselves.
    flow.tell(Says { delivered: 0, lost: 20, cumulative: 0 });
    assert_eq!(flow.send(), 0);
    assert_eq!(flow.acks(1, DELIVERS_ONE).len(), 1);
}

/// RFC 9937, section 6.2: without SACK, delivery counts up to RecoverFS.
#[test]
fn without_sack_delivery_is_capped() {
    let mut flow = Flow::begin(10, 5, Says { delivered: 1, lost: 1, cumulative: 0 });
    flow.path.sack = false;
    flow.acks(40, Says { delivered: 0, lost: 0, cumulative: 0 });
    flow.in_flight = segments(100);
    flow.acks(40, DELIVERS_ONE);
    assert_eq!(flow.prr.delivered, segments(10).0);
}

#[test]
fn the_end_leaves_the_target_and_probes_do_not_count() {
    let mut flow = Flow::begin(20, 10, Says { delivered: 1, lost: 1, cumulative: 0 });
    let mut probe = Sent::new(Time::ZERO, TxId(1), MSS);
    probe.kind = SegmentKind::Probe;
    flow.prr.on_sent(&probe, &Path::new(MSS));
    assert_eq!(flow.prr.out, 0);
    let ack = flow.ack(Says { delivered: 1, lost: 0, cumulative: 20 });
    flow.prr.exit(&ack, &flow.path, &mut flow.window);
    assert_eq!(flow.window.cwnd, segments(10).as_f64());
}

proptest! {
    /// While more than the target is in flight, the amount sent is ceil(delivered x target / RecoverFS). Below the
    /// target it is at most the delivered amount and one segment per ACK. The target is never exceeded from below.
    #[test]
    fn proportion_above_and_conservation_below(
        flight in 4_u64..400,
        share in 1_u64..10,
        acks in prop::collection::vec((1_u64..4, 0_u64..3, any::<bool>()), 1..200),
    ) {
        let target = (flight * share / 10).max(2);
        let mut flow = Flow::begin(flight, target, Says { delivered: 1, lost: 1, cumulative: 0 });
        flow.send();
        let mut delivered = 1;
        for (count, lost, advances) in acks {
            let count = count.min(flow.in_flight.0 / MSS.0);
            let lost = lost.min(flow.in_flight.0 / MSS.0 - count);
            if count == 0 {
                break;
            }
            delivered += count;
            flow.tell(Says { delivered: count, lost, cumulative: u64::from(advances) });
            let before = flow.in_flight;
            let sent = flow.send();
            if before > segments(target) {
                prop_assert!(flow.sent <= (delivered.min(flight) * target).div_ceil(flight).max(1));
            } else {
                prop_assert!(sent <= count.max((delivered + 1).saturating_sub(flow.sent - sent)) + 1);
                prop_assert!(flow.in_flight <= segments(target).max(before));
            }
        }
    }
}

/// The ACKs of a round trip arrive in a bunch, and the pacer sends what they allow only after the last one. Twice the
/// delivered amount is sent, as if each ACK had been answered at once. If only the window was the limit, the
/// allowance does not accumulate.
#[test]
fn what_the_pacer_holds_back_stays_allowed() {
    let one = Says { delivered: 1, lost: 0, cumulative: 1 };
    let flight = |limit| {
        let mut flow = Flow::begin(100, 50, Says { delivered: 1, lost: 98, cumulative: 0 });
        let mut sent = vec![flow.send()];
        for _ in 0..4 {
            for _ in 0..sent[sent.len() - 1] {
                let mut ack = flow.ack(one);
                ack.limit = limit;
                flow.prr.on_ack(&ack, &flow.path, &mut flow.window);
            }
            sent.push(flow.send());
        }
        sent
    };
    let paced = flight(SendLimit::Pacing);
    assert!(paced.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{paced:?}");
    let other = flight(SendLimit::PeerWindow);
    assert!(other.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{other:?}");
}
