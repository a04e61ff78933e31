//! `copa-cubic`: Copa if the flow is alone or other flows keep the queue short, and CUBIC if others fill it.
//!
//! A congestion signal counts if it responds to the flow's own rate. A delay that remains when the flow reduces its
//! window is not its own queue; a loss without a queue is random. The capacity of the link, measured with the
//! receiver's arrival times, shows whether the flow is alone.

mod acks;
pub(crate) mod capacity;
mod competition;
mod crowd;
mod cruise;
mod dip;
mod reach;
mod resume;
mod reverse;
mod rounds;
mod still;
mod trial;

use longhaul_units::{Bytes, Rate, Span, Time};

use self::acks::Acks;
use self::capacity::Capacity;
use self::competition::{Competition, GAP, View, longer};
use self::crowd::Crowd;
use self::cruise::Cruise;
use self::dip::Delay;
use self::reach::Reach;
use self::reverse::{Claim, Reverse};
use self::rounds::{LossRate, Rounds};
use self::still::{MostRate, Still, most_rate};
use self::trial::{Cause, Trial};
use crate::classify::bbe::BbeLoss;
use crate::compose::{Composed, Stages};
use crate::copa::{Copa, CopaConfig};
use crate::describe::{Entry, OptionSpec};
use crate::estimate::CongestionLevel;
use crate::forward::cubic;
use crate::{
    Ack, BuildParams, Control, Controller, EcnMark, Episode, Estimate, Path, PathEvent, Quantity, SendLimit, Snapshot,
    Timeout, initial_window,
};

pub(crate) static ENTRY: Entry = Entry::monolithic("copa-cubic", |name, values, params| {
    Box::new(CopaCubic::new(name, CopaCubicConfig::from_values(values), params))
})
.described(
    "Copa while the queue is short, CUBIC while others fill it; starts at the measured capacity",
    "Arun, Balakrishnan, Copa, NSDI 2018; RFC 9438",
)
.with_options(CopaCubicConfig::OPTIONS)
.tested_in(&[
    "copa-cubic",
    "copa-cubic(gamma=4)",
    "copa-cubic(floor=off,trials=off,reach=off)",
    "copa-cubic(compete=off)",
])
.internet_safe();

crate::options! {
    pub(crate) struct CopaCubicConfig {
        gamma: u64 = OptionSpec::int("gamma", 1, 8, 1, "divisor of the capacity estimate at the start"),
        floor: bool = OptionSpec::flag("floor", true, "ignore delay that does not respond to the sending rate"),
        compete: bool = OptionSpec::flag("compete", true, "use CUBIC where other flows fill the queue"),
        trials: bool = OptionSpec::flag("trials", true, "test at losses whether other flows give way"),
        reach: bool = OptionSpec::flag("reach", true, "grow by the delivery rate where jitter hides the queue"),
    }
}

/// Time for which a minimum RTT is valid. In competitive mode it does not expire, because the queue may stay full.
const RTT_MIN_LIFETIME: Span = Span::from_secs(30);
/// Share of the capacity above which the flow counts as alone. In competition with flows that fill the queue, its share
/// is smaller.
const ALONE: f64 = 0.85;
/// Number of segments that Copa keeps in the queue.
const KEPT: f64 = 2.0;
/// Delay that hosts cause, in seconds.
const HOST_DELAY: f64 = 0.0001;
/// Maximum pacing rate as a multiple of the capacity, if that is known. Bursts above it only fill the queue.
const PACE_GAIN: f64 = 1.1;
/// Time without an RTT near the minimum after which the flow reduces its window to measure the minimum.
const UNTOUCHED: Span = Span::from_secs(25);
/// Fraction of the RTT above which a queue is never attributed to Copa flows.
const MOST_KEPT: f64 = 0.125;
/// Segments delivered without a loss, after which the queue is assumed not to be full.
const CLEAN: f64 = 500.0;
/// Longest time for which ACKs wait to be sent together. Longer silences are caused by a small window.
const BUNCHES: Span = Span::from_millis(25);
/// Number of round trips after the start in which a queue is tested at once.
const NEWCOMER_ROUNDS: u32 = 5;
/// Moving average of the RTT at losses: fraction kept at a loss, and the level at which a loss no longer counts as
/// random (Gerla et al., PFLDnet 2006).
const LEVEL: (f64, f64) = (0.85, 0.5);

/// Duration, and number of round trips, of small messages after which the flow starts again.
const SPARSE: (Span, u32) = (Span::from_secs(1), 4);

