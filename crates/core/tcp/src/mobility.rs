//! Mobility: what a connection needs to continue on another path (`docs/wire.md`, "Move").

use std::fmt::Debug;
use std::sync::Arc;

use longhaul_wire::{MoveOption, MoveStep};

/// Tags of moves: a message authentication code under two keys that only both ends of a connection have.
pub trait MoveTags: Debug + Send + Sync {
    /// Returns the tag of a message of at most 20 bytes under the client's key.
    fn client(&self, message: &[u8]) -> [u8; 8];

    /// Returns the tag of a message of at most 20 bytes under the server's key.
    fn server(&self, message: &[u8]) -> [u8; 8];
}

/// Identity with which a connection continues on another path. Both ends have the same.
#[derive(Clone, Debug)]
pub struct Mobility {
    /// Number of the connection, which is as unpredictable as a key.
    pub number: [u8; 8],
    /// Whether this end is the client, which is the one that moves.
    pub is_client: bool,
    /// Maker of the tags.
    pub tags: Arc<dyn MoveTags>,
}

impl Mobility {
    /// Returns the option for a step. Its tag covers `covered`, too, which has at most 8 bytes.
    pub(crate) fn sign(&self, step: MoveStep, value: [u8; 8], counter: u32, covered: &[u8]) -> MoveOption {
        let mut option = MoveOption { step, value, counter, tag: [0; 8] };
        option.tag = self.tag(&option, covered);
        option
    }

    /// Returns whether the tag of an option is right. The time that this takes does not depend on the tag.
    pub(crate) fn verifies(&self, option: &MoveOption, covered: &[u8]) -> bool {
        u64::from_ne_bytes(self.tag(option, covered)) ^ u64::from_ne_bytes(option.tag) == 0
    }

    fn tag(&self, option: &MoveOption, covered: &[u8]) -> [u8; 8] {
        let message: arrayvec::ArrayVec<u8, 20> = option.tagged().into_iter().chain(covered.iter().copied()).collect();
        match option.step {
            MoveStep::Challenge => self.tags.server(&message),
            MoveStep::Claim | MoveStep::Answer => self.tags.client(&message),
        }
    }
}
