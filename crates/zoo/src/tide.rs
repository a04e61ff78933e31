//! Tide: flows fill the path until a standing queue forms, and drain it together.
//!
//! The window grows until the queue exceeds a threshold for a whole round trip. All `tide` flows on a link observe this
//! within one round trip of each other and reduce their windows at the same time. If the queue then drains, only `tide`
//! flows caused it: each continues with the part of its window that the path holds without a queue, large flows with
//! slightly less. If the queue remains, other flows fill it, and CUBIC takes over; if the flow is alone on the link,
//! the delay belongs to a longer route.

mod compete;
mod drain;
mod fill;
mod losses;
mod model;

use longhaul_cc::compose::Composed;
use longhaul_cc::internal::copa_cubic::cubic;
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{
    Ack, BuildParams, Control, Controller, EcnMark, Episode, Estimate, Pace, Path, PathEvent, Quantity, Snapshot,
    Timeout, initial_window, update, with_cubic,
};
use longhaul_units::{Bytes, Rate, Span, Time};

use self::compete::{Compete, GAP};
use self::drain::{Cause, Drain, TINY};
use self::fill::Fill;
use self::losses::Losses;
use self::model::Model;
pub(crate) static ENTRY: Entry = Entry::monolithic("tide", |name, values, params| {
    Box::new(Tide::new(name, TideConfig::from_values(values), params))
})
.described("fills the path until a queue stands, and empties it together with its own kind", "this project; RFC 9438")
.with_options(TideConfig::OPTIONS)
.tested_in(&["tide"])
.keeping_at_losses();

longhaul_cc::options! {
    pub(crate) struct TideConfig {
        /// Whether to use CUBIC where other flows fill the queue.
        compete: bool = OptionSpec::flag("compete", true, "use CUBIC where other flows fill the queue"),
    }
}

/// Maximum pacing rate as a multiple of the capacity if it is known, and otherwise of the window per RTT.
const PACE_GAIN: (f64, f64) = (1.1, 1.5);
/// Number of segments below which a window is small: its flow is paced at its own rate and does not drain in time with
/// other flows.
const SMALL: f64 = 4.0;
/// Fraction of its share of the capacity that a flow leaves to other `tide` flows after a drain.
const YIELD: f64 = 0.3;
/// Share of the capacity above which there are no other `tide` flows, and the share during a drain above which there
/// are no other flows at all.
const ALONE: f64 = 0.9;
const ALONE_LOWERED: f64 = 0.75;
/// Fraction of the window with which CUBIC begins after a loss (RFC 9438).
const COMPETE_KEPT: f64 = 0.7;
/// Number of consecutive drains that the queue must outlast before a flow competes, and the number for a flow with a
/// small window: flows of few segments do not drain a queue at the same time.
const OUTLASTED: (u32, u32) = (2, 6);
/// Initial and maximum number of round trips for which the window is held after losses that it caused.
const HOLD: (u32, u32) = (8, 64);

#[derive(Clone, Copy, Debug)]
enum Phase {
    Start,
    /// Growth until there is a standing queue.
    Fill(Fill),
    /// Temporary reduction that tests whether the queue drains.
    Drain(Drain),
    Compete(Compete),
}

#[derive(Clone, Debug)]
pub(crate) struct Tide {
    config: TideConfig,
    phase: Phase,
    /// Whether the transport paces. If not, CUBIC controls the window throughout.
    paced: bool,
    ecn: EcnMark,
    cap: f64,
    model: Model,
    losses: Losses,
    cubic: Composed,
    /// The window in bytes, and the window up to which it doubles per round trip.
    window: f64,
    grow_to: f64,
    /// Window at which losses hold the flow, and the remaining number of round trips; then the number for the next
    /// time.
    hold: Option<(f64, u32)>,
    held_for: u32,
    /// Number of consecutive drains that the queue has outlasted.
    foreign: u32,
    /// Capacity to which the window was last scaled.
    scaled: Option<f64>,
    left: Option<Time>,
    /// Time between two tests during competition.
    gap: Span,
    /// Offset of a clock that hosts share, relative to this one.
    shared_clock: Option<Span>,
    /// Minimum RTT that the flow relies on, in seconds.
    relied: Option<f64>,
    undo: Option<f64>,
}

impl Tide {
    fn new(name: String, config: TideConfig, params: &BuildParams) -> Self {
        let mss = params.mss.as_f64().max(1.0);
        Self {
            config,
            phase: Phase::Start,
            paced: true,
            ecn: EcnMark::NotEct,
            cap: params.max_cwnd.as_f64(),
            model: Model::new(mss),
            losses: Losses::new(),
            cubic: Composed::new(cubic(name, 1), params),
            window: mss,
            grow_to: 0.0,
            hold: None,
            held_for: HOLD.0,
            foreign: 0,
            scaled: None,
            left: None,
            shared_clock: params.shared_clock,
            relied: None,
            gap: GAP.0,
            undo: None,
        }
    }

