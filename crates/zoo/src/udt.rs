//! UDT's rate control (Gu, Grossman; draft-gg-udt-03, section 5; version 4 of the library): AIMD of the sending rate
//! every 10 ms, with increases that depend on the estimated free capacity of the link.

mod ceiling;
mod intervals;
mod losses;
mod told;

use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{
    Ack, BuildParams, Control, Controller, Demands, Episode, Granted, NeedError, Needs, Pace, Path, PathEvent,
    SendLimit, Sent, Snapshot, Timeout, TxId, update,
};
use longhaul_units::{Bytes, Rate, Span, Time};

use ceiling::Ceiling;
use intervals::{Intervals, Smooth};
use losses::{LossResponse, Losses};
use told::Told;

/// SYN: time between two updates (draft-gg-udt-03).
const SYN: Span = Span::from_millis(10);
/// Initial window of slow start in segments. Later, the window exceeds the data that arrives in a round trip and a SYN
/// by the same number of segments (draft-gg-udt-03).
const FLOOR_SEGMENTS: u64 = 16;
/// Beta: increase in bytes per SYN, per bit/s of the next power of ten above the free rate (draft-gg-udt-03).
const BETA: f64 = 1.5e-6;
/// Minimum increase in bytes per SYN (draft-gg-udt-03: one byte).
const LEAST_STEP: f64 = 1.0;
/// Factor of the inter-packet time at a loss, which reduces the rate by a ninth (draft-gg-udt-03).
const DECREASE: f64 = 1.125;
/// Divisor of the capacity that yields the maximum free rate below the rate of the last decrease (in the library, a
/// decrease reduces the rate by the same fraction).
const FREE_PART: f64 = 9.0;
/// Minimum number of segments sent back to back, where the pacer would send fewer. They trigger two ACKs, whose spacing
/// shows the capacity.
const TRAIN: u64 = 4;
/// Duration of the trains that the pacer chooses, at the current rate.
const TRAIN_SPAN: Span = Span::from_micros(250);
/// Minimum rate in bytes/s. From 10 Mb/s, it takes 130 decreases to reach it.
const LEAST_RATE: f64 = 1.0;

pub(crate) static ENTRY: Entry = Entry::monolithic("udt", |name, values, params| {
    Box::new(Udt::new(name, Options::from_values(values).seed, params))
})
.described("AIMD of the sending rate every 10 ms, by the estimated free capacity", "draft-gg-udt-03; UDT version 4")
.with_options(Options::OPTIONS)
.tested_in(&["udt", "udt(seed=7)"]);

longhaul_cc::options! {
    struct Options {
        seed: u64 =
            OptionSpec::int("seed", 0, u32::MAX as u64, 0, "seed of the random numbers that spread decreases"),
    }
}

/// ACKs of one train, whose newest segments were sent at the same time.
#[derive(Clone, Copy, Debug)]
struct Train {
    sent_at: Option<Time>,
    /// Arrival times of the train's first and last ACK.
    first: Time,
    last: Time,
    /// Bytes delivered since the first and since the last ACK.
    since_first: f64,
    since_last: f64,
}

/// UDT's rate control, a monolithic controller. It has a rate, and a window that only bounds the data in flight
/// during an outage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Udt {
    name: String,
    mss: Bytes,
    cap: Bytes,
    slow_start: bool,
    /// Window in bytes.
    window: f64,
    /// Rate in bytes/s, unused in slow start.
    rate: f64,
    before: f64,
    updated: Option<Time>,
    /// Bytes delivered since the last update.
    arrived: f64,
    lost: bool,
    /// Whether anything other than the application has limited the sender since the last update.
    limited: bool,
    /// Bytes delivered since the last update of slow start.
    grown: f64,
    arrivals: Intervals,
    trains: Intervals,
    train: Option<Train>,
    told: Told,
    /// Smoothed estimates in bytes/s.
    arriving: Smooth,
    capacity: Smooth,
    ceiling: Ceiling,
    losses: Losses,
    segments: bool,
    newest: TxId,
    /// Whether no ACK has arrived since the last timeout.
    silent: bool,
}

