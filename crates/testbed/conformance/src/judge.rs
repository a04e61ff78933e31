//! Rules that are checked after every event.

use longhaul_units::{Bytes, Rate};

use super::world::Answer;
use longhaul_cc::registry::{Slot, Spec};
use longhaul_cc::{Ack, Episode};

/// Expectations of a controller beyond those of every controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expect {
    /// Whether every loss episode lowers the threshold: true for loss-based controllers, false for those that respond
    /// to other signals.
    pub answers_loss: bool,
    /// Whether the window increases by delivered bytes only: false for controllers whose window follows an estimate
    /// or a grant.
    pub earns_window: bool,
}

impl Default for Expect {
    fn default() -> Self {
        Self { answers_loss: true, earns_window: true }
    }
}

impl Expect {
    /// Returns the expectations of a composition of the registry, which depend on the declarations of its algorithms
    /// ([`Entry::keeping_at_losses`](longhaul_cc::registry::Entry::keeping_at_losses),
    /// [`Entry::growing_beyond_acks`](longhaul_cc::registry::Entry::growing_beyond_acks)).
    ///
    /// A start-up scheme increases the window by an estimate. Monolithic controllers ignore losses or respond to them in
    /// their own way.
    #[must_use]
    pub fn of(spec: &Spec) -> Self {
        let has_startup = spec.entry(Slot::Startup).is_some_and(|entry| entry.name != "none");
        let is_monolithic = spec.entry(Slot::Monolithic).is_some();
        let earns_window = !has_startup && !is_monolithic && spec.entries().all(|entry| !entry.grows_beyond_acks);
        let keeps = spec.entries().any(|entry| entry.keeps_at_losses);
        Self { answers_loss: earns_window && !keeps, earns_window }
    }
}

/// An event, as far as the rules distinguish events.
pub(super) enum Happened<'a> {
    Established,
    Acked(&'a Ack<'a>),
    TimedOut { nth: u32 },
    Undone,
    Resized,
    Idled,
    Other,
}

#[derive(Debug)]
pub(super) struct Judge {
    expect: Expect,
    cap: Bytes,
    /// Window that may be restored without delivering data, bytes.
    earned: u64,
    /// Window and threshold before the last decrease that may be undone.
    saved: Option<(u64, Bytes)>,
    /// Bytes delivered by SACK outside of recovery since SND.UNA last advanced, which may increase the window later.
    above_hole: u64,
    /// Total delivered bytes up to which losses cause no decrease, because the window has decreased for a mark.
    marked: Option<Bytes>,
}

impl Judge {
    pub(super) const fn new(expect: Expect, cap: Bytes) -> Self {
        Self { expect, cap, earned: 0, saved: None, above_hole: 0, marked: None }
    }

    /// Compares the decisions before and after an event on a path with segments of `mss`.
    pub(super) fn compare(&mut self, before: &Answer, after: &Answer, event: &Happened<'_>, mss: Bytes) {
        self.always(after, mss);
        if let (Some(old), Some(new)) = (before.control.ssthresh, after.control.ssthresh) {
            self.threshold(old, new, event, mss);
        }
        if self.expect.earns_window {
            self.window(before, after, event, mss);
        }
    }

    fn always(&self, after: &Answer, mss: Bytes) {
        let control = &after.control;
        assert!(control.cwnd >= mss, "cwnd {} is below a segment of {mss}", control.cwnd);
        assert!(control.cwnd <= self.cap.max(mss), "cwnd {} is above the cap {}", control.cwnd, self.cap);
        if let Some(ssthresh) = after.control.ssthresh {
            assert!(ssthresh >= mss * 2, "ssthresh {ssthresh} is below two segments of {mss}");
        }
        if let Some(pace) = control.pace {
            assert!(pace.rate > Rate::ZERO, "the pacing rate is zero");
            assert!(pace.quantum.is_none_or(|quantum| quantum > Bytes::ZERO), "the quantum is zero");
        }
        let phase = after.snapshot.phase;
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(!phase.is_empty() && phase.chars().all(kebab), "phase `{phase}` is not in kebab-case");
    }