    /// Returns whether CUBIC or the start-up scheme tracks the connection.
    const fn follows(&self) -> bool {
        let tests = matches!(self.phase, Phase::Drain(Drain { is_competing: true, .. }));
        tests || self.is_composed()
    }

    /// Returns whether CUBIC or the start-up scheme controls the window.
    const fn is_composed(&self) -> bool {
        matches!(self.phase, Phase::Start | Phase::Compete(_)) || !self.paced
    }

    fn bound(&mut self) {
        self.window = self.window.min(self.cap).max(TINY * self.model.mss);
    }

    /// Updates the minimum RTT that the flow relies on. Returns whether it has decreased by more than the threshold.
    fn update_base(&mut self) -> bool {
        let (least, relied) = (self.model.least(), self.relied);
        let fell = relied.is_some_and(|relied| least < relied - self.model.threshold);
        if fell || relied.is_none_or(|relied| least > relied) {
            self.relied = Some(least);
        }
        fell
    }

    /// Fills the path starting from a window of `window` bytes, which doubles per round trip up to `grow_to`.
    fn fill(&mut self, window: f64, grow_to: f64) {
        (self.window, self.grow_to) = (window, grow_to);
        self.model.set_expiry(true);
        // A drain because of losses does not restart the acceleration of growth.
        let rounds = match self.phase {
            Phase::Drain(drain) if drain.cause == Cause::Losses => drain.filled,
            _ => 0,
        };
        self.phase = Phase::Fill(Fill::new(rounds, self.model.delays.queueing()));
        self.bound();
    }

    fn drain(&mut self, cause: Cause, is_competing: bool) {
        let filled = if let Phase::Fill(fill) = self.phase { fill.rounds } else { 0 };
        let window = if is_competing { self.cubic.window().cwnd } else { self.window };
        let mut drain = Drain::new(cause, is_competing, window, &self.losses, &self.model);
        drain.filled = filled;
        self.window = window;
        if cause == Cause::Losses {
            self.losses.begin();
        }
        self.phase = Phase::Drain(drain);
    }

    /// Ends the start when its scheme has ended or at the first loss. Unless a full queue caused the loss, the window
    /// keeps doubling.
    fn on_start_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        let before = self.cubic.window().cwnd;
        self.cubic.on_ack(ack, path);
        if ack.episode == Episode::Enter {
            if self.losses.on_ack(ack, false, &self.model) {
                let delivered = |rate: Rate| rate.as_bytes_per_sec() as f64 * self.model.base();
                let held = ack.rate.map_or(COMPETE_KEPT * before, |sample| delivered(sample.rate).min(before));
                self.fill(held, 0.0);
            } else {
                self.fill(ack.flight_size.as_f64().min(before), f64::INFINITY);
            }
        } else if !self.cubic.is_in_startup() {
            let window = self.cubic.window();
            self.fill(window.cwnd, if window.below_threshold() { window.ssthresh } else { 0.0 });
        }
    }

    fn on_drain_ack(&mut self, mut drain: Drain, ack: &Ack<'_>, path: &Path) {
        if drain.is_competing {
            self.cubic.on_ack(ack, path);
        }
        if self.update_base() {
            drain.on_shorter_base(&self.model);
        }
        let is_gone = drain.on_ack(ack, self.model.delays.queueing(), self.model.threshold);
        if self.losses.on_ack(ack, drain.shows_losses(), &self.model) && drain.cause == Cause::Queue {
            drain.cause = Cause::Overflow;
        }
        self.phase = Phase::Drain(drain);
        let Some(is_gone) = is_gone else { return };
        if drain.cause == Cause::Losses && self.losses.judge() {
            self.hold = Some((drain.held, self.held_for));
            self.held_for = (2 * self.held_for).min(HOLD.1);
        }
        drain.held = drain.held_by(&self.model);
        if is_gone { self.on_own_queue(drain, ack.now) } else { self.on_foreign_queue(drain, ack.now, path) }
    }

    /// Only `tide` flows caused the queue, and they now share the path.
    fn on_own_queue(&mut self, drain: Drain, now: Time) {
        if drain.is_competing {
            self.left = Some(now);
        }
        self.foreign = 0;
        let rate = drain.rate.max(self.model.rate());
        let share = self.model.capacity.rate().map(|capacity| rate / capacity);
        let left = match share {
            Some(share) if share <= ALONE && drain.helped() => 1.0 - YIELD * share,
            _ => 1.0,
        };
        self.fill((left * drain.held).min(drain.window), 0.0);
    }

    /// The queue remains: other flows fill it, or the route is longer.
    fn on_foreign_queue(&mut self, drain: Drain, now: Time, path: &Path) {
        if drain.is_competing {
            return self.resume_competing(now);
        }
        let share = self.model.capacity.rate().map(|capacity| self.model.last_rate() / capacity);
        let is_alone = share.is_some_and(|share| share > ALONE_LOWERED);
        let unmoved = drain.unmoved(self.model.capacity.rate(), self.model.noise());
        if let Some(delay) = unmoved.or(is_alone.then(|| self.model.delays.queueing())) {
            self.foreign = 0;
            self.model.delays.raise_floor(delay);
            return self.fill(drain.held, 0.0);
        }
        if !self.config.compete {
            return self.fill(drain.held, 0.0);
        }
        self.foreign += 1;
        let is_small = drain.held < SMALL * self.model.mss;
        let kept = if matches!(drain.cause, Cause::Overflow | Cause::Mark) { COMPETE_KEPT } else { 1.0 };
        if self.foreign < if is_small { OUTLASTED.1 } else { OUTLASTED.0 } {
            return self.fill(kept * drain.window, 0.0);
        }
        self.compete(kept * drain.window, false, now, path);
    }
}

