//! Storage of the network feedback, which most connections never use.

use std::ops::{Deref, DerefMut};

use longhaul_cc::{NetworkFeedback, NetworkHeaderKind};
use longhaul_units::Rate;
use longhaul_wire::network::{Forward, NetworkOption, Request};

use super::{Network, NonceSeed};
use crate::NetworkInfo;

/// State of a connection that has neither sent nor received the option.
static UNUSED: Network = Network {
    seed: NonceSeed(0),
    kind: None,
    asked: None,
    asked_at: None,
    asked_end: 0,
    is_distrusted: false,
    report: None,
    wanted: 0,
    wanted_rate: Rate::ZERO,
    for_peer: None,
    answer: None,
    info: NetworkInfo { requests: 0, granted: 0, denied: 0, refused: 0 },
};

/// [`Network`] that takes memory from the first mutable access on. Methods that run for every segment therefore look
/// before they change something.
#[derive(Debug, Default)]
pub(crate) struct LazyNetwork {
    seed: NonceSeed,
    used: Option<Box<Network>>,
}

impl LazyNetwork {
    /// Sets the seed of the nonces.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        let seed = NonceSeed(seed);
        self.seed = seed;
        if let Some(used) = &mut self.used {
            let for_peer = used.for_peer;
            **used = Network { for_peer, ..Network::new(seed) };
        }
    }

    /// Returns whether there is no state.
    pub(crate) fn is_unused(&self) -> bool {
        self.used.is_none()
    }

    /// Returns the answer that was not reported to the controller yet.
    pub(crate) fn take_answer(&mut self) -> Option<NetworkFeedback> {
        self.answer?;
        self.answer.take()
    }

    /// Returns the answer to the peer's request for a pure ACK, which is then sent.
    pub(crate) fn answer_peer(&mut self) -> Option<NetworkOption> {
        let feedback = Some(self.for_peer?);
        self.for_peer = None;
        Some(NetworkOption { forward: None, feedback })
    }

    /// Returns the report to the routers that is due, which is then sent.
    pub(crate) fn take_report(&mut self, ttl: u8) -> Option<NetworkOption> {
        let (rate, nonce) = self.report?;
        self.report = None;
        let forward = Forward { ttl, stamps: 0, request: Request::QuickStartReport { rate, nonce } };
        Some(NetworkOption { forward: Some(forward), feedback: None })
    }

    /// Sets the kind that was negotiated in the handshake.
    pub(crate) fn set_negotiated(&mut self, kind: Option<NetworkHeaderKind>) {
        if kind.is_some() || self.used.is_some() {
            (**self).set_negotiated(kind);
        }
    }
}

impl Deref for LazyNetwork {
    type Target = Network;

    fn deref(&self) -> &Network {
        self.used.as_deref().unwrap_or(&UNUSED)
    }
}

impl DerefMut for LazyNetwork {
    fn deref_mut(&mut self) -> &mut Network {
        self.used.get_or_insert_with(|| Box::new(Network::new(self.seed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_not_printed() {
        let [one, other] = [1, 77].map(|seed| {
            let mut unused = LazyNetwork::default();
            unused.set_seed(seed);
            let mut used = LazyNetwork::default();
            used.set_seed(seed);
            used.is_distrusted = true;
            format!("{unused:?} {used:?}")
        });
        assert_eq!(one, other);
        assert!(one.contains("is_distrusted: true"), "{one}");
    }
}