/// Small messages without a loss or mark, while the window is at most that of a new connection.
#[derive(Clone, Copy, Debug)]
struct Sparse {
    since: Time,
    /// Number of round trips that have begun.
    rounds: u32,
}

/// The algorithm that controls the window.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Start,
    Cruise,
    /// No algorithm: the window is reduced for a trial.
    Trial(Trial),
    Compete(Competition),
}

#[derive(Clone, Debug)]
pub(crate) struct CopaCubic {
    config: CopaCubicConfig,
    mode: Mode,
    /// Whether the transport paces. If not, CUBIC controls the window throughout.
    paced: bool,
    ecn: EcnMark,
    mss: Bytes,
    copa: Copa,
    /// CUBIC with the start-up scheme.
    cubic: Composed,
    cruise: Cruise,
    crowd: Crowd,
    reach: Reach,
    capacity: Capacity,
    rounds: Rounds,
    losses: LossRate,
    acks: Acks,
    reverse: Reverse,
    still: Still,
    most_rate: MostRate,
    level: CongestionLevel,
    /// Time between two trials in competitive mode, and the end of that mode.
    gap: Span,
    left: Option<Time>,
    /// Time of the newest RTT sample near the minimum RTT.
    touched: Time,
    sparse: Option<Sparse>,
    /// Pacing rate in bytes per second, in the first round trip after an idle period.
    resumed: Option<f64>,
}

impl CopaCubic {
    fn new(name: String, config: CopaCubicConfig, params: &BuildParams) -> Self {
        let classifier = Box::new(BbeLoss::new(CongestionLevel::new(LEVEL.0), LEVEL.1));
        let stages = Stages { classifier, ..cubic(name, config.gamma) };
        let copa = CopaConfig { competitive: false, rtt_min_window: RTT_MIN_LIFETIME, ..CopaConfig::default() };
        Self {
            config,
            mode: Mode::Start,
            paced: true,
            ecn: EcnMark::NotEct,
            mss: params.mss,
            copa: Copa::new(copa, params).with_jitter(),
            cubic: Composed::new(stages, params),
            cruise: Cruise::default(),
            crowd: Crowd::default(),
            reach: Reach::default(),
            capacity: Capacity::default(),
            rounds: Rounds::default(),
            losses: LossRate::default(),
            acks: Acks::default(),
            reverse: Reverse::default(),
            still: Still::default(),
            most_rate: most_rate(),
            level: CongestionLevel::new(LEVEL.0).with_rtt_min_window(RTT_MIN_LIFETIME),
            gap: GAP.0,
            left: None,
            touched: Time::ZERO,
            sparse: None,
            resumed: None,
        }
    }

    /// Returns whether CUBIC or the start-up scheme controls the window.
    const fn is_composed(&self) -> bool {
        matches!(self.mode, Mode::Start | Mode::Compete(_)) || !self.paced
    }

    /// Returns the RTT without the queue of the forward path.
    fn base(&self) -> Span {
        self.copa.delays.base().unwrap_or_default()
    }

    /// Returns the window that holds the delivery rate `rate`, in bytes per second, with the queue that Copa keeps.
    fn window_for(&self, rate: f64) -> f64 {
        rate * self.base().as_secs_f64() + KEPT * self.mss.as_f64()
    }

    /// Returns the share of the capacity in the last round trip, if it is known and the window limited the flow.
    fn share(&self) -> Option<f64> {
        self.rounds.share(self.capacity.rate())
    }

    /// Returns the delay of an empty queue, in seconds.
    fn empty(&self) -> f64 {
        let rate = self.capacity.rate().or(self.rounds.rate());
        rate.map_or(0.0, |rate| KEPT * self.mss.as_f64() / rate) + HOST_DELAY
    }

    /// Returns the silence between bunches of ACKs in seconds.
    fn silence(&self) -> f64 {
        self.copa.delays.silence.min(BUNCHES).as_secs_f64()
    }

    /// Returns the queue of the reverse path, as measured with arrival times.
    fn claim(&self) -> Claim {
        let delay = self.copa.delays.reverse();
        Claim {
            delay,
            queueing: self.reverse.queueing(delay),
            base: self.base().as_secs_f64(),
            least: self.copa.delays.least().as_secs_f64(),
            silence: self.silence(),
            jitter: self.copa.delays.measured_jitter(),
            is_scattered: self.capacity.is_scattered,
        }
    }