impl Controller for Tide {
    with_cubic!(follows);

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        if !self.paced {
            return self.cubic.on_ack(event, path);
        }
        self.model.on_ack(event, path, self.losses.overflow());
        self.losses.observe(event);
        match self.phase {
            Phase::Start => self.on_start_ack(event, path),
            Phase::Fill(fill) => self.on_fill_ack(fill, event, path),
            Phase::Drain(drain) => self.on_drain_ack(drain, event, path),
            Phase::Compete(mode) => self.on_compete_ack(mode, event, path),
        }
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.model.set_segment(path);
        if matches!(self.phase, Phase::Compete(_)) || !self.paced {
            return self.cubic.on_timeout(event, path);
        }
        if let Phase::Start = self.phase {
            self.window = self.cubic.window().cwnd;
            self.cubic.on_timeout(event, path);
        }
        let is_first = event.nth <= 1;
        if is_first {
            self.undo = Some(self.window);
            self.hold = None;
        }
        self.model.capacity.clear();
        self.losses.forget_overflow();
        (self.scaled, self.foreign) = (None, 0);
        let to = if is_first { self.window } else { self.grow_to };
        self.fill(self.model.mss, to);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.model.set_segment(path);
        if self.follows() || matches!(event, PathEvent::Mss { .. }) {
            self.cubic.on_event(event, path);
        }
        if self.is_composed() {
            return;
        }
        match *event {
            PathEvent::IdleRestart { .. } => {
                let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
                let before = self.window;
                self.scaled = None;
                self.fill(before.min(initial), before);
            }
            PathEvent::Spurious { timeout: true, .. } => {
                if let Some(window) = self.undo.take() {
                    self.fill(window, 0.0);
                }
            }
            _ => {}
        }
    }

    fn control(&self) -> Control {
        let mut control = if self.is_composed() {
            self.cubic.control()
        } else {
            let window = if let Phase::Drain(drain) = self.phase { drain.lowered } else { self.window };
            // With a window of a few segments, a pacing rate above the window's rate would in effect enlarge the
            // window.
            let gain = if window < SMALL * self.model.mss { 1.0 } else { PACE_GAIN.1 };
            let pace = self.model.delays.standing().map(|rtt| {
                let own =
                    Rate::from_bytes_over(Bytes::from_f64(window), rtt).mul_f64(gain).max(Rate::from_bytes_per_sec(1));
                let most = self
                    .model
                    .capacity
                    .rate()
                    .map(|rate| Rate::from_bytes_per_sec(((PACE_GAIN.0 * rate) as u64).max(1)));
                Pace::new(most.map_or(own, |most| own.min(most)))
            });
            update!(Control { pace, ..Control::window(Bytes::from_f64(window.min(self.cap).max(self.model.mss))) })
        };
        control.ecn = self.ecn;
        // After the start, only arrival times are read.
        control.each_segment = matches!(self.phase, Phase::Start);
        control
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.cubic.snapshot();
        snapshot.phase = match self.phase {
            Phase::Start => snapshot.phase,
            Phase::Fill(_) => "fill",
            Phase::Drain(_) => "drain",
            Phase::Compete(_) => "competitive",
        };
        if !matches!(self.phase, Phase::Start) {
            snapshot.bandwidth = self.model.capacity.rate().map(|rate| Rate::from_bytes_per_sec(rate as u64));
        }
        snapshot.estimates = Snapshot::new("").estimates;
        if let Some(capacity) = self.model.capacity.rate().and_then(|rate| Estimate::rate("capacity", rate)) {
            snapshot.estimates.push(capacity);
        }
        if let Some(share) = self.model.share() {
            snapshot.estimates.push(Estimate::new("share", Quantity::Number(share)));
        }
        snapshot.estimates.push(Estimate::new("delay-floor", Quantity::Span(self.model.delays.floor())));
        snapshot
    }
}

#[cfg(test)]
mod tests;
