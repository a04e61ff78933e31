//! What remains of loss recovery while nothing is outstanding.

use longhaul_cc::{Detection, TxId};

use super::detect::Rack;
use super::spurious::RestingDetection;
use super::tail_probe::TailLossProbe;
use super::{DuplicateAcks, Grant, Phase, SackCounting};
use crate::connection::Loss;

/// The fields of [`Loss`] at rest that have other values than those of a new connection.
#[derive(Debug)]
pub(crate) struct RestingLoss {
    rack: Rack,
    tail: TailLossProbe,
    spurious: RestingDetection,
    episode_tx: TxId,
    detection: Detection,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per mechanism")]
impl Loss {
    /// Forgets offsets of data that were delivered long ago.
    pub(crate) fn settle(&mut self) {
        if self.phase == Phase::Open {
            (self.sack, self.duplicates) = (SackCounting::default(), DuplicateAcks::default());
        }
    }

    /// Returns what is to be kept, if no recovery is in progress.
    pub(crate) fn rest(&self) -> Option<RestingLoss> {
        let Self { detection, phase, sack, duplicates, tail, grant, episode_tx, timeouts, mtu_probe_lost, .. } = *self;
        let is_open = phase == Phase::Open && timeouts == 0 && mtu_probe_lost == 0 && self.outage.is_none();
        let is_settled = sack == SackCounting::default() && duplicates == DuplicateAcks::default();
        if !is_open || !is_settled || grant != Grant::default() {
            return None;
        }
        Some(RestingLoss { rack: self.rack.clone(), tail, spurious: self.spurious.rest()?, episode_tx, detection })
    }
}

impl RestingLoss {
    pub(crate) fn wake(self) -> Loss {
        let Self { rack, tail, spurious, episode_tx, detection } = self;
        Loss { detection, rack, tail, spurious: spurious.wake(), episode_tx, ..Loss::new() }
    }
}
