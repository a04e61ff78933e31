//! Where loss recovery stands, and the window to return to after it.

use crate::Episode;

/// What is under repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Open,
    Fast,
    Timeout,
}

/// What an ACK did to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Same,
    /// Fast recovery began.
    Enter,
    /// Everything is repaired.
    Exit,
}

/// Follows recovery episodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repair {
    pub(super) phase: Phase,
    /// The newest window that neither recovery nor ProbeRTT had made smaller.
    prior_cwnd: f64,
}

impl Repair {
    /// What `episode` changes. An episode that follows another at once goes on with it.
    pub(super) fn follow(&mut self, episode: Episode) -> Turn {
        let before = self.phase;
        self.phase = match episode {
            Episode::None | Episode::Exit => Phase::Open,
            Episode::Enter | Episode::In | Episode::Again => Phase::Fast,
            Episode::Rto => Phase::Timeout,
        };
        match (before, self.phase) {
            (Phase::Open, Phase::Fast) => Turn::Enter,
            (Phase::Fast | Phase::Timeout, Phase::Open) => Turn::Exit,
            _ => Turn::Same,
        }
    }

    /// Remembers `cwnd`, `modulated` if recovery or ProbeRTT holds it (the draft's `BBRSaveCwnd`).
    pub(super) fn save(&mut self, cwnd: f64, modulated: bool) {
        self.prior_cwnd = if modulated { self.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// The window to go on with, now `cwnd`.
    pub(super) const fn restored(&self, cwnd: f64) -> f64 {
        cwnd.max(self.prior_cwnd)
    }
}
