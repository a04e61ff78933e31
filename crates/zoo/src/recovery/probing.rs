//! Recoveries of the satellite schemes. While losses are retransmitted, low-priority probes test whether the path still
//! carries as much as before. After a congestion loss, the number of answered probes equals the reduction of the
//! window; these answers are ignored. Further answers show that the loss was random, and restore the window, in the
//! round trip after the recovery: the window expanding period.
//!
//! TCP-Peach's Rapid Recovery (Akyildiz, Morabito, Palazzo, ToN 9(3), 2001), Peach+'s Quick Recovery (Akyildiz,
//! Zhang, Fang, IEEE Comm. Letters 6(7), 2002), TCP-Swift's Speedy Recovery (Leung, Yeung, ISCC 2004).

use longhaul_cc::compose::{DSCP_OPTION, Overlay, Recovery, Stage, Step, Window};
use longhaul_cc::registry::{Entry, Values};
use longhaul_cc::{Ack, Demands, Detection, Episode, Granted, NeedError, Needs, Path, ProbeKind, ProbePlan, update};
use longhaul_units::Bytes;

/// First plan number of recoveries. Start-up schemes number theirs from zero, so that a recovery's plan differs from
/// the plan of a start-up scheme that the loss ended.
const FIRST_PLAN: u32 = 1 << 31;

/// Number of probes that the ACK of one segment releases (TCP-Peach has two per ACK, so that the path carries as much
/// as before).
const EACH_ACK: u32 = 2;

pub(crate) static RAPID: Entry = Entry::recovery("rapid-recovery", |values| recovery(Scheme::Rapid, values))
    .described(
        "TCP-Peach: two dummy segments per ACK; each one acknowledged returns one segment of window",
        "Akyildiz, Morabito, Palazzo, ToN 9(3), 2001",
    )
    .with_options(ProbingRecovery::OPTIONS)
    .tested_in(&["sudden-start+new-reno+rapid-recovery", "cubic+rapid-recovery"])
    .internet_safe();

pub(crate) static QUICK: Entry = Entry::recovery("quick-recovery", |values| recovery(Scheme::Quick, values))
    .described(
        "TCP-Peach+: probes that can fill holes, if the pipe leaves no room for data",
        "Akyildiz, Zhang, Fang, IEEE Comm. Letters 6(7), 2002 (reconstructed)",
    )
    .with_options(ProbingRecovery::OPTIONS)
    .tested_in(&["peach-jump-start+new-reno+quick-recovery", "westwood+quick-recovery"])
    .internet_safe();

/// Registry entry of Speedy Recovery. A queue without priorities forwards so many probes that congestion is mistaken
/// for random loss, at the expense of competing flows.
pub(crate) static SPEEDY: Entry =
    Entry::recovery("speedy-recovery", |values| recovery(Scheme::Speedy { gated: true }, values))
        .described(
            "TCP-Swift: like quick-recovery, plus one segment of window per later acknowledgment of a probe",
            "Leung, Yeung, ISCC 2004",
        )
        .with_options(ProbingRecovery::OPTIONS)
        .tested_in(&["speedy-start+new-reno+speedy-recovery", "speedy-start+cubic+speedy-recovery"]);

/// Registry entry of Speedy Recovery as published. Its window also expands after a loss by congestion, so that the
/// decrease is undone.
pub(crate) static SPEEDY_PAPER: Entry =
    Entry::recovery("speedy-recovery-paper", |values| recovery(Scheme::Speedy { gated: false }, values))
        .described("TCP-Swift as published: gives up nothing after congestion either", "Leung, Yeung, ISCC 2004")
        .with_options(ProbingRecovery::OPTIONS)
        .tested_in(&["speedy-start+new-reno+speedy-recovery-paper"]);

fn recovery(scheme: Scheme, values: &mut Values<'_>) -> Box<dyn Recovery> {
    Box::new(ProbingRecovery::of(scheme, values))
}

/// Variant of the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// TCP-Peach.
    Rapid,
    /// TCP-Peach+.
    Quick,
    /// TCP-Swift.
    Speedy {
        /// Whether acknowledged data expands the window only after more probes have been answered than a congested path
        /// forwards, and only up to the window before the loss. In the paper, it does so after any loss, so a
        /// congestion loss has no lasting effect.
        gated: bool,
    },
}

longhaul_cc::options! {
    /// One of the three probing recoveries.
    pub(crate) struct ProbingRecovery {
        dscp: u8 = DSCP_OPTION,
        scheme: Scheme => Scheme::Rapid,
        granted: bool => false,
        loss: Loss => Loss::default(),
        plan: ProbePlan => ProbePlan::new(FIRST_PLAN, ProbeKind::Dummy, 0),
    }
}

/// State of the current loss and of the probes sent for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Loss {
    /// Window before the loss, and target of the decrease, in bytes.
    before: f64,
    target: f64,
    /// Number of probes that may still be sent (`adsn` of the papers, `aosn` of TCP-Swift).
    left: u32,
    /// Whether an ECN mark started the episode. A mark is never random, so no probes are sent and the window is not
    /// restored.
    by_mark: bool,
    /// Number of answers that are still to be ignored (`wdsn`).
    ignored: u32,
    /// Total of delivered bytes at which the window expanding period ends.
    expands_until: Option<Bytes>,
}

