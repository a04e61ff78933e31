//! Response to more than 30 % loss, the only response to losses in the default mode of the authors' code.

use longhaul_units::{Bytes, Time};

use crate::{Ack, Path};

/// Loss rate above which the window decreases.
const MOST: f64 = 0.3;
/// Minimum number of round trips over which a loss rate is calculated.
const ROUNDS: u64 = 2;
/// Minimum number of segments over which a loss rate is calculated.
const LEAST_SEGMENTS: u64 = 20;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeavyLoss {
    began: Option<Time>,
    delivered: Bytes,
    lost: Bytes,
}

impl HeavyLoss {
    /// Counts an ACK. Returns whether it ends a period in which more than 30 % of the bytes were lost.
    pub(super) fn is_heavy(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        let began = *self.began.get_or_insert(ack.now);
        self.delivered += ack.delivered;
        self.lost += ack.newly_lost;
        let counted = self.delivered + self.lost;
        let long = path.srtt.is_some_and(|srtt| ack.now.since(began) > srtt * ROUNDS);
        if !long || counted <= path.mss * LEAST_SEGMENTS {
            return false;
        }
        let heavy = self.lost.as_f64() > MOST * counted.as_f64();
        *self = Self { began: Some(ack.now), ..Self::default() };
        heavy
    }
}
