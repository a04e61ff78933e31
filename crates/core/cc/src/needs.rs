//! Features that a controller requests of the transport and the peer, and those that were granted.

use crate::EcnMark;

/// A controller's requests: it cannot work without `required`, and works better with `preferred`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Needs {
    /// Without these, the controller falls back as its documentation page describes, or fails the connection in
    /// [`Controller::on_granted`](crate::Controller::on_granted).
    pub required: Demands,
    /// The controller requests these features, which may be refused.
    pub preferred: Demands,
}

/// A set of optional features of a transport, each of which costs something if it is granted.
///
/// [Estimators](crate::estimate) are not among them: each belongs to the stage or controller that uses it, which
/// requests the estimator's inputs here. RTT and delivery-rate samples need no request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Demands {
    /// An ECN codepoint on data segments, and the feedback for it.
    pub ecn: EcnMark,
    /// Low-priority probes in addition to the window.
    pub probes: bool,
    /// Pacing at a rate that the controller sets.
    pub pacing: bool,
    /// Arrival times of data segments at the receiver.
    pub arrival_times: bool,
    /// The peer's full receive window from the handshake on, where a SYN-ACK could announce at most 64 KiB; for
    /// algorithms that send more in the first round trip. [`Path::peer_window`](crate::Path::peer_window) is the
    /// available window.
    pub whole_window: bool,
    /// The saved path of earlier connections to the host, in
    /// [`BuildParams::saved_path`](crate::BuildParams::saved_path). One connection at a time can have it.
    pub saved_path: bool,
    /// Pairs of data segments sent back to back in flipped order, to measure the bottleneck link (TCPProbe).
    pub pairs: bool,
    /// ACK frequency to request from the receiver.
    pub ack_frequency: AckFrequency,
    /// A header that routers read and write.
    pub network_header: Option<NetworkHeaderKind>,
    /// A list of the delivered segments in [`Ack::acked`](crate::Ack::acked), which is empty otherwise.
    pub segments: bool,
    /// The loss detection to use; `None` leaves the choice to the transport.
    pub detection: Option<Detection>,
}

impl Needs {
    /// Returns the union of both; where only one value is possible (detection, header), `self` takes precedence.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { required: self.required.union(other.required), preferred: self.preferred.union(other.preferred) }
    }

    /// Returns the loss detection to run: the required one, else the preferred one, else `None` for the transport's
    /// default.
    #[must_use]
    pub fn detection(&self) -> Option<Detection> {
        self.required.detection.or(self.preferred.detection)
    }
}

impl Demands {
    /// Returns the union of both. Where only one value is possible (detection, header), `self` takes precedence; of
    /// two ECN codepoints or ACK frequencies, the stronger one is taken.
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
            ack_frequency: self.ack_frequency.max(other.ack_frequency),
            network_header: self.network_header.or(other.network_header),
            segments: self.segments || other.segments,
            detection: self.detection.or(other.detection),
        }
    }

    /// Returns the first request that `granted` does not meet, in words for [`NeedError`], or `None` if all are met.
    ///
    /// A weaker ECN codepoint than the required one does not satisfy the request.
    #[must_use]
    pub fn missing(&self, granted: &Granted) -> Option<&'static str> {
        let unmet = [
            (self.ecn > granted.ecn, "ECN"),
            (self.probes && !granted.probes, "probes"),
            (self.pacing && !granted.pacing, "pacing"),
            (self.arrival_times && !granted.arrival_times, "arrival times"),
            (self.pairs && !granted.pairs, "flipped pairs"),
            (self.ack_frequency != AckFrequency::Usual && !granted.ack_frequency, "another ACK frequency"),
            (self.network_header.is_some() && self.network_header != granted.network_header, "router feedback"),
            (self.segments && !granted.segments, "per-segment reports"),
            (self.detection.is_some_and(|wanted| wanted != granted.detection), "another loss detection"),
            (self.whole_window && !granted.whole_window, "the whole window in the first round trip"),
            (self.saved_path && !granted.saved_path, "a saved path"),
        ];
        unmet.into_iter().find_map(|(lacking, what)| lacking.then_some(what))
    }
}

/// ACK frequency that is requested from the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AckFrequency {
    /// The frequency that the receiver chooses.
    #[default]
    Usual,
    /// The ratio in [`Control::ack_ratio`](crate::Control::ack_ratio), which may change at any time.
    Varied,
    /// An ACK for every segment at the beginning, for this number of segments.
    First(u32),
    /// An ACK for every segment.
    All,
}

/// Kind of router feedback that a controller uses.
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

