//! Move option: a connection continues on another path (`docs/wire.md`, "Move").

/// Length in bytes of the option's body.
pub(crate) const BODY_LEN: usize = 20;

/// Step of the exchange that moves a connection to another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MoveStep {
    /// The client claims the connection from a new address.
    Claim,
    /// The server challenges the sender of a claim.
    Challenge,
    /// The client answers the challenge.
    Answer,
}

/// Move option; not on a SYN. The codec does not check the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MoveOption {
    /// Step of the exchange.
    pub step: MoveStep,
    /// Number of the connection, or value of the challenge.
    pub value: [u8; 8],
    /// Number of the move, which only grows; 30 bits.
    pub counter: u32,
    /// Tag over the other fields and what [`step`](Self::step) adds to them.
    pub tag: [u8; 8],
}

impl MoveOption {
    /// Largest counter.
    pub const MAX_COUNTER: u32 = (1 << 30) - 1;

    /// Parses the body of the option. Returns `None` if its length or its step is none of those defined.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (value, rest) = body.split_first_chunk()?;
        let (word, tag) = rest.split_first_chunk()?;
        let word = u32::from_be_bytes(*word);
        let step = match word >> 30 {
            0 => MoveStep::Claim,
            1 => MoveStep::Challenge,
            2 => MoveStep::Answer,
            _ => return None,
        };
        Some(Self { step, value: *value, counter: word & Self::MAX_COUNTER, tag: tag.try_into().ok()? })
    }

    /// Returns the body of the option up to the tag, which is also what every tag covers.
    #[must_use]
    pub fn tagged(&self) -> [u8; 12] {
        let [v0, v1, v2, v3, v4, v5, v6, v7] = self.value;
        let step = self.step as u32;
        let [c0, c1, c2, c3] = (self.counter & Self::MAX_COUNTER | step << 30).to_be_bytes();
        [v0, v1, v2, v3, v4, v5, v6, v7, c0, c1, c2, c3]
    }
}