impl Udt {
    /// Creates UDT before its handshake. Flows with different `seed`s decrease their rates at different loss reports.
    pub(crate) fn new(name: String, seed: u64, params: &BuildParams) -> Self {
        Self {
            name,
            mss: params.mss,
            cap: params.max_cwnd,
            slow_start: true,
            window: (params.mss * FLOOR_SEGMENTS).as_f64(),
            rate: LEAST_RATE,
            before: f64::INFINITY,
            ceiling: Ceiling::new(),
            losses: Losses::new(seed),
            ..Self::default()
        }
    }

    /// Makes the measurements of UDT's receiver: from reported arrival times if there are any, otherwise from the ACKs.
    fn measure(&mut self, ack: &Ack<'_>) {
        if self.told.digest(ack, self.mss, &mut self.trains, &mut self.arrivals) {
            self.train = None;
        } else {
            self.measure_acks(ack);
        }
    }

    /// Records the spacing of ACKs: between ACKs of one train for the capacity, and between the first ACKs of trains
    /// for the arrival rate. ACKs that arrive at the same instant count as one.
    fn measure_acks(&mut self, ack: &Ack<'_>) {
        let at = ack.rx_time.unwrap_or(ack.now);
        let sent_at = ack.rtt.map(|sample| sample.sent_at);
        let begun = Train { sent_at, first: at, last: at, since_first: 0.0, since_last: 0.0 };
        let train = self.train.get_or_insert(begun);
        train.since_first += ack.delivered.as_f64();
        train.since_last += ack.delivered.as_f64();
        let gap = at.since(train.last).as_secs_f64();
        if gap <= 0.0 {
            return;
        }
        if sent_at.is_some() && sent_at == train.sent_at {
            if !ack.coalesced && ack.episode == Episode::None {
                self.trains.add(gap / train.since_last);
            }
            (train.last, train.since_last) = (at, 0.0);
        } else {
            // Data cannot arrive faster than it was sent, regardless of the peer's reports.
            let left = sent_at.zip(train.sent_at).map_or(Span::ZERO, |(now, then)| now.since(then));
            self.arrivals.add(at.since(train.first).max(left).as_secs_f64() / train.since_first);
            *train = begun;
        }
    }

    /// Ends slow start at the arrival rate, or at the rate of the window if the arrival rate is unknown.
    fn leave_slow_start(&mut self, path: &Path) {
        if self.slow_start {
            self.slow_start = false;
            let arriving = self.arrivals.speed().map(|speed| self.ceiling.of(speed)).or(self.arriving.get());
            let span = path.srtt.unwrap_or(Span::ZERO) + SYN;
            self.rate = arriving.unwrap_or(self.window / span.as_secs_f64()).max(LEAST_RATE);
        }
    }

    /// Returns whether an update is due: one per SYN in which a train arrived. Unlike UDT's receiver, which reports
    /// every SYN, the peer chooses how many ACKs it sends per train and when. It must not be able to choose how often
    /// the rate increases. A late update does not delay the next one.
    fn is_due(&mut self, ack: &Ack<'_>) -> bool {
        let train = (self.mss * TRAIN).as_f64();
        self.arrived = (self.arrived + ack.delivered.as_f64()).min(2.0 * train);
        let updated = *self.updated.get_or_insert(ack.now);
        let due = ack.now.since(updated) >= SYN && self.arrived >= train && ack.delivered > Bytes::ZERO;
        if due {
            self.arrived -= train;
            self.updated = Some((updated + SYN).max(ack.now - SYN));
        }
        due
    }

    fn update(&mut self, path: &Path) {
        if let Some(speed) = self.arrivals.speed() {
            self.arriving.add(self.ceiling.of(speed));
        }
        if let Some(speed) = self.trains.speed() {
            self.capacity.add(self.ceiling.of(speed));
        }
        let limited = std::mem::take(&mut self.limited);
        // Slow start: the window grows by the delivered bytes.
        if self.slow_start {
            self.window += std::mem::take(&mut self.grown);
            if self.window > self.cap.as_f64() {
                self.leave_slow_start(path);
            }
            return;
        }
        // Window: the data of a round trip and a SYN at the arrival rate, plus 16 segments.
        if let (Some(arriving), Some(srtt)) = (self.arriving.get(), path.srtt) {
            self.window = arriving * (srtt + SYN).as_secs_f64() + (self.mss * FLOOR_SEGMENTS).as_f64();
        }
        // Rate: it increases unless a loss occurred or the application limited the sender.
        if !std::mem::take(&mut self.lost) && limited {
            let free = free_part(self.capacity.get().unwrap_or(0.0), self.rate, self.before);
            self.rate += step(free) / SYN.as_secs_f64();
        }
    }