    /// If the reverse path has a long queue, requests fewer ACKs and limits its delay.
    fn on_reverse_round(&mut self) {
        let window = self.control().cwnd.as_f64() / self.mss.as_f64();
        let claim = self.claim();
        self.acks.on_round(claim.queueing, claim.base, window);
        let most = self.reverse.on_round(claim);
        self.copa.delays.limit_reverse(most);
    }

    /// Continues as Copa with a window of `window` bytes, in slow start if it `grows`.
    fn begin_cruise(&mut self, window: f64, grows: bool) {
        self.copa.delays.set_lifetime(RTT_MIN_LIFETIME);
        self.copa.take_over(window.max(2.0 * self.mss.as_f64()), grows);
        self.mode = Mode::Cruise;
        self.reach.restart();
        self.cruise.grow_without_limit();
    }

    fn begin_competition(&mut self, window: f64, now: Time, path: &Path) {
        self.copa.delays.set_lifetime(Span::MAX);
        self.cubic.take_over(window, now, path);
        // Ending the mode was wrong if it soon begins again.
        let was_wrong = self.left.is_some_and(|left| now.since(left) < GAP.1);
        self.gap = if was_wrong { longer(self.gap) } else { GAP.0 };
        self.mode = Mode::Compete(Competition::new(now, self.gap));
        // A flow that has competed is not new.
        self.cruise.newcomer = 0;
    }

