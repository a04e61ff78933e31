//! CapProbe as an active method: packet pairs of two sizes until two runs agree.

mod run;
mod skew;

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::options::options;
use crate::{Estimate, Method, MethodKind, Next, RateRange, Train, TrainReport};
use longhaul_cc::internal::{CapProbeConfig, CapProbeEstimate};
use run::Run;

/// Number of arrivals from which the resolution of the receiver's clock is estimated.
const ARRIVALS: u32 = 8;
/// Factor by which trains become longer if the first and the last packet of most trains arrive at the same time (10 in
/// PBProbe).
const GROWTH: u32 = 4;
/// Number of trains after which a run ends if no packet arrives at all.
const SILENCE: u32 = 10;
/// Fraction of pairs with a delay close to the smallest one at which a run has full confidence. A queue that is empty
/// for half or for a fifth of the time lets more pairs than that pass. In a queue that never empties, about one pair in
/// 50 has a delay close to the smallest.
const IDLE: f64 = 0.1;
/// Confidence in a single converged run.
const ALONE: f64 = 0.5;
/// Upper bound of the confidence in a run that has not converged.
const VAGUE: f64 = 0.3;

options! {
    /// Constants of [`CapProbeMethod`], which follow the published procedure, as far as it is known.
    pub(crate) struct CapProbeOptions {
        /// Sizes of the packets (IP) of the two kinds of runs in bytes.
        sizes: (u32, u32) = (700, 900);
        /// Largest size to which packets may grow in bytes.
        largest: u32 = 1400;
        least: u32 = 40;
        /// Number of trains after which a run fails.
        most: u32 = 100;
        /// Relative change of the packet size after a run that gave up.
        step: f64 = 0.2;
        /// Largest difference between the rates of two runs that agree, relative to their mean.
        agreement: f64 = 0.05;
        /// Maximum queueing delay of a pair that counts as undistorted, relative to its dispersion.
        share: f64 = 0.05;
        runs: u32 = 8;
        /// Mean time between trains. Each interval is varied by up to 25 %, so that trains do not synchronize with
        /// periodic traffic.
        interval: Span = Span::from_millis(50);
        /// Largest load of all trains, relative to the capacity.
        load: f64 = 0.05;
        /// Smallest error of clocks. If the receiver's readings have a coarser resolution, that is used instead.
        clock: Span = Span::from_micros(1);
        /// Smallest dispersion of a train in ticks of the clock, which determines its length.
        ticks: u32 = 25;
        /// Largest number of packets per train.
        longest: u32 = 64;
        /// Largest drift between the two clocks in parts per million.
        skew_ppm: f64 = 200.0;
        /// Time for which the report of a train is awaited.
        patience: Span = Span::from_secs(5);
    }
}

impl CapProbeOptions {
    /// Returns the constants for a path that carries packets of at most `largest` bytes: sizes in the same proportion.
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        let largest = u32::try_from(largest.0).unwrap_or(u32::MAX);
        let (first, second) = self.sizes;
        let smaller = second.min(largest);
        Self { sizes: (first * smaller / second, smaller), largest: self.largest.min(largest), ..self }
    }
}

/// CapProbe (Kapoor et al., SIGCOMM 2004): measures capacity by packet pairs to a receiver that timestamps arrivals.
///
/// Runs alternate between two packet sizes. A run ends when its filter converges; a run that does not converge is
/// repeated with another size. The measurement ends when two successive runs agree. If the receiver's clock is too
/// coarse for the dispersion of a pair, longer trains replace pairs, as in PBProbe on fast links. The drift between the
/// two clocks is removed from the delays of each run.
#[derive(Clone, Debug)]
pub(crate) struct CapProbeMethod {
    options: CapProbeOptions,
    sizes: [u32; 2],
    /// Kind of the current run: 0 or 1.
    kind: usize,
    length: u32,
    /// Result of the last run of each kind, if it converged.
    found: [Option<CapProbeEstimate>; 2],
    run: Run,
    latest: Option<CapProbeEstimate>,
    runs: u32,
    next_id: u32,
    /// Trains of this run in flight, and the time until which their reports are awaited.
    under_way: Vec<(u32, Time)>,
    sent: u32,
    next_at: Time,
    tick: Tick,
    random: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Open,
    /// Common range of two runs that agree, and the support by their pairs from 0 to 1.
    Agreed(RateRange, f64),
    GaveUp,
}

