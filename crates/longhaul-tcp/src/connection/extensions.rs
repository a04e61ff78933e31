//! Extensions agreed on in the handshake, and validation of the peer's ECN echoes.

use super::ack_frequency::AckRequests;
use super::arrivals::ArrivalTimes;
use super::ecn_check::EcnCheck;
use super::network::Network;
use super::pairs::Pairs;
use super::probes::Probes;

#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) ecn_check: EcnCheck,
    /// State of the arrival-times option, if negotiated.
    pub(super) arrivals: Option<Box<ArrivalTimes>>,
    /// Flipped pairs, if they are sent.
    pub(super) pairs: Option<Box<Pairs>>,
    /// Probes, if the controller uses them.
    pub(super) probes: Option<Box<Probes>>,
    /// Requests to routers, and their answers.
    pub(super) network: Box<Network>,
    /// State of the ACK rate option, if negotiated.
    pub(super) ack_frequency: Option<Box<AckRequests>>,
}