/// Loss detection that the transport runs for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a transport has to implement every loss detection")]
pub enum Detection {
    /// RACK-TLP (RFC 8985).
    #[default]
    RackTlp,
    /// SACK counting (RFC 6675).
    Sack,
    /// Three duplicate ACKs (RFC 5681, RFC 6582): SACK is not negotiated.
    DuplicateAcks,
    /// The same, but the first ACK of new data ends an episode, as in hosts from before RFC 2582. Several losses of a
    /// window then lead to a timeout as a rule. It serves to reproduce measurements on such hosts.
    Reno,
}

/// The features that were granted, reported once after the handshake and again if they change. By default, nothing is
/// granted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Granted {
    /// The strongest codepoint that may be used.
    pub ecn: EcnMark,
    /// Whether probes can be sent and recognised when they are acknowledged.
    pub probes: bool,
    /// Whether the peer echoes probes, so that each ACK identifies the probe that triggered it. Other peers only
    /// report duplicates (RFC 2883), which may also be caused by retransmissions: a retransmitted segment then says
    /// nothing about its probes.
    pub probe_echo: bool,
    /// Whether the transport paces.
    pub pacing: bool,
    /// Whether the transport also spreads a window over the round trip if the controller sets no pace; false if it
    /// does not pace. Some transports spread windows, but do not follow a pace (quinn).
    pub spreads: bool,
    /// Whether RTT samples contain the time for which the peer held an ACK back, up to 25 ms in QUIC (RFC 9000, section
    /// 18.2), because the transport does not subtract it. A minimum over a round trip hardly changes, since some ACKs
    /// are immediate. Averages and maxima overestimate the queue by part of the delay, so the algorithms that use them
    /// yield earlier.
    pub ack_delay_in_rtt: bool,
    /// Whether the peer reports arrival times.
    pub arrival_times: bool,
    /// Whether the peer advertised its full receive window in the first round trip.
    pub whole_window: bool,
    /// Whether the connection has the saved path of an earlier one.
    pub saved_path: bool,
    /// Whether flipped pairs are sent and reported.
    pub pairs: bool,
    /// Whether the peer follows requests for another ACK frequency.
    pub ack_frequency: bool,
    /// Router feedback that the application has allowed for this network.
    pub network_header: Option<NetworkHeaderKind>,
    /// Whether segments are reported individually.
    pub segments: bool,
    /// The loss detection in force.
    pub detection: Detection,
}

impl Granted {
    /// The features of a transport without options: pacing and RACK-TLP, but no feature that needs the peer's support.
    #[must_use]
    pub fn basic() -> Self {
        Self { pacing: true, spreads: true, ..Self::default() }
    }
}

/// Error for a required feature that was not granted; the connection fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("congestion controller {controller} needs {need}, which this path or peer does not offer")]
#[non_exhaustive]
pub struct NeedError {
    /// The controller's name.
    pub controller: String,
    /// The missing feature, such as `arrival times`.
    pub need: &'static str,
}

impl NeedError {
    /// Creates the error of a `controller`, or of one of its stages, that lacks a required feature.
    #[must_use]
    pub const fn new(controller: String, need: &'static str) -> Self {
        Self { controller, need }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_that_is_not_granted_is_named() {
        let none = Demands::default();
        let requests = [
            (Demands { ecn: EcnMark::Ect0, ..none }, "ECN"),
            (Demands { probes: true, ..none }, "probes"),
            (Demands { pacing: true, ..none }, "pacing"),
            (Demands { arrival_times: true, ..none }, "arrival times"),
            (Demands { pairs: true, ..none }, "flipped pairs"),
            (Demands { ack_frequency: AckFrequency::All, ..none }, "another ACK frequency"),
            (Demands { network_header: Some(NetworkHeaderKind::Rcp), ..none }, "router feedback"),
            (Demands { segments: true, ..none }, "per-segment reports"),
            (Demands { detection: Some(Detection::Sack), ..none }, "another loss detection"),
            (Demands { whole_window: true, ..none }, "the whole window in the first round trip"),
            (Demands { saved_path: true, ..none }, "a saved path"),
        ];
        let nothing = Granted { pacing: false, ..Granted::basic() };
        let all = Granted {
            ecn: EcnMark::Ect0,
            probes: true,
            probe_echo: true,
            pacing: true,
            spreads: true,
            ack_delay_in_rtt: true,
            arrival_times: true,
            whole_window: true,
            saved_path: true,
            pairs: true,
            ack_frequency: true,
            network_header: Some(NetworkHeaderKind::Rcp),
            segments: true,
            detection: Detection::Sack,
        };
        for (request, name) in requests {
            assert_eq!(request.missing(&nothing), Some(name));
        }
        let every = requests.into_iter().map(|(request, _)| request).fold(none, Demands::union);
        assert_eq!((every.missing(&all), none.missing(&nothing)), (None, None));
    }
}