    fn on_loss(&mut self, ack: &Ack<'_>, path: &Path) {
        self.leave_slow_start(path);
        self.lost = true;
        let oldest = ack.lost.iter().map(|segment| segment.tx).min().filter(|_| self.segments);
        let anew = oldest.map_or_else(
            || matches!(ack.episode, Episode::Enter | Episode::Again),
            |oldest| self.losses.is_new(oldest),
        );
        match self.losses.on_report(anew, self.newest) {
            LossResponse::First => {
                self.before = self.rate;
                self.rate /= DECREASE;
            }
            LossResponse::Further => self.rate /= DECREASE,
            LossResponse::Ignore => {}
        }
    }

    fn bound(&mut self) {
        self.window = self.window.min(self.cap.as_f64()).max(self.mss.as_f64());
        self.rate = self.rate.clamp(LEAST_RATE, 1e18);
    }
}

/// Returns the free capacity in bytes/s at a rate of `rate`, where `before` is the rate before the last decrease. It is
/// zero or negative if no capacity is free.
fn free_part(capacity: f64, rate: f64, before: f64) -> f64 {
    let free = capacity - rate;
    if rate < before { free.min(capacity / FREE_PART) } else { free }
}

/// Returns the increase in bytes per SYN for a free capacity of `free` bytes/s: `10^ceil(log10(bits free)) beta`, at
/// least one.
fn step(free: f64) -> f64 {
    let bits = free * 8.0;
    let mut decade = 1.0;
    // The upper bound exceeds any link, and also ends the loop for NaN.
    while decade < bits && decade < 1e18 {
        decade *= 10.0;
    }
    if bits > 0.0 { (decade * BETA).max(LEAST_STEP) } else { LEAST_STEP }
}

impl Controller for Udt {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn needs(&self) -> Needs {
        let required = update!(Demands { pacing: true, ..Demands::default() });
        let preferred = update!(Demands { segments: true, arrival_times: true, pairs: true, ..Demands::default() });
        update!(Needs { required, preferred, ..Needs::default() })
    }

    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.segments = granted.segments;
        match self.needs().required.missing(granted) {
            Some(need) => Err(NeedError::new(self.name(), need)),
            None => Ok(()),
        }
    }

    fn on_sent(&mut self, event: &Sent, _path: &Path) {
        self.newest = event.tx;
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.mss = path.mss;
        self.limited |= matches!(event.limit, SendLimit::Cwnd | SendLimit::Pacing);
        if event.delivered > Bytes::ZERO {
            self.silent = false;
            self.measure(event);
            self.ceiling.observe(event, path);
            if event.cwnd_limited {
                self.grown += event.delivered.as_f64();
            }
        }
        if event.newly_lost > Bytes::ZERO {
            self.on_loss(event, path);
        }
        if self.is_due(event) {
            self.update(path);
        }
        self.bound();
    }

    fn on_timeout(&mut self, _event: &Timeout, path: &Path) {
        self.mss = path.mss;
        self.leave_slow_start(path);
        self.silent = true;
        self.bound();
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.mss = path.mss;
        if matches!(event, PathEvent::Established { .. }) {
            self.window = (path.mss * FLOOR_SEGMENTS).as_f64();
        }
        self.bound();
    }

    fn control(&self) -> Control {
        let window = if self.silent { self.mss } else { Bytes::from_f64(self.window).max(self.mss) };
        let rate = Rate::from_bytes_per_sec(self.rate as u64);
        let train = self.mss * TRAIN;
        let quantum = (rate.bytes_in(TRAIN_SPAN) < train).then_some(train.max(Bytes(1)));
        let pace = (!self.slow_start).then_some(update!(Pace { quantum, ..Pace::new(rate) }));
        update!(Control { pace, ..Control::window(window) })
    }

    fn snapshot(&self) -> Snapshot {
        let phase = if self.slow_start { "slow-start" } else { "rate-control" };
        let bandwidth = self.capacity.get().map(|bytes| Rate::from_bytes_per_sec(bytes as u64));
        update!(Snapshot { bandwidth, ..Snapshot::new(phase) })
    }
}

#[cfg(test)]
mod tests;
