//! The extensions that the handshake agreed on, and the check of the peer's ECN echoes.

use super::arrivals::ArrivalTimes;
use super::cadence::Cadence;
use super::ecn_check::EcnCheck;
use super::network::Network;
use super::pairs::Pairs;
use super::probes::Probes;

#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) ecn_check: EcnCheck,
    /// The arrival-times option, while it is in force.
    pub(super) arrivals: Option<Box<ArrivalTimes>>,
    /// Flipped pairs, if they are sent.
    pub(super) pairs: Option<Box<Pairs>>,
    /// Probes, if the controller sends them.
    pub(super) probes: Option<Box<Probes>>,
    /// Requests to routers, and their answers.
    pub(super) network: Box<Network>,
    /// The ACK rate option, while it is in force.
    pub(super) cadence: Option<Box<Cadence>>,
}
