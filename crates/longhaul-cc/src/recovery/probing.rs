//! The recoveries of the satellite schemes: while losses are repaired, low-priority probes ask whether the path still carries
//! what it carried. A loss by congestion lets as many through as the window gave up; those are ignored. What comes through beyond
//! that says that the loss was chance, and gives the window back, in the round trip after the repair: the window expanding period.
//!
//! TCP-Peach's Rapid Recovery (Akyildiz, Morabito, Palazzo, ToN 9(3), 2001), Peach+'s Quick Recovery (Akyildiz, Zhang, Fang, IEEE
//! Comm. Letters 6(7), 2002), TCP-Swift's Speedy Recovery (Leung, Yeung, ISCC 2004).

use longhaul_units::{Bytes, Span};

use crate::compose::{Overlay, Recovery, RecoveryStep, Stage, Window};
use crate::describe::{Entry, Make, Safety, Slot, Values};
use crate::launch::probing_start::DSCP_OPTION;
use crate::{Ack, Demands, Detection, Episode, Granted, NeedError, Needs, Path, ProbeKind, ProbePlan};

/// Plans are numbered from here on, launches' from zero: a loss may end a start's plan by one of these, and that is another.
const FIRST_PLAN: u32 = 1 << 31;

/// Probes that the ACK of a segment releases (TCP-Peach: two for each ACK, so that the path gets what it had).
const EACH_ACK: u32 = 2;

/// Rapid Recovery in the registry.
pub(crate) static RAPID: Entry = Entry {
    name: "rapid-recovery",
    slot: Slot::Recovery,
    summary: "TCP-Peach's: two dummy segments for each ACK, the window returns by what comes through",
    reference: "Akyildiz, Morabito, Palazzo, ToN 9(3), 2001",
    options: ProbingRecoveryConfig::OPTIONS,
    tested: &["sudden-start+new-reno+rapid-recovery", "cubic+rapid-recovery"],
    safety: Safety::Shared,
    make: Make::Recovery(|values| recovery(Scheme::Rapid, values)),
};

/// Quick Recovery in the registry.
pub(crate) static QUICK: Entry = Entry {
    name: "quick-recovery",
    slot: Slot::Recovery,
    summary: "TCP-Peach+'s: probes that may repair, where the pipe leaves no room for data",
    reference: "Akyildiz, Zhang, Fang, IEEE Comm. Letters 6(7), 2002 (reconstructed)",
    options: ProbingRecoveryConfig::OPTIONS,
    tested: &["peach-jump-start+new-reno+quick-recovery", "westwood+quick-recovery"],
    safety: Safety::Shared,
    make: Make::Recovery(|values| recovery(Scheme::Quick, values)),
};

/// Speedy Recovery in the registry. A queue that knows no priorities lets so many probes through that congestion passes for chance,
/// and who shares it pays.
pub(crate) static SPEEDY: Entry = Entry {
    name: "speedy-recovery",
    slot: Slot::Recovery,
    summary: "TCP-Swift's: as quick-recovery, and a segment of window for each that is acknowledged after it",
    reference: "Leung, Yeung, ISCC 2004",
    options: ProbingRecoveryConfig::OPTIONS,
    tested: &["speedy-start+new-reno+speedy-recovery", "speedy-start+cubic+speedy-recovery"],
    safety: Safety::Private,
    make: Make::Recovery(|values| recovery(Scheme::Speedy { gated: true }, values)),
};

/// Speedy Recovery as it was published. Its window expands after a loss by congestion, too, so that nothing is given up in the end.
pub(crate) static SPEEDY_PAPER: Entry = Entry {
    name: "speedy-recovery-paper",
    slot: Slot::Recovery,
    summary: "TCP-Swift's as published: gives nothing up after congestion either",
    reference: "Leung, Yeung, ISCC 2004",
    options: ProbingRecoveryConfig::OPTIONS,
    tested: &["speedy-start+new-reno+speedy-recovery-paper"],
    safety: Safety::Private,
    make: Make::Recovery(|values| recovery(Scheme::Speedy { gated: false }, values)),
};

fn recovery(scheme: Scheme, values: &mut Values<'_>) -> Box<dyn Recovery> {
    let config = ProbingRecoveryConfig { scheme, ..ProbingRecoveryConfig::from_values(values) };
    Box::new(ProbingRecovery::new(config))
}

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// TCP-Peach.
    Rapid,
    /// TCP-Peach+.
    Quick,
    /// TCP-Swift.
    Speedy {
        /// Whether data expand the window only after more probes came through than a congested path lets, and no further than
        /// it was. In the paper they do after any loss, so that one by congestion lowers nothing in the end.
        gated: bool,
    },
}

crate::options! {
    /// The configuration of [`ProbingRecovery`].
    #[derive(Eq)]
    pub struct ProbingRecoveryConfig {
        /// Which scheme.
        scheme: Scheme => Scheme::Rapid,
        /// The probes' DiffServ codepoint.
        dscp: u8 = DSCP_OPTION,
    }
}

/// What is known of the loss that is repaired, and of the probes sent for it.
#[derive(Clone, Copy, Debug, Default)]
struct Loss {
    /// The window before, and what it falls to, bytes.
    before: f64,
    target: f64,
    /// Probes that may still leave (`adsn` of the papers, `aosn` of TCP-Swift).
    left: u32,
    /// A mark began it, which is never chance: nothing is asked and nothing returns.
    by_mark: bool,
    /// Answers that are still to be ignored (`wdsn`).
    ignored: u32,
    /// The window expanding period lasts until so much is delivered in total.
    expands_until: Option<Bytes>,
}