impl ProbingRecovery {
    fn of(scheme: Scheme, values: &mut Values<'_>) -> Self {
        let mut recovery = Self { scheme, ..Self::from_values(values) };
        if scheme != Scheme::Rapid {
            recovery.plan.prefer[0] = Some(ProbeKind::Outstanding);
        }
        recovery.plan.dscp = recovery.dscp;
        recovery
    }

    /// Releases two probes per ACK: always in TCP-Peach, in the other schemes only if the window does not permit data.
    /// An ACK that delivers several segments counts as several ACKs.
    fn release(&mut self, ack: &Ack<'_>, path: &Path, window: &Window) {
        let room = ack.in_flight.as_f64() < window.cwnd;
        if !self.granted || (room && self.scheme != Scheme::Rapid) {
            return;
        }
        let stands_for = (ack.delivered.0 / path.mss.0.max(1)).clamp(1, u64::from(self.loss.left.max(1))) as u32;
        let probes = stands_for.saturating_mul(EACH_ACK).min(self.loss.left);
        self.loss.left -= probes;
        self.plan.segments += probes;
    }

    /// Counts answers to probes. The number that a congested path forwards is ignored; each further answer adds a
    /// segment to the window.
    fn count(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let ignored = ack.probes_acked.min(self.loss.ignored);
        self.loss.ignored -= ignored;
        self.raise(f64::from(ack.probes_acked - ignored) * path.mss.as_f64(), path, window);
    }

    /// Increases the window, up to its value before the loss (except in Speedy Recovery as published) and up to the
    /// peer's window, because a window larger than the peer's is neither useful nor tested.
    fn raise(&self, bytes: f64, path: &Path, window: &mut Window) {
        let ceiling = match self.scheme {
            Scheme::Speedy { gated: false } => f64::INFINITY,
            _ => self.loss.before,
        };
        let ceiling = ceiling.min(path.peer_window.as_f64());
        window.cwnd = (window.cwnd + bytes).min(ceiling.max(window.cwnd));
    }

    /// Increases the window for data acknowledged in the window expanding period: as in congestion avoidance in
    /// TCP-Peach, by one segment per segment in TCP-Swift, so that delayed ACKs do not halve the increase.
    fn expand(&self, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let delivered = ack.delivered.as_f64();
        let bytes = match self.scheme {
            Scheme::Speedy { gated } if !gated || self.loss.ignored == 0 => delivered,
            _ => path.mss.as_f64() * delivered / window.cwnd.max(1.0),
        };
        self.raise(bytes, path, window);
    }
}

impl Stage for ProbingRecovery {
    fn needs(&self) -> Needs {
        let preferred = update!(Demands { probes: true, detection: Some(Detection::RackTlp), ..Demands::default() });
        update!(Needs { preferred, ..Needs::default() })
    }

    /// Without probes the recovery is that of RFC 6675.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.granted = granted.probes;
        Ok(())
    }

    fn overlay(&self) -> Overlay {
        let probing = self.granted && self.loss.expands_until.is_none();
        update!(Overlay { probe: probing.then_some(self.plan), ..Overlay::default() })
    }

    fn phase(&self) -> &'static str {
        if self.loss.expands_until.is_some() { "window-expanding" } else { "recovery" }
    }
}

impl Recovery for ProbingRecovery {
    /// Decreases the window at once. The number of probes that may be sent is the window before the loss in segments,
    /// and the number of answers to ignore is the reduction.
    fn enter(&mut self, target: f64, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let mss = path.mss.as_f64().max(1.0);
        let before = window.cwnd.min(ack.prior_in_flight.as_f64().max(target)).max(target);
        let segments = |bytes: f64| (bytes / mss).round().clamp(0.0, 1e6) as u32;
        let by_mark = ack.ecn_echo && !matches!(ack.episode, Episode::Enter | Episode::Again);
        let left = if by_mark { 0 } else { segments(before) };
        self.loss = Loss { before, target, left, by_mark, ignored: segments(before - target), expands_until: None };
        self.plan.segments = 0;
        self.plan.id = self.plan.id.wrapping_add(1);
        window.cwnd = target;
        self.release(ack, path, window);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.count(ack, path, window);
        let Some(until) = self.loss.expands_until else {
            self.release(ack, path, window);
            return Step::Stay;
        };
        if ack.cwnd_limited {
            self.expand(ack, path, window);
        }
        let over = ack.total_delivered >= until || ack.in_flight == Bytes::ZERO || !ack.cwnd_limited;
        if over { Step::Done } else { Step::Stay }
    }

    /// Starts the window expanding period. It lasts until the last segment that may be sent now is acknowledged, which
    /// takes one window.
    fn exit(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        if !self.granted || self.loss.by_mark || ack.in_flight == Bytes::ZERO && !ack.cwnd_limited {
            window.cwnd = self.loss.target;
            return Step::Done;
        }
        self.count(ack, path, window);
        let mss = path.mss.as_f64().max(1.0);
        let room = ((window.cwnd - ack.in_flight.as_f64()).max(0.0) / mss).floor() * mss;
        self.loss.expands_until = Some(ack.total_delivered + ack.in_flight + Bytes::from_f64(room));
        Step::Stay
    }

    fn abort(&mut self) {
        self.loss = Loss::default();
    }
}

#[cfg(test)]
mod tests;