    /// Leaves the start once its scheme has ended, or at the first loss. A loss without a queue is random.
    fn on_start_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        let before = self.cubic.window().cwnd;
        self.cubic.on_ack(ack, path);
        let window = self.cubic.window();
        if ack.episode == Episode::Enter {
            let is_random = self.copa.is_nearly_empty() && !self.claim().is_long();
            let delivered = ack.rate.map_or(before, |sample| sample.rate.bytes_in(self.base()).as_f64());
            let held = if is_random { ack.flight_size.as_f64() } else { delivered };
            self.cruise.newcomer = NEWCOMER_ROUNDS;
            self.begin_cruise(held.min(before), is_random);
        } else if !self.cubic.is_in_startup() {
            self.cruise.newcomer = NEWCOMER_ROUNDS;
            self.begin_cruise(window.cwnd, window.below_threshold());
        }
    }

    fn window(&self) -> f64 {
        match self.mode {
            Mode::Start | Mode::Compete(_) => self.cubic.window().cwnd,
            Mode::Trial(trial) => trial.window,
            Mode::Cruise => self.copa.control().cwnd.as_f64(),
        }
    }

    /// Starts like a new connection, but with at most `window` bytes. Without a start-up scheme for the peer, Copa
    /// continues in slow start.
    fn restart(&mut self, window: f64, event: &PathEvent, now: Time, path: &Path) {
        (self.reach, self.crowd) = (Reach::default(), Crowd::default());
        self.begin_cruise(window, true);
        self.copa.on_event(event, path);
        self.cubic.take_over(window, now, path);
        self.cubic.on_event(event, path);
        if self.cubic.is_in_startup() {
            self.mode = Mode::Start;
        } else {
            self.copa.take_over(self.cubic.window().cwnd.min(self.copa.cwnd), true);
        }
    }

    /// Starts again if only small messages, such as keep-alives of an application, have been sent for some time. A
    /// queue of other flows or a timeout may have reduced the window below that of a new connection, and neither such
    /// messages nor restarts after the idle periods between them increase it.
    fn restart_if_sparse(&mut self, ack: &Ack<'_>, path: &Path) {
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        let is_congested = ack.episode != Episode::None || ack.newly_lost > Bytes::ZERO || ack.ecn_echo;
        let is_limited = ack.cwnd_limited || ack.limit != SendLimit::App;
        let is_started = matches!(self.mode, Mode::Start) && self.window() >= initial;
        if is_congested || is_limited || is_started || self.window() > initial {
            self.sparse = None;
            return;
        }
        let sparse = self.sparse.get_or_insert(Sparse { since: ack.now, rounds: 0 });
        sparse.rounds = sparse.rounds.saturating_add(u32::from(ack.round_start));
        let time = ack.now.since(sparse.since);
        if ack.in_flight == Bytes::ZERO && sparse.rounds > SPARSE.1 && time >= SPARSE.0 {
            self.restart(initial, &PathEvent::IdleRestart { now: ack.now, idle: time }, ack.now, path);
            self.sparse = None;
        }
    }

    /// Counts a queueing delay of `delay` seconds as delay of the route.
    fn ignore_delay(&mut self, delay: f64) {
        self.copa.delays.raise_floor(delay);
        let reverse = self.copa.delays.reverse();
        self.copa.delays.limit_reverse(reverse);
        self.reverse.raise_floor(reverse);
        self.cruise.on_route();
    }

    fn on_trial_ack(&mut self, mut trial: Trial, ack: &Ack<'_>, path: &Path) {
        let is_over = trial.on_ack(ack, self.copa.delays.queueing(), self.base().as_secs_f64());
        self.mode = Mode::Trial(trial);
        if !is_over {
            return;
        }
        // Other flows in cruise mode keep their part of the queue.
        let kept = (KEPT * self.mss.as_f64() / trial.rate).min(MOST_KEPT * self.base().as_secs_f64());
        let empty = self.empty().max(kept);
        let clean = self.losses.clean > CLEAN * self.mss.as_f64();
        let cause = trial.cause(self.capacity.rate(), empty, self.copa.delays.variation(), clean);
        match cause {
            Cause::Gone => self.begin_cruise(self.window_for(trial.rate).min(trial.window), false),
            Cause::Others if self.config.compete && !trial.only_looks => {
                // The window before Copa reduced it.
                let window = self.cruise.unfilled.clamp(trial.window, 2.0 * trial.window);
                self.begin_competition(window, ack.now, path);
            }
            Cause::NoQueue(delay) if self.config.floor => {
                self.ignore_delay(delay);
                self.begin_cruise(self.restored(trial.window), false);
            }
            Cause::NoQueue(_) | Cause::Others => self.begin_cruise(trial.window, false),
        }
    }

    fn on_compete_ack(&mut self, mut mode: Competition, ack: &Ack<'_>, path: &Path) {
        // CUBIC processes the ACK, and is limited to half of the link.
        let before = self.cubic.window().cwnd;
        self.cubic.on_ack(ack, path);
        let share = self.share().filter(|_| ack.round_start);
        if let Some(window) = mode.hold(ack, share, before, self.cubic.window().cwnd, self.mss.as_f64()) {
            self.cubic.take_over(window, ack.now, path);
        }
        let window = self.cubic.window().cwnd;
        let queueing = self.copa.delays.queueing();
        let rtt = self.copa.delays.standing().unwrap_or_default().as_secs_f64();
        let (base, empty) = (self.base().as_secs_f64(), self.empty());
        if let Some(trial) = mode.on_trial_ack(ack, queueing, base, empty) {
            (self.gap, self.left) = (mode.gap, Some(ack.now));
            self.cruise.competed = Some((ack.now, trial.rate));
            return self.begin_cruise(self.window_for(trial.rate).min(trial.window), false);
        }
        mode.on_dip_ack(ack, rtt, self.capacity.rate());
        // Without the capacity, a dip shows nothing.
        if self.config.trials && self.capacity.rate().is_some() {
            let rate = self.rounds.rate();
            let trial = || rate.map(|rate| Trial::new(before, rate, base, queueing, false));
            mode.on_queue(ack, Delay { queueing, rtt, empty }, before, trial);
        }
        let held = self.capacity.rate().map_or(window, |capacity| capacity * rtt);
        let view = View {
            is_empty: self.copa.is_nearly_empty(),
            share,
            window: window / self.mss.as_f64(),
            held: held / self.mss.as_f64(),
        };
        if mode.is_over(ack, &view) {
            let held = self.rounds.rate().map_or(window, |rate| self.window_for(rate));
            return self.begin_cruise(held.min(window), false);
        }
        self.mode = Mode::Compete(mode);
    }
}