impl CapProbeMethod {
    pub(crate) fn new(options: CapProbeOptions) -> Self {
        Self {
            sizes: [options.sizes.0, options.sizes.1],
            kind: 0,
            length: 2,
            found: [None; 2],
            run: Run::default(),
            latest: None,
            runs: 0,
            next_id: 0,
            under_way: Vec::new(),
            sent: 0,
            next_at: Time::ZERO,
            tick: Tick::default(),
            random: 1,
            outcome: Outcome::Open,
            options,
        }
    }

    fn size(&self) -> u32 {
        self.sizes[self.kind]
    }

    fn send(&mut self, now: Time) -> Next {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.sent += 1;
        self.under_way.push((id, now + self.options.patience));
        self.next_at = now + self.interval();
        Next::Send(Train::regular(id, self.length, Bytes::from(self.size()), Span::ZERO))
    }

    /// Time until the next train: 0.75 to 1.25 times the mean that the options and the load determine.
    fn interval(&mut self) -> Span {
        let dispersion = self.latest.map_or(Span::ZERO, |latest| self.train_bytes(latest.rate.value));
        let mean = self.options.interval.max(dispersion.mul_f64(1.0 / self.options.load));
        // Knuth's MMIX generator: the variation only has to be aperiodic.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        mean.mul_f64(0.75 + 0.5 * (self.random >> 11) as f64 / (1_u64 << 53) as f64)
    }

    fn train_bytes(&self, rate: Rate) -> Span {
        rate.time_for(Bytes::from(self.size()) * u64::from(self.length))
    }

    fn config(&self) -> CapProbeConfig {
        let clock = self.clock();
        let mut config = CapProbeConfig::default();
        (config.least, config.clock) = (self.options.least, clock);
        (config.share, config.window) = (self.options.share, Span::MAX);
        config
    }

    fn clock(&self) -> Span {
        self.options.clock.max(self.tick.span().unwrap_or(Span::ZERO))
    }

    /// Evaluates the run after a train has ended, and starts the next run if this one is over.
    fn proceed(&mut self) {
        self.latest = self.run.evaluate(self.config(), self.options.skew_ppm * 1e-6);
        if let Some(length) = self.longer() {
            self.length = length;
            self.restart();
        } else if let Some(estimate) = self.latest.filter(|estimate| estimate.converged) {
            self.conclude(estimate);
        } else if self.is_over() {
            self.fail();
        }
    }

    fn is_over(&self) -> bool {
        let silent = self.run.ended >= SILENCE && self.run.lost == self.run.ended;
        silent || (self.run.ended >= self.options.most && self.under_way.is_empty())
    }

    /// Required number of packets per train, if the current trains are too short for the clock.
    fn longer(&self) -> Option<u32> {
        if self.run.ended < ARRIVALS || self.length >= self.options.longest {
            return None;
        }
        let gaps = self.length - 1;
        let wanted = match self.latest {
            _ if self.run.merged * 2 > self.run.ended => gaps * GROWTH,
            Some(latest) => {
                let one = (latest.rate.value.time_for(Bytes::from(self.size()))).as_nanos().max(1);
                let wanted = (self.clock() * u64::from(self.options.ticks)).as_nanos().div_ceil(one);
                u32::try_from(wanted).unwrap_or(u32::MAX)
            }
            None => return None,
        };
        (wanted > gaps).then(|| wanted.saturating_add(1).min(self.options.longest))
    }

    fn conclude(&mut self, estimate: CapProbeEstimate) {
        self.found[self.kind] = Some(estimate);
        let other = self.found[1 - self.kind];
        if let Some(range) = other.and_then(|other| agreed(&estimate.rate, &other.rate, self.options.agreement)) {
            let backing = self.found.iter().flatten().map(backing).fold(1.0, f64::min);
            self.outcome = Outcome::Agreed(range, backing);
            return;
        }
        self.end_run();
        self.kind = 1 - self.kind;
    }

    /// Ends a run that did not converge. Later runs of the same kind use another packet size.
    fn fail(&mut self) {
        let silent = self.run.samples() == 0;
        let best = self.latest.map(|latest| latest.rate.value.time_for(Bytes::from(self.size())));
        let grows = best.is_some_and(|best| self.run.is_compressed(best * u64::from(self.length - 1)));
        let factor = if grows { 1.0 + self.options.step } else { 1.0 - self.options.step };
        let size = (f64::from(self.size()) * factor) as u32;
        let (least, largest) = (64, self.options.largest);
        self.sizes[self.kind] = size.clamp(least.min(largest), largest);
        self.found[self.kind] = None;
        let latest = self.latest;
        self.end_run();
        self.latest = latest;
        if silent {
            self.outcome = Outcome::GaveUp;
        }
    }

