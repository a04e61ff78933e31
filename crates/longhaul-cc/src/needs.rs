//! What a controller needs of the transport and the peer, and what it was granted.

use core::fmt;

use crate::EcnMark;

/// A controller's demands: it cannot work without `required`, it works better with `preferred`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Needs {
    /// Without these the controller falls back as its page says, or fails the connection in
    /// [`Controller::on_granted`](crate::Controller::on_granted).
    pub required: Demands,
    /// These are asked for and may be refused.
    pub preferred: Demands,
}

/// A set of things that a transport may offer, each of which costs something where it is granted.
///
/// [Estimators](crate::estimate) are not among them: who uses one owns it, and asks here for what it lives on. RTT and
/// delivery-rate samples need no asking.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demands {
    /// An ECN codepoint on data segments, with the feedback that belongs to it.
    pub ecn: EcnMark,
    /// Low-priority probes beside the window.
    pub probes: bool,
    /// Pacing at the controller's own rate.
    pub pacing: bool,
    /// Arrival times of data segments at the receiver.
    pub arrival_times: bool,
    /// The whole of the peer's receive window from the handshake on, where it would tell of 64 KiB at most: for who fills more in the
    /// first round trip. Nobody is told whether it is granted: [`Path::peer_window`](crate::Path::peer_window) is what there is.
    pub whole_window: bool,
    /// What earlier connections to the host came to, in [`BuildParams::saved_path`](crate::BuildParams::saved_path). One connection
    /// at a time has it. As with the window, nobody is told whether there is any.
    pub saved_path: bool,
    /// Pairs of data segments that leave back to back in flipped order, to measure the narrow link (TCPProbe).
    pub pairs: bool,
    /// Acknowledgements at another cadence than the receiver's usual one.
    pub ack_cadence: AckCadence,
    /// A header that routers read and write.
    pub network_header: Option<NetworkHeaderKind>,
    /// [`Ack::acked`](crate::Ack::acked) filled in for every segment (else it is empty).
    pub segments: bool,
    /// The loss detection to use; `None` takes the transport's default.
    pub detection: Option<Detection>,
}

impl Needs {
    /// The demands of both; for a single choice (detection, header) `self`'s wins.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { required: self.required.union(other.required), preferred: self.preferred.union(other.preferred) }
    }

    /// The loss detection to run: what is required, else what is preferred, else the transport's own choice.
    #[must_use]
    pub fn detection(&self) -> Option<Detection> {
        self.required.detection.or(self.preferred.detection)
    }
}

impl Demands {
    /// The demands of both; for a single choice (detection, header) `self`'s wins, of two ECN codepoints and two
    /// cadences the stronger.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            ecn: self.ecn.max(other.ecn),
            probes: self.probes || other.probes,
            pacing: self.pacing || other.pacing,
            arrival_times: self.arrival_times || other.arrival_times,
            whole_window: self.whole_window || other.whole_window,
            saved_path: self.saved_path || other.saved_path,
            pairs: self.pairs || other.pairs,
            ack_cadence: self.ack_cadence.max(other.ack_cadence),
            network_header: self.network_header.or(other.network_header),
            segments: self.segments || other.segments,
            detection: self.detection.or(other.detection),
        }
    }

    /// The first demand that `granted` does not meet, in words for [`NeedError`]; `None` if all are met.
    ///
    /// A weaker ECN codepoint than the one demanded does not meet it.
    #[must_use]
    pub fn missing(&self, granted: &Granted) -> Option<&'static str> {
        let unmet = [
            (self.ecn > granted.ecn, "ECN"),
            (self.probes && !granted.probes, "probes"),
            (self.pacing && !granted.pacing, "pacing"),
            (self.arrival_times && !granted.arrival_times, "arrival times"),
            (self.pairs && !granted.pairs, "flipped pairs"),
            (self.ack_cadence != AckCadence::Usual && !granted.ack_cadence, "another ACK cadence"),
            (self.network_header.is_some() && self.network_header != granted.network_header, "router feedback"),
            (self.segments && !granted.segments, "per-segment reports"),
            (self.detection.is_some_and(|wanted| wanted != granted.detection), "another loss detection"),
        ];
        unmet.into_iter().find_map(|(lacking, what)| lacking.then_some(what))
    }
}

/// How often the receiver should acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AckCadence {
    /// The receiver's own choice.
    #[default]
    Usual,
    /// What [`Control::ack_ratio`](crate::Control::ack_ratio) says, from moment to moment.
    Varied,
    /// Every segment of the first so many.
    First(u32),
    /// Every segment.
    All,
}

/// Which router feedback a controller speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkHeaderKind {
    /// Quick-Start (RFC 4782).
    QuickStart,
    /// RCP.
    Rcp,
    /// XCP.
    Xcp,
}

/// Which loss detection the transport runs for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// RACK-TLP (RFC 8985).
    RackTlp,
    /// SACK counting (RFC 6675).
    Sack,
    /// Three duplicate ACKs (RFC 5681, RFC 6582): SACK is not negotiated.
    DuplicateAcks,
}

/// What there is, told once after the handshake and again if it changes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Granted {
    /// The strongest codepoint that may be used.
    pub ecn: EcnMark,
    /// Whether probes can be sent and told apart when they come back.
    pub probes: bool,
    /// Whether the peer names each probe that it answers. A peer that does not reports duplicates (RFC 2883), which may be
    /// retransmissions as well: of what was sent again it tells nothing.
    pub probe_echo: bool,
    /// Whether the transport paces.
    pub pacing: bool,
    /// Whether it spreads a window over the round trip, too, where the controller sets no pace; false if it does not pace.
    pub spreads: bool,
    /// Whether the peer reports arrival times.
    pub arrival_times: bool,
    /// Whether flipped pairs are sent and reported.
    pub pairs: bool,
    /// Whether the peer heeds requests for another cadence of acknowledgements.
    pub ack_cadence: bool,
    /// Router feedback that the application vouched for.
    pub network_header: Option<NetworkHeaderKind>,
    /// Whether segments are reported one by one.
    pub segments: bool,
    /// The loss detection in force.
    pub detection: Detection,
}

impl Granted {
    /// What a bare transport offers: pacing and RACK-TLP, nothing from the peer.
    #[must_use]
    pub const fn basic() -> Self {
        Self {
            ecn: EcnMark::NotEct,
            probes: false,
            probe_echo: false,
            pacing: true,
            spreads: true,
            arrival_times: false,
            pairs: false,
            ack_cadence: false,
            network_header: None,
            segments: false,
            detection: Detection::RackTlp,
        }
    }
}

/// A required need that was not granted; the connection fails with this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedError {
    /// The controller's name.
    pub controller: String,
    /// What it lacks, such as `arrival times`.
    pub need: &'static str,
}

impl fmt::Display for NeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "congestion controller {} needs {}, which this path or peer does not offer",
            self.controller, self.need
        )
    }
}

impl std::error::Error for NeedError {}