    /// Checks that there is one decrease per episode, and one more for each lost retransmission.
    fn threshold(&mut self, old: Bytes, new: Bytes, event: &Happened<'_>, mss: Bytes) {
        match event {
            Happened::Acked(ack) => match ack.episode {
                // A start-up scheme may know the amount of losses only when all of them are recovered.
                Episode::Exit if !self.expect.earns_window => {
                    assert!(new <= old, "the end of an episode raised the threshold");
                }
                // Tolerated losses do not count as a response to ECN marks among them (RFC 3168, section 6.1.2).
                Episode::In | Episode::Exit if ack.ecn_echo && !self.expect.answers_loss => {
                    assert!(new <= old, "a mark inside an episode raised the threshold");
                }
                Episode::In | Episode::Exit => {
                    assert_eq!(new, old, "the threshold changed inside an episode");
                }
                Episode::Enter if self.expect.answers_loss && self.marked.is_none() => {
                    let floor = (mss * 2).0.max(self.earned - self.earned / 20);
                    assert!(new.0 <= floor, "an episode began and the threshold is {new} after {} B", self.earned);
                }
                Episode::Enter if self.marked.is_some() => {
                    assert_eq!(new, old, "a loss among data whose marks were answered changed the threshold");
                }
                Episode::Again if self.expect.answers_loss => {
                    // The decrease of a threshold of a few bytes may be invisible in whole bytes.
                    assert!(
                        new < old || new.0 <= (mss * 2).0.max(16),
                        "a lost retransmission left the threshold at {new}"
                    );
                }
                _ => {}
            },
            Happened::TimedOut { nth } if *nth > 1 => {
                assert_eq!(new, old, "a further timeout of a run changed the threshold");
            }
            Happened::Undone if self.expect.earns_window => {
                let most = self.saved.map_or(old, |(_, saved)| saved.max(old));
                assert!(new <= most, "undo raised the threshold to {new}");
            }
            _ => {}
        }
    }

    fn window(&mut self, before: &Answer, after: &Answer, event: &Happened<'_>, mss: Bytes) {
        let (old, new) = (before.control.cwnd.0, after.control.cwnd.0);
        let settled = after.control.ssthresh.map_or(new, |ssthresh| ssthresh.0.min(self.earned).max(new));
        match event {
            Happened::Established => self.earned = new,
            Happened::Acked(ack) => {
                self.acked(ack, new, old, settled, mss);
                let waits = ack.episode == Episode::None && ack.cumulative == Bytes::ZERO;
                self.above_hole = if waits { self.above_hole + ack.delivered.0 } else { 0 };
                let answered = |until| ack.total_delivered >= until || ack.in_flight == Bytes::ZERO;
                self.marked.take_if(|until| answered(*until));
            }
            Happened::TimedOut { nth } => {
                assert_eq!(new, mss.0, "the window after a timeout is one segment");
                self.above_hole = 0;
                if *nth <= 1 {
                    self.saved = Some((self.earned.max(old), before.control.ssthresh.unwrap_or(Bytes::MAX)));
                    self.marked = None;
                }
                self.earned = new;
            }
            Happened::Undone => {
                let most = self.saved.take().map_or(self.earned, |(saved, _)| saved.max(self.earned));
                assert!(new <= most, "undo raised the window to {new} B, it was {most} B");
                self.earned = self.earned.max(new);
            }
            Happened::Resized => {
                assert!(new <= self.earned.max(mss.0), "a new segment size raised the window from {old} to {new} B");
                self.earned = self.earned.max(new);
            }
            Happened::Idled => {
                assert!(new <= self.earned, "idleness raised the window to {new} B");
                self.earned = new;
                self.marked = None;
            }
            Happened::Other => {
                assert!(new <= self.earned, "the window rose from {old} to {new} B by itself");
            }
        }
    }

    fn acked(&mut self, ack: &Ack<'_>, new: u64, old: u64, settled: u64, mss: Bytes) {
        if matches!(ack.episode, Episode::Enter | Episode::Again) {
            // Limit: the data in flight, and the one retransmission that is always allowed.
            let most = self.earned.max((ack.prior_in_flight + mss).0);
            assert!(new <= most, "a loss raised the window from {old} to {new} B");
            if ack.episode == Episode::Enter && self.marked.is_none() {
                self.saved = Some((self.earned, Bytes::MAX));
            }
            if ack.episode == Episode::Again || self.marked.is_none() {
                self.earned = settled;
            }
            return;
        }
        if ack.ecn_echo && ack.episode != Episode::In && self.marked.is_none() {
            assert!(new <= self.earned.max((ack.prior_in_flight + mss).0), "a mark raised the window to {new} B");
            self.earned = settled;
            self.marked = Some(ack.total_delivered + ack.in_flight);
            return;
        }
        let may_grow = ack.cwnd_limited && matches!(ack.episode, Episode::None | Episode::Rto);
        // Data delivered above a hole may count when the hole is filled (RFC 5681, section 3.1). One byte is added,
        // because the fraction of the window is not visible here.
        let grown = if may_grow { self.above_hole + ack.delivered.0 + 1 } else { 0 };
        // During recovery, sent data may at most replace delivered data.
        let conserved = if ack.episode == Episode::In { ack.prior_in_flight.0 } else { 0 };
        // One segment for each probe that arrived.
        let probed = mss.0.saturating_mul(u64::from(ack.probes_acked));
        let most = self.earned.saturating_add(grown).saturating_add(probed).max(conserved);
        assert!(new <= most, "{:?} raised the window from {old} to {new} B, {most} B were earned", ack.episode);
        self.earned = if ack.episode == Episode::Exit { new } else { self.earned.max(new) };
    }
}