impl Controller for CopaCubic {
    crate::with_cubic!(is_composed);

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.mss = path.mss;
        if !self.paced {
            return self.cubic.on_ack(event, path);
        }
        self.resumed = self.resumed.filter(|_| event.rtt.is_none());
        // The estimators process every ACK, whichever algorithm controls the window.
        self.copa.measure(event, path);
        self.capacity.on_ack(event);
        self.rounds.on_ack(event);
        self.losses.on_ack(event);
        self.level.on_ack(event);
        if event.newly_lost > Bytes::ZERO {
            self.reverse.on_loss();
        }
        if event.newly_lost > Bytes::ZERO || event.ecn_echo {
            self.still = Still::default();
        }
        if event.round_start {
            let most_jitter = self.capacity.most_jitter(event.now, self.mss.as_f64()).unwrap_or(f64::INFINITY);
            self.copa.delays.limit_jitter(most_jitter);
            self.on_reverse_round();
            self.on_still_round(event.now, event.cwnd_limited);
        }
        let touched = self.base() + Span::from_secs_f64(HOST_DELAY);
        if event.rtt.is_some_and(|sample| sample.rtt <= touched) {
            self.touched = event.now;
        }
        match self.mode {
            Mode::Start => self.on_start_ack(event, path),
            Mode::Cruise => self.on_cruise_ack(event, path),
            Mode::Trial(trial) => self.on_trial_ack(trial, event, path),
            Mode::Compete(mode) => self.on_compete_ack(mode, event, path),
        }
        self.restart_if_sparse(event, path);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.mss = path.mss;
        (self.sparse, self.resumed, self.still) = (None, None, Still::default());
        match &mut self.mode {
            Mode::Compete(mode) => {
                mode.on_timeout();
                return self.cubic.on_timeout(event, path);
            }
            _ if !self.paced => return self.cubic.on_timeout(event, path),
            Mode::Start => {
                // The start-up scheme ends, and restarts after idle periods become careful (RFC 6928, section 2).
                let window = self.cubic.window().cwnd;
                self.cubic.on_timeout(event, path);
                self.begin_cruise(window, true);
            }
            Mode::Trial(trial) => {
                let window = trial.window;
                self.begin_cruise(window, false);
            }
            Mode::Cruise => {}
        }
        self.capacity.clear();
        self.reverse.on_timeout();
        self.reach = Reach::default();
        self.cruise.on_route();
        if event.nth <= 1 {
            self.cruise.on_timeout(self.copa.cwnd, self.copa.slow_start, self.mss.as_f64());
        }
        self.copa.on_timeout(event, path);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.mss = path.mss;
        if let (PathEvent::IdleRestart { now, idle }, true) = (event, self.paced) {
            return match self.kept_window(*idle) {
                Some(window) => self.resume(window, *now, path),
                None => self.restart(self.window(), event, *now, path),
            };
        }
        // CUBIC follows the segment size in all modes.
        if self.is_composed() || matches!(event, PathEvent::Mss { .. }) {
            self.cubic.on_event(event, path);
        }
        if self.is_composed() {
            return;
        }
        if let PathEvent::Spurious { timeout: true, .. } = event {
            self.cruise.undo_timeout();
        }
        self.copa.on_event(event, path);
    }

    fn is_dispensable(&self, idle: Span) -> bool {
        self.is_like_new_after(idle)
    }

    fn control(&self) -> Control {
        let mut control = if self.is_composed() { self.cubic.control() } else { self.copa.control() };
        let limit = match self.mode {
            Mode::Trial(trial) => trial.lowered,
            Mode::Compete(mode) => mode.limit(),
            Mode::Start | Mode::Cruise => f64::INFINITY,
        };
        control.cwnd = control.cwnd.min(Bytes::from_f64(limit)).max(self.mss);
        control.ecn = self.ecn;
        control.ack_ratio = self.acks.ratio();
        // After the start, only arrival times are read.
        control.each_segment = matches!(self.mode, Mode::Start);
        if let Some(pace) = control.pace.as_mut().filter(|_| !self.is_composed()) {
            if let Some(capacity) = self.capacity.rate() {
                pace.rate = pace.rate.min(Rate::from_bytes_per_sec((capacity * PACE_GAIN) as u64));
            }
            if let Some(resumed) = self.resumed {
                pace.rate = pace.rate.min(Rate::from_bytes_per_sec(resumed as u64));
            }
            // The pacer's quantum has at least two segments, and pairs of them show the capacity.
            pace.quantum = None;
        }
        control
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.cubic.snapshot();
        if !matches!(self.mode, Mode::Start) {
            snapshot.bandwidth = self.capacity.rate().map(|rate| Rate::from_bytes_per_sec(rate as u64));
        }
        snapshot.phase = match self.mode {
            Mode::Start => snapshot.phase,
            Mode::Cruise if self.copa.slow_start => "slow-start",
            Mode::Cruise => "cruise",
            Mode::Trial(_) => "trial",
            Mode::Compete(_) => "competitive",
        };
        snapshot.estimates = Snapshot::new("").estimates;
        if let Some(capacity) = self.capacity.rate().and_then(|rate| Estimate::rate("capacity", rate)) {
            snapshot.estimates.push(capacity);
        }
        if let Some(share) = self.share() {
            snapshot.estimates.push(Estimate { name: "share", value: Quantity::Number(share) });
        }
        let floor = self.copa.delays.floor();
        snapshot.estimates.push(Estimate { name: "delay-floor", value: Quantity::Span(floor) });
        snapshot
    }
}

#[cfg(test)]
mod tests;
