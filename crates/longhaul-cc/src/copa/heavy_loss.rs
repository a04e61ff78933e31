//! The one answer to losses in Copa's default mode, from the authors' code: none of 30 % or less.

use longhaul_units::{Bytes, Time};

use crate::{Ack, Path};

/// The rate above which losses are answered.
const MOST: f64 = 0.3;
/// A rate is taken over at least so many round trips
const ROUNDS: u64 = 2;
/// and more than so many segments.
const LEAST_SEGMENTS: u64 = 20;

/// Counts what arrives and what is lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeavyLoss {
    began: Option<Time>,
    delivered: Bytes,
    lost: Bytes,
}

impl HeavyLoss {
    /// Counts an ACK. True if it ends a period in which more than three in ten bytes were lost.
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
