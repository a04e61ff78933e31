//! Random histories of a controller.

use longhaul_units::{Bytes, Span, Time};
use proptest::prelude::*;

use longhaul_cc::{Detection, EcnMark, Granted, NetworkHeaderKind, SendLimit};

/// One step of a random history. Steps that are not legal in the current state are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// The sender sends up to this many segments, as the window allows; retransmissions first.
    Send {
        /// Maximum number of segments.
        segments: u32,
    },
    /// The sender fills the window.
    Fill,
    /// An ACK for a part of the data in flight.
    Ack {
        /// Fraction of the bytes in flight, in units of 1/255.
        share: u8,
        /// RTT in multiples of the scenario's RTT; zero if it is shorter than a step of the clock.
        rtt: u8,
        /// Whether the ACK only acknowledges selectively.
        selective: bool,
        /// Whether the ACK reports congestion marks.
        marked: bool,
    },
    /// Several ACKs at the same time, each for an eighth of the data in flight, as if they had been queued.
    Bunch {
        /// Number of ACKs.
        acks: u8,
    },
    /// An ACK or a timer reveals losses.
    Lose {
        /// Fraction of the bytes in flight that is lost, in units of 1/255.
        share: u8,
        /// Whether a timer revealed the loss, so that nothing is delivered.
        timer: bool,
    },
    /// A retransmission is lost.
    LoseAgain,
    /// The remaining data in flight is acknowledged. An episode ends if all of its holes were retransmitted.
    Finish,
    /// The retransmission timer expires.
    Timeout,
    /// The last decrease turns out to be spurious.
    Spurious,
    /// Nothing is sent for several round trips.
    Idle {
        /// Number of round trips.
        rounds: u8,
    },
    /// Time passes.
    Wait {
        /// Duration in sixteenths of a round trip.
        sixteenths: u8,
    },
    /// The route changes, and with it the RTT without queues.
    Route {
        /// New RTT in sixteenths of the scenario's RTT, plus 1 ns.
        sixteenths: u8,
    },
    /// The segment size changes.
    Mss {
        /// New segment size in sixteenths of the scenario's, plus one byte.
        sixteenths: u8,
    },
    /// The limit of the sender changes.
    Limit(SendLimit),
    /// From now on, acknowledgments are selective or not.
    Sack(bool),
    /// The peer's window and the application's queue change.
    Peer {
        /// Window in segments.
        window: u16,
        /// Queue in segments.
        queued: u16,
    },
    /// A probe is sent, if the controller requests probes.
    Probe,
    /// The next ACK carries router feedback, if the controller sends requests to routers.
    Feedback {
        /// Rate in kB/s; zero denies the request.
        rate: u16,
    },
}

/// The environment of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scenario {
    /// Start time.
    pub start: Time,
    /// Resolution of the clock that the controller sees.
    pub resolution: Span,
    /// Segment size.
    pub mss: Bytes,
    /// RTT without queues.
    pub rtt: Span,
    /// Features that are granted.
    pub granted: Granted,
    /// Whether the handshake lost more than one segment.
    pub handshake_lossy: bool,
    /// Maximum window.
    pub cap: Bytes,
    /// Delay of ticks in sixteenths of an RTT, as in a transport without a timer for them.
    pub tick_delay: u8,
}

/// A path of 100 ms with segments of 1448 bytes, an exact clock and the grants that every transport offers.
impl Default for Scenario {
    fn default() -> Self {
        Self {
            start: Time::from_nanos(1_000_000_000 * 78_000_000),
            resolution: Span::from_nanos(1),
            mss: Bytes(1448),
            rtt: Span::from_millis(100),
            granted: Granted::basic(),
            handshake_lossy: false,
            cap: Bytes::MAX,
            tick_delay: 0,
        }
    }
}

fn granted() -> impl Strategy<Value = Granted> {
    let ecn = prop_oneof![Just(EcnMark::NotEct), Just(EcnMark::Ect0), Just(EcnMark::Ect1)];
    let header = prop_oneof![
        3 => Just(None),
        1 => Just(Some(NetworkHeaderKind::QuickStart)),
        1 => Just(Some(NetworkHeaderKind::Rcp)),
        1 => Just(Some(NetworkHeaderKind::Xcp)),
    ];
    (ecn, header, detection(), any::<[bool; 11]>()).prop_map(|(ecn, network_header, detection, flags)| {
        let mut granted = Granted::basic();
        (granted.ecn, granted.network_header, granted.detection) = (ecn, network_header, detection);
        [
            granted.probes,
            granted.pacing,
            granted.spreads,
            granted.arrival_times,
            granted.whole_window,
            granted.saved_path,
            granted.pairs,
            granted.ack_frequency,
            granted.segments,
            granted.probe_echo,
            granted.ack_delay_in_rtt,
        ] = flags;
        granted.spreads &= granted.pacing;
        granted
    })
}

fn detection() -> impl Strategy<Value = Detection> {
    prop_oneof![3 => Just(Detection::RackTlp), 1 => Just(Detection::Sack), 1 => Just(Detection::DuplicateAcks)]
}

fn limit() -> impl Strategy<Value = SendLimit> {
    use SendLimit::{App, Cpu, Cwnd, Pacing, PeerWindow, SendBuffer};
    prop::sample::select(vec![App, Cwnd, Pacing, PeerWindow, SendBuffer, Cpu])
}

/// Random environments: segments from 1 byte to 64 MiB (so that a few hundred make ten gigabytes), RTTs from a
/// nanosecond to two weeks, clocks with steps of 1 ns, 1 ms and 15.6 ms, ticks in time and up to an RTT late, and all
/// combinations of grants.
pub fn scenarios() -> impl Strategy<Value = Scenario> {
    let mss = prop_oneof![4 => Just(1448_u64), 1 => 1_u64..10_000, 1 => Just(1 << 26)];
    // Powers of ten in nanoseconds: 10^15 ns are eleven days.
    let rtt = prop_oneof![4 => 5_u32..9, 1 => 0_u32..16].prop_flat_map(|decade| 1..=10_u64.pow(decade).max(1));
    let resolution = prop_oneof![3 => Just(1), 1 => Just(1_000_000), 1 => Just(15_600_000)];
    let cap = prop_oneof![Just(u64::MAX), Just(1 << 40), Just(1 << 30), Just(100_000)];
    let tick_delay = prop_oneof![3 => Just(0), 1 => 1_u8..=16];
    (mss, rtt, granted(), any::<bool>(), cap, 1_u64 << 55..1 << 60, resolution, tick_delay).prop_map(
        |(mss, rtt, granted, handshake_lossy, cap, start, resolution, tick_delay)| Scenario {
            start: Time::from_nanos(start),
            resolution: Span::from_nanos(resolution),
            mss: Bytes(mss),
            rtt: Span::from_nanos(rtt),
            granted,
            handshake_lossy,
            cap: Bytes(cap),
            tick_delay,
        },
    )
}

/// Random histories of up to 200 operations. Losses are frequent enough to matter, and rare enough for windows to
/// grow.
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
        1 => any::<bool>().prop_map(Operation::Sack),
        1 => any::<(u16, u16)>().prop_map(|(window, queued)| Operation::Peer { window, queued }),
        2 => Just(Operation::Probe),
        1 => any::<u16>().prop_map(|rate| Operation::Feedback { rate }),
    ];
    prop::collection::vec(one, 0..200)
}
