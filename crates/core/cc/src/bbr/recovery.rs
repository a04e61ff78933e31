//! State of loss recovery, and the window to restore after it.

use crate::Episode;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Open,
    Fast,
    Timeout,
}

/// Change of the state by an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Same,
    Enter,
    Exit,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovery {
    pub(super) phase: Phase,
    /// The last window that neither recovery nor ProbeRTT had reduced.
    prior_cwnd: f64,
}

impl Recovery {
    /// Returns the change by `episode`. An episode that immediately follows another one continues it.
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

    /// Saves `cwnd`, which is `modulated` if recovery or ProbeRTT controls it (the draft's `BBRSaveCwnd`).
    pub(super) fn save(&mut self, cwnd: f64, modulated: bool) {
        self.prior_cwnd = if modulated { self.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// Returns the window to continue with, if it is `cwnd` at present.
    pub(super) const fn restored(&self, cwnd: f64) -> f64 {
        cwnd.max(self.prior_cwnd)
    }
}
