//! What may happen to a controller.

use longhaul_units::{Bytes, Span, Time};
use proptest::prelude::*;

use crate::{Detection, EcnMark, Granted, NetworkHeaderKind, SendLimit};

/// One step of a random history. What is not legal at that point is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// The sender sends what the window allows, up to so many segments; retransmissions first.
    Send {
        /// The most.
        segments: u32,
    },
    /// The sender fills the window.
    Fill,
    /// An ACK for a part of what is in flight.
    Ack {
        /// Part of the bytes in flight, of 255.
        share: u8,
        /// Round trip in units of the scenario's; zero where it ends within one step of a coarse clock.
        rtt: u8,
        /// Whether it only acknowledges selectively.
        selective: bool,
        /// Whether it reports congestion marks.
        marked: bool,
    },
    /// So many ACKs at one instant, each for an eighth of what is in flight: they waited for each other on the way.
    Bunch {
        /// How many.
        acks: u8,
    },
    /// An ACK, or a timer, that reveals losses.
    Lose {
        /// Part of the bytes in flight that is lost, of 255.
        share: u8,
        /// Whether a timer revealed it: nothing is delivered.
        timer: bool,
    },
    /// A retransmission is lost in its turn.
    LoseAgain,
    /// The rest of what is in flight is acknowledged; an episode whose holes were all resent ends.
    Finish,
    /// The retransmission timer fires.
    Timeout,
    /// The last decrease turns out to be spurious.
    Spurious,
    /// Nothing is sent for so many round trips.
    Idle {
        /// Round trips.
        rounds: u8,
    },
    /// Time passes.
    Wait {
        /// Sixteenths of a round trip.
        sixteenths: u8,
    },
    /// Another route: the round trip without queues is another from now on.
    Route {
        /// Share of the scenario's round trip, of 16; a nanosecond more.
        sixteenths: u8,
    },
    /// Segments of another size from now on.
    Mss {
        /// Share of the scenario's segment size, of 16, plus one.
        sixteenths: u8,
    },
    /// The sender is limited otherwise.
    Limit(SendLimit),
    /// The loss detection changes.
    Detect(Detection),
    /// The peer's window and the application's queue change.
    Peer {
        /// Window in segments.
        window: u16,
        /// Queue in segments.
        queued: u16,
    },
    /// A probe leaves, if the controller asked for some.
    Probe,
    /// Router feedback comes with the next ACK, if the controller writes a header.
    Feedback {
        /// Rate in kB/s; zero denies.
        rate: u16,
    },
}

/// The world in which a history takes place.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scenario {
    /// When it begins.
    pub start: Time,
    /// Resolution of the clock by which the controller is told the time.
    pub resolution: Span,
    /// Segment size.
    pub mss: Bytes,
    /// Round trip without queues.
    pub rtt: Span,
    /// What is granted.
    pub granted: Granted,
    /// Whether the handshake lost more than one segment.
    pub handshake_lossy: bool,
    /// The largest window allowed.
    pub cap: Bytes,
}

fn granted() -> impl Strategy<Value = Granted> {
    let ecn = prop_oneof![Just(EcnMark::NotEct), Just(EcnMark::Ect0), Just(EcnMark::Ect1)];
    let header = prop_oneof![
        3 => Just(None),
        1 => Just(Some(NetworkHeaderKind::QuickStart)),
        1 => Just(Some(NetworkHeaderKind::Rcp)),
        1 => Just(Some(NetworkHeaderKind::Xcp)),
    ];
    (ecn, header, detection(), any::<[bool; 8]>()).prop_map(|(ecn, network_header, detection, flags)| {
        let [probes, pacing, spreads, arrival_times, pairs, ack_cadence, segments, probe_echo] = flags;
        Granted {
            ecn,
            probes,
            probe_echo,
            pacing,
            spreads: pacing && spreads,
            arrival_times,
            pairs,
            ack_cadence,
            network_header,
            segments,
            detection,
        }
    })
}

fn detection() -> impl Strategy<Value = Detection> {
    prop_oneof![3 => Just(Detection::RackTlp), 1 => Just(Detection::Sack), 1 => Just(Detection::DuplicateAcks)]
}

fn limit() -> impl Strategy<Value = SendLimit> {
    use SendLimit::{App, Cpu, Cwnd, Pacing, PeerWindow, SendBuffer};
    prop::sample::select(vec![App, Cwnd, Pacing, PeerWindow, SendBuffer, Cpu])
}

/// Worlds: segments from 1 byte to 64 MiB (so that a few hundred make ten gigabytes), round trips from a nanosecond to
/// two weeks, clocks with steps of a nanosecond, 1 ms and 15.6 ms, all grants.
pub fn scenarios() -> impl Strategy<Value = Scenario> {
    let mss = prop_oneof![4 => Just(1448_u64), 1 => 1_u64..10_000, 1 => Just(1 << 26)];
    // Decades of nanoseconds: 10^15 are eleven days.
    let rtt = prop_oneof![4 => 5_u32..9, 1 => 0_u32..16].prop_flat_map(|decade| 1..=10_u64.pow(decade).max(1));
    let resolution = prop_oneof![3 => Just(1), 1 => Just(1_000_000), 1 => Just(15_600_000)];
    let cap = prop_oneof![Just(u64::MAX), Just(1 << 40), Just(1 << 30), Just(100_000)];
    (mss, rtt, granted(), any::<bool>(), cap, 1_u64 << 55..1 << 60, resolution).prop_map(
        |(mss, rtt, granted, handshake_lossy, cap, start, resolution)| Scenario {
            start: Time::from_nanos(start),
            resolution: Span::from_nanos(resolution),
            mss: Bytes(mss),
            rtt: Span::from_nanos(rtt),
            granted,
            handshake_lossy,
            cap: Bytes(cap),
        },
    )
}

/// Histories of up to 200 operations in which losses are frequent enough to matter and rare enough to grow.
pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let ack = (any::<u8>(), 0_u8..8, prop::bool::weighted(0.2), prop::bool::weighted(0.1))
        .prop_map(|(share, rtt, selective, marked)| Operation::Ack { share, rtt, selective, marked });
    let lose = (any::<u8>(), prop::bool::weighted(0.2)).prop_map(|(share, timer)| Operation::Lose { share, timer });
    let one = prop_oneof![
        6 => Just(Operation::Fill),
        3 => (1_u32..64).prop_map(|segments| Operation::Send { segments }),
        10 => ack,
        2 => lose,
        1 => Just(Operation::LoseAgain),
        4 => Just(Operation::Finish),
        1 => Just(Operation::Timeout),
        1 => Just(Operation::Spurious),
        1 => (1_u8..16).prop_map(|rounds| Operation::Idle { rounds }),
        1 => any::<u8>().prop_map(|sixteenths| Operation::Wait { sixteenths }),
        1 => (2_u8..8).prop_map(|acks| Operation::Bunch { acks }),
        1 => (0_u8..64).prop_map(|sixteenths| Operation::Route { sixteenths }),
        1 => (0_u8..32).prop_map(|sixteenths| Operation::Mss { sixteenths }),
        1 => limit().prop_map(Operation::Limit),
        1 => detection().prop_map(Operation::Detect),
        1 => any::<(u16, u16)>().prop_map(|(window, queued)| Operation::Peer { window, queued }),
        2 => Just(Operation::Probe),
        1 => any::<u16>().prop_map(|rate| Operation::Feedback { rate }),
    ];
    prop::collection::vec(one, 0..200)
}
