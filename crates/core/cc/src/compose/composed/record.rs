//! Outcome of a start-up scheme: whether it set the window, the threshold or the pace, or handed over without effect.

use longhaul_units::{Bytes, Rate};

use crate::compose::{Startup, Step, Window};
use crate::{Path, StartupOutcome};

/// Reasons why a start-up scheme had no effect, if known to the composition.
pub(super) const NO_ROOM: &str = "its first flight showed no more room than the initial window has";
pub(super) const LATE: &str = "it learnt nothing in time";
pub(super) const CONGESTION: &str = "there was a loss or an ECN mark in the first flight";
pub(super) const TIMEOUT: &str = "the retransmission timer fired";
pub(super) const IDLE: &str = "the connection was idle";
const SHORT: &str = "the first acknowledgement came before the initial window had left";
const NOT_REMEMBERED: &str = "no earlier connection to the host is remembered";
const HANDSHAKE_LOSS: &str = "segments of the handshake were lost";
const NO_ROUND_TRIP: &str = "the handshake gave no round-trip time";
const UNFIT: &str = "what it needs did not come with the handshake";

/// Record of a start-up scheme, from the handshake to its first end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    outcome: StartupOutcome,
    pub(super) lacks: Option<&'static str>,
    pub(super) sent: Bytes,
    /// The window without the scheme.
    initial: f64,
    /// Whether there is a saved path from an earlier connection.
    remembered: bool,
    used: bool,
}

impl Record {
    pub(super) const fn new(remembered: bool) -> Self {
        Self { outcome: StartupOutcome::Absent, lacks: None, sent: Bytes::ZERO, initial: 0.0, remembered, used: false }
    }

    /// Returns the outcome so far: a scheme that is still running may already count as used.
    pub(super) const fn outcome(&self) -> StartupOutcome {
        match self.outcome {
            StartupOutcome::Running if self.used => StartupOutcome::Used,
            outcome => outcome,
        }
    }

    /// Records that the handshake is complete and the scheme has changed the window from `before` to `after`.
    pub(super) fn begin(&mut self, startup: &dyn Startup, step: Step, (before, after): (Window, Window), path: &Path) {
        if startup.is_absent() {
            return;
        }
        self.outcome = StartupOutcome::Running;
        self.initial = before.cwnd;
        self.used =
            after.cwnd > before.cwnd || after.ssthresh < before.ssthresh || startup.overlay().background.is_some();
        if step == Step::Done {
            self.end(startup, self.at_handshake(startup, path));
        }
    }

    /// Returns the reason why the scheme did nothing at the end of the handshake.
    fn at_handshake(&self, startup: &dyn Startup, path: &Path) -> &'static str {
        let needs = startup.needs();
        if (needs.preferred.saved_path || needs.required.saved_path) && !self.remembered {
            NOT_REMEMBERED
        } else if path.handshake_lossy {
            HANDSHAKE_LOSS
        } else if path.handshake_rtt.is_none() {
            NO_ROUND_TRIP
        } else {
            match self.lacks {
                Some("pacing") => "the connection does not pace",
                Some("router feedback") => "no router answered",
                Some("arrival times") => "the peer does not tell when segments arrive",
                _ => UNFIT,
            }
        }
    }

    /// Records a pace or probes that the scheme requests, which also count as use.
    pub(super) fn look(&mut self, startup: &dyn Startup) {
        if self.outcome == StartupOutcome::Running && !self.used {
            let overlay = startup.overlay();
            self.used = overlay.pace.is_some_and(|pace| pace.rate < Rate::MAX) || overlay.probe.is_some();
        }
    }

    /// Records an ACK of `delivered` bytes, or a tick, which changed the window from `before` to `after`.
    pub(super) fn after(
        &mut self,
        step: Step,
        (before, after): (Window, Window),
        delivered: Bytes,
        reason: &'static str,
    ) {
        if self.outcome != StartupOutcome::Running {
            return;
        }
        // An increase as large as slow start's does not count as use.
        self.used |= after.cwnd > before.cwnd + delivered.as_f64() + 1.0 || after.ssthresh < before.ssthresh;
        if step == Step::Done {
            self.decide(reason);
        }
    }

    /// Records that another event ended the scheme.
    pub(super) fn end(&mut self, startup: &dyn Startup, reason: &'static str) {
        self.look(startup);
        if self.outcome == StartupOutcome::Running {
            self.decide(reason);
        }
    }

    fn decide(&mut self, reason: &'static str) {
        let short = self.sent > Bytes::ZERO && self.sent.as_f64() < self.initial && reason == NO_ROOM;
        self.outcome = match self.used {
            true => StartupOutcome::Used,
            false => StartupOutcome::GivenUp(if short { SHORT } else { reason }),
        };
    }
}