/// One of the three recoveries.
#[derive(Clone, Debug)]
pub struct ProbingRecovery {
    config: ProbingRecoveryConfig,
    granted: bool,
    loss: Loss,
    plan: ProbePlan,
}

impl ProbingRecovery {
    /// The recovery.
    #[must_use]
    pub fn new(config: ProbingRecoveryConfig) -> Self {
        let kind = if config.scheme == Scheme::Rapid { ProbeKind::Dummy } else { ProbeKind::Outstanding };
        let prefer = [Some(kind), None, None];
        let plan = ProbePlan { prefer, segments: 0, gap: Span::ZERO, dscp: config.dscp, id: FIRST_PLAN };
        Self { config, granted: false, loss: Loss::default(), plan }
    }

    /// An ACK lets two probes go: in TCP-Peach always, in the others where the pipe leaves no room for data.
    /// One that delivers several segments stands for as many.
    fn release(&mut self, ack: &Ack<'_>, path: &Path, window: &Window) {
        let room = ack.in_flight.as_f64() < window.cwnd;
        if !self.granted || (room && self.config.scheme != Scheme::Rapid) {
            return;
        }
        let stands_for = (ack.delivered.0 / path.mss.0.max(1)).clamp(1, u64::from(self.loss.left.max(1))) as u32;
        let probes = stands_for.saturating_mul(EACH_ACK).min(self.loss.left);
        self.loss.left -= probes;
        self.plan.segments += probes;
    }

    /// Answers to probes: as many as congestion lets through are ignored, each further one is a segment of window.
    fn count(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let ignored = ack.probe.acked.min(self.loss.ignored);
        self.loss.ignored -= ignored;
        self.raise(f64::from(ack.probe.acked - ignored) * path.mss.as_f64(), path, window);
    }

    /// A window above the peer's is of no use and was never tried.
    fn raise(&self, bytes: f64, path: &Path, window: &mut Window) {
        let ceiling = match self.config.scheme {
            Scheme::Speedy { gated: false } => f64::INFINITY,
            _ => self.loss.before,
        };
        let ceiling = ceiling.min(path.peer_window.as_f64());
        window.cwnd = (window.cwnd + bytes).min(ceiling.max(window.cwnd));
    }

    /// Data that the window expanding period brought: congestion avoidance in TCP-Peach, one segment for each in TCP-Swift, so that
    /// delayed ACKs do not halve it.
    fn expand(&self, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let delivered = ack.delivered.as_f64();
        let bytes = match self.config.scheme {
            Scheme::Speedy { gated } if !gated || self.loss.ignored == 0 => delivered,
            _ => path.mss.as_f64() * delivered / window.cwnd.max(1.0),
        };
        self.raise(bytes, path, window);
    }
}

impl Stage for ProbingRecovery {
    fn needs(&self) -> Needs {
        let preferred = Demands { probes: true, detection: Some(Detection::RackTlp), ..Demands::default() };
        Needs { preferred, ..Needs::default() }
    }

    /// Without probes it is RFC 6675's recovery.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.granted = granted.probes;
        Ok(())
    }

    fn overlay(&self) -> Overlay {
        let probing = self.granted && self.loss.expands_until.is_none();
        Overlay { probe: probing.then_some(self.plan), ..Overlay::default() }
    }

    fn phase(&self) -> &'static str {
        if self.loss.expands_until.is_some() { "window-expanding" } else { "recovery" }
    }
}

impl Recovery for ProbingRecovery {
    /// The window falls at once; as many probes as it had segments may leave, and as many answers as it gives up are ignored.
    fn enter(&mut self, target: f64, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let mss = path.mss.as_f64().max(1.0);
        let before = window.cwnd.min(ack.prior_in_flight.as_f64().max(target)).max(target);
        let segments = |bytes: f64| (bytes / mss).round().clamp(0.0, 1e6) as u32;
        let by_mark = ack.ecn.congestion && !matches!(ack.episode, Episode::Enter | Episode::Again);
        let left = if by_mark { 0 } else { segments(before) };
        self.loss = Loss { before, target, left, by_mark, ignored: segments(before - target), expands_until: None };
        self.plan.segments = 0;
        self.plan.id = self.plan.id.wrapping_add(1);
        window.cwnd = target;
        self.release(ack, path, window);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> RecoveryStep {
        self.count(ack, path, window);
        let Some(until) = self.loss.expands_until else {
            self.release(ack, path, window);
            return RecoveryStep::Stay;
        };
        if ack.cwnd_limited {
            self.expand(ack, path, window);
        }
        let over = ack.total_delivered >= until || ack.in_flight == Bytes::ZERO || !ack.cwnd_limited;
        if over { RecoveryStep::Done } else { RecoveryStep::Stay }
    }

    /// The period lasts until the last segment that leaves now is acknowledged: a window.
    fn exit(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> RecoveryStep {
        if !self.granted || self.loss.by_mark || ack.in_flight == Bytes::ZERO && !ack.cwnd_limited {
            window.cwnd = self.loss.target;
            return RecoveryStep::Done;
        }
        self.count(ack, path, window);
        let mss = path.mss.as_f64().max(1.0);
        let room = ((window.cwnd - ack.in_flight.as_f64()).max(0.0) / mss).floor() * mss;
        self.loss.expands_until = Some(ack.total_delivered + ack.in_flight + Bytes::from_f64(room));
        RecoveryStep::Stay
    }

    fn abort(&mut self) {
        self.loss = Loss::default();
    }
}

#[cfg(test)]
mod tests;
