//! Events of a connection for logs and traces, and the observers that receive them.
//!
//! An [`Observer`] is installed on a connection with [`Endpoint::observe`](crate::Endpoint::observe), or from its first
//! segment on by [`IncomingObservers`]. A connection without observers checks one pointer where an event would be
//! reported; it neither computes nor allocates anything for the event.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_units::{Time, named};
use longhaul_wire::{Ecn, Header, ParseError};

use crate::{ConnectionError, HostError, Metrics, Parameters, State, Tuple};

/// Receiver of a connection's events.
pub trait Observer: Debug + Send {
    /// Returns which events to report. It is called once, when the observer is installed.
    fn detail(&self) -> Detail {
        Detail::Segments
    }

    /// Handles an event. `now` is the time on the connection's clock and never decreases. The last event of every
    /// connection is [`ConnectionEvent::Closed`], unless the connection is dropped together with its endpoint.
    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>);
}

/// Shares an observer with its creator.
impl<T: Observer> Observer for Arc<Mutex<T>> {
    fn detail(&self) -> Detail {
        self.lock().unwrap_or_else(PoisonError::into_inner).detail()
    }

    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        self.lock().unwrap_or_else(PoisonError::into_inner).event(now, event);
    }
}

/// Factory of the observers of connections that peers open.
pub trait IncomingObservers: Debug + Send {
    /// Returns the observers of a connection whose SYN has arrived at `now`; an empty vector if it is not observed.
    fn observers(&mut self, now: Time, tuple: &Tuple) -> Vec<Box<dyn Observer>>;
}

/// Selection of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Events that are rare compared with segments: states, recovery episodes, timeouts, phases.
    Changes,
    /// All events, including those of every segment.
    Segments,
}

/// Event of a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConnectionEvent<'a> {
    /// The handshake is about to end, in success or failure, with these parameters. Precedes the change of state.
    ParametersSet(Parameters),
    /// The state has changed. `old` is `None` if the observer was installed after the handshake.
    StateChanged {
        /// State before the change; `None` if unknown.
        old: Option<State>,
        /// State after the change.
        new: State,
    },
    /// The application has released the connection, which is then closed in an orderly way.
    Released,
    /// A segment was sent: handed to the caller of [`poll_transmit`](crate::Connection::poll_transmit).
    /// [`Detail::Segments`].
    SegmentSent {
        /// Header and lengths of the segment.
        segment: SegmentRecord<'a>,
        /// Whether all of the segment's sequence space had been sent before.
        retransmission: bool,
    },
    /// A segment was received and is processed next. [`Detail::Segments`].
    SegmentReceived(SegmentRecord<'a>),
    /// A datagram was received that is not a valid segment.
    DatagramDropped {
        /// UDP payload in bytes.
        len: usize,
        /// Reason why it is invalid.
        error: ParseError,
    },
    /// A received segment was not accepted.
    SegmentRejected(Rejection),
    /// An ACK has delivered data. [`Detail::Segments`].
    DataAcked {
        /// Bytes newly acknowledged by the cumulative ACK, SACKed earlier or not.
        cumulative: u64,
        /// Bytes newly delivered, by the cumulative ACK or by SACK.
        delivered: u64,
    },
    /// A segment in flight was marked lost. [`Detail::Segments`].
    SegmentLost {
        /// Sequence number of the first octet of the segment.
        sequence: u32,
        /// Sequence space of the segment in bytes.
        bytes: u64,
        /// The detector that marked it.
        trigger: LossTrigger,
    },
    /// A recovery episode has begun, or begins again because a retransmission was lost.
    RecoveryStarted {
        /// Whether a retransmission timeout began it.
        timeout: bool,
    },
    /// A recovery episode has ended: everything outstanding at its beginning was acknowledged.
    RecoveryEnded,
    /// The current recovery episode was found spurious and is undone (RFC 3522, RFC 4015, RFC 5682).
    RecoveryUndone {
        /// Whether a retransmission timeout began it.
        timeout: bool,
    },
    /// A timer was armed or moved. Only [retransmission](TimerKind::Retransmission) and
    /// [tail loss probe](TimerKind::TailLossProbe) timers. [`Detail::Segments`].
    TimerSet {
        /// Kind of the timer.
        timer: TimerKind,
        /// Deadline of the timer.
        at: Time,
    },
    /// A timer was stopped before it expired. Only [retransmission](TimerKind::Retransmission) and
    /// [tail loss probe](TimerKind::TailLossProbe) timers. [`Detail::Segments`].
    TimerStopped(TimerKind),
    /// A timer has expired.
    TimerExpired(TimerKind),
    /// Metrics have changed while the connection processed a segment, a timer or a transmission. Reported afterwards,
    /// when all values are consistent. [`Detail::Segments`].
    MetricsUpdated(Metrics),
    /// The congestion controller has entered another phase.
    PhaseChanged {
        /// Name of the phase before the change.
        old: &'static str,
        /// Name of the phase after the change.
        new: &'static str,
    },
    /// Path MTU discovery has changed the packet size (RFC 8899).
    MtuUpdated {
        /// Former PLPMTU: UDP payload in bytes.
        old: u16,
        /// Current PLPMTU.
        new: u16,
    },
    /// The verification of ECN has changed state (RFC 3168, section 20.2).
    EcnStateChanged {
        /// State before the change.
        old: EcnState,
        /// State after the change.
        new: EcnState,
    },
    /// The client has sent a claim from an address that the server may not know, the `claims`th of this attempt.
    MoveClaimed {
        /// Counter of the move.
        counter: u32,
        /// Claims since the last challenge, including this one.
        claims: u32,
    },
    /// The client has received a valid challenge, and answers it.
    MoveChallenged {
        /// Counter of the move.
        counter: u32,
    },
    /// The client has given up: its last claim was not answered either.
    MoveFailed,
    /// The connection continues between other addresses, or from a local address that only the system knows.
    Moved {
        /// Current address of the peer.
        remote: SocketAddr,
        /// Current local address, if the endpoint knows it.
        local: Option<IpAddr>,
        /// Whether only the peer's port has changed, so that window, round-trip time and path MTU are kept.
        keeps_path: bool,
    },
    /// The host reports an error of the path.
    HostError(HostError),
    /// The connection is over. This is its last event.
    Closed(Option<ConnectionError>),
}