    fn end_run(&mut self) {
        self.runs += 1;
        self.restart();
        if self.runs >= self.options.runs {
            self.outcome = Outcome::GaveUp;
        }
    }

    fn restart(&mut self) {
        (self.run, self.latest, self.sent) = (Run::default(), None, 0);
        self.under_way.clear();
    }

    fn give_up(&mut self, now: Time) {
        let before = self.under_way.len();
        self.under_way.retain(|(_, until)| *until > now);
        let lost = u32::try_from(before - self.under_way.len()).unwrap_or(u32::MAX);
        if lost > 0 {
            self.run.ended += lost;
            self.run.lost += lost;
            self.proceed();
        }
    }
}

impl Method for CapProbeMethod {
    fn name(&self) -> &'static str {
        MethodKind::CapProbe.name()
    }

    fn poll(&mut self, now: Time) -> Next {
        self.give_up(now);
        if self.outcome != Outcome::Open {
            return Next::Done;
        }
        let sends = self.sent < self.options.most;
        if sends && now >= self.next_at {
            return self.send(now);
        }
        let waits = self.under_way.iter().map(|(_, until)| *until).chain(sends.then_some(self.next_at));
        Next::Wait(waits.min().unwrap_or(now + self.options.interval))
    }

    fn on_report(&mut self, _now: Time, report: &TrainReport) {
        let Some(index) = self.under_way.iter().position(|(id, _)| *id == report.id) else { return };
        self.under_way.swap_remove(index);
        if self.outcome != Outcome::Open {
            return;
        }
        for packet in report.packets.iter().flatten() {
            self.tick.take(packet.arrived_at);
        }
        self.run.take(&report.packets);
        self.proceed();
    }

    fn estimate(&self) -> Estimate {
        if let Outcome::Agreed(range, backing) = self.outcome {
            let width = relative_width(&range) / 2.0;
            let confidence = backing * (1.0 - width.min(1.0 - ALONE));
            return Estimate { capacity: Some(range), converged: true, confidence, ..Estimate::default() };
        }
        if let Some(found) = self.found.iter().flatten().next_back() {
            return Estimate { capacity: Some(found.rate), confidence: ALONE * backing(found), ..Estimate::default() };
        }
        let vague = |latest: &CapProbeEstimate| {
            let samples = (f64::from(latest.samples) / f64::from(self.options.least)).min(1.0);
            VAGUE * samples / (1.0 + relative_width(&latest.rate))
        };
        let confidence = self.latest.as_ref().map_or(0.0, vague);
        Estimate { capacity: self.latest.map(|latest| latest.rate), confidence, ..Estimate::default() }
    }
}

/// Returns the mean of two rates with the union of their ranges, if the rates differ by at most `share` of the mean.
fn agreed(one: &RateRange, other: &RateRange, share: f64) -> Option<RateRange> {
    let (a, b) = (one.value.as_bytes_per_sec() as f64, other.value.as_bytes_per_sec() as f64);
    let mean = f64::midpoint(a, b);
    ((a - b).abs() <= share * mean).then(|| RateRange {
        low: one.low.min(other.low),
        value: Rate::from_bytes_per_sec(mean as u64),
        high: one.high.max(other.high),
    })
}

/// Support of an estimate from 0 to 1: 1 if the share of pairs with a delay close to the smallest is at least [`IDLE`].
fn backing(estimate: &CapProbeEstimate) -> f64 {
    let share = f64::from(estimate.support) / f64::from(estimate.samples.max(1));
    (share / IDLE).min(1.0)
}

fn relative_width(range: &RateRange) -> f64 {
    let width = range.high.as_bytes_per_sec() - range.low.min(range.high).as_bytes_per_sec();
    width as f64 / range.value.as_bytes_per_sec().max(1) as f64
}

/// Estimated resolution of a clock: the greatest common divisor of the differences between its readings.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    first: Option<Time>,
    divisor: u64,
    readings: u32,
}

impl Tick {
    fn take(&mut self, reading: Time) {
        let first = *self.first.get_or_insert(reading);
        self.divisor = gcd(self.divisor, first.since(reading).max(reading.since(first)).as_nanos());
        self.readings = self.readings.saturating_add(1);
    }

    fn span(&self) -> Option<Span> {
        (self.readings >= ARRIVALS).then_some(Span::from_nanos(self.divisor))
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_their_proportion_on_a_path_with_a_small_mtu() {
        let options = CapProbeOptions::default();
        assert_eq!(options.up_to(Bytes(1500)), options);
        assert_eq!(options.up_to(Bytes(576)).sizes, (448, 576));
    }
}