/// Segment as transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRecord<'a> {
    /// Header of the segment.
    pub header: &'a Header,
    /// Length of the header on the wire in bytes.
    pub header_len: usize,
    /// Payload in bytes.
    pub payload_len: usize,
    /// ECN field of the IP header.
    pub ecn: Ecn,
}

named! {
    /// Reason why a received segment was not accepted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Rejection {
        /// The timestamp of the segment is old or missing (PAWS; RFC 7323, section 5.3).
        Timestamp = "timestamp",
        /// The segment lies outside the receive window (RFC 9293, section 3.10.7.4).
        OutsideWindow = "outside_window",
        /// The segment acknowledges data that was never sent, or too old data (RFC 5961, section 5.2).
        Acknowledgment = "acknowledgment",
        /// No memory was available for the segment's data.
        NoMemory = "no_memory",
    }
}

named! {
    /// Detector that marks a segment lost. The names are those of qlog's `packet_lost`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum LossTrigger {
        /// Enough segments or duplicate ACKs were received after it (RFC 6675, RFC 5681).
        ReorderingThreshold = "reordering_threshold",
        /// A segment sent later was delivered, and the reordering window has ended (RFC 8985).
        TimeThreshold = "time_threshold",
        /// The retransmission timer expired (RFC 6298).
        Timeout = "pto_expired",
    }
}

named! {
    /// Timer whose expiry is reported.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum TimerKind {
        /// Retransmission timeout, SYN and FIN included (RFC 6298).
        Retransmission = "rto",
        /// Tail loss probe (RFC 8985, section 7.2), or a probe of a suspected outage.
        TailLossProbe = "tlp",
        /// Reordering window (RFC 8985, section 6.2).
        Reordering = "reordering",
        /// Delayed ACK (RFC 9293, section 3.8.6.3).
        DelayedAck = "ack",
        /// Zero-window probe (RFC 9293, section 3.8.6.1).
        Persist = "persist",
        /// Keep-alive probe (RFC 9293, section 3.8.4).
        KeepAlive = "keep_alive",
        /// User timeout (RFC 9293, section 3.8.3).
        User = "user_timeout",
        /// End of TIME-WAIT, or of waiting in FIN-WAIT-2.
        Linger = "linger",
        /// Probe of a port that was reported closed (RFC 1122, section 4.2.3.9).
        PortProbe = "port_probe",
    }
}

named! {
    /// State of loss recovery.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum RecoveryState {
        /// No recovery episode is in progress.
        #[default]
        Open = "open",
        /// Fast recovery (RFC 6675, RFC 8985).
        Recovery = "recovery",
        /// Recovery after a retransmission timeout.
        Timeout = "timeout",
    }
}

named! {
    /// State of the verification that the peer echoes ECN marks (RFC 3168, section 20.2). The names are those of qlog.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum EcnState {
        /// ECN was not negotiated.
        #[default]
        Off = "unknown",
        /// ECN is in use.
        Capable = "capable",
        /// A segment was sent with CE, and its echo is awaited.
        Testing = "testing",
        /// Echoes were missing: segments are sent as not ECN-capable.
        Failed = "failed",
    }
}
