//! Scenarios, drawn from the distribution that `docs/lab.md` describes.

use std::fmt;

use longhaul_link::Random;
use longhaul_units::math;

use super::VERSION;

/// Number of packets that the link can carry in a run, unless the minimum duration requires more: the usual number, and
/// the number for a run with steps, handovers, an outage or several flows.
const PACKETS: [f64; 2] = [300_000.0, 1_000_000.0];
/// Size of an IP packet in bits.
pub(super) const PACKET_BITS: f64 = 12_000.0;
/// Shortest and longest run, in seconds.
const SHORTEST: f64 = 8.0;
const LONGEST: f64 = 60.0;
/// Minimum number of base RTTs of a run.
const ROUND_TRIPS: f64 = 60.0;
/// Factor by which the minimum duration of a run is extended if flows with congestion control share the link, because
/// they have to converge.
const CONVERGENCE: f64 = 2.0;
/// Size of a delivery opportunity of a trace in bits.
const OPPORTUNITY: f64 = 1504.0 * 8.0;
/// Interval between handovers in milliseconds.
const HANDOVER: u64 = 15_000;
/// Maximum number of steps whose rates are listed; for more steps, the range is given.
const STEPS_TOLD: usize = 12;

/// A scenario. All values are integers with at most three significant digits, so that the text of the experiment
/// contains them exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    /// Rate of the bottleneck in kb/s.
    pub(crate) rate: u64,
    /// Base RTT in microseconds.
    pub(crate) rtt: u64,
    /// Limit of the queue in bytes.
    pub(crate) queue: u64,
    /// Drawn size of the queue, in thousandths of the bandwidth-delay product.
    pub(crate) queue_permille: u64,
    pub(crate) loss: Option<Loss>,
    /// Largest random delay in each direction, in microseconds.
    pub(crate) jitter: u64,
    pub(crate) reordering: Option<Reordering>,
    pub(crate) aqm: Aqm,
    pub(crate) ecn: bool,
    /// A policer before the queue.
    pub(crate) policer: Option<Policer>,
    pub(crate) steps: Vec<Step>,
    /// Silences of handovers, which hold all packets: start and duration in milliseconds.
    pub(crate) handovers: Vec<(u64, u64)>,
    /// An outage, which loses all packets: start and duration in milliseconds.
    pub(crate) outage: Option<(u64, u64)>,
    pub(crate) competition: Competition,
    /// Rate of the return path in kb/s.
    pub(crate) back: u64,
    /// Interval in milliseconds at which the return path delivers packets in bursts, or 0 if it delivers them
    /// individually.
    pub(crate) burst_interval: u64,
    /// Duration of the run in seconds.
    pub(crate) duration: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Mean loss in parts per million.
    pub(crate) ppm: u64,
    /// Mean number of successive packets that are lost, or `None` for independent losses.
    pub(crate) burst: Option<u64>,
    /// Mean length in packets of the periods to which losses are confined, or `None` for losses at any time.
    pub(crate) window: Option<u64>,
}

impl Loss {
    /// Ratio of the time without losses to that of the periods with losses.
    pub(super) const CLEAN: u64 = 3;

    /// Returns independent losses in a quarter of the time only. `ppm` is their share of the packets in that time.
    pub(super) fn in_windows(ppm: u64, packets: u64) -> Self {
        Self { ppm: ppm / (1 + Self::CLEAN), burst: None, window: Some(packets) }
    }
}

/// Packets that arrive later than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reordering {
    /// Share of the packets in parts per million.
    pub(crate) ppm: u64,
    /// Largest extra delay in microseconds.
    pub(crate) extra: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aqm {
    DropTail,
    CoDel,
    Pie,
    Red,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policer {
    /// Rate in kb/s.
    pub(crate) rate: u64,
    /// Burst in bytes.
    pub(crate) burst: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Time in milliseconds.
    pub(crate) at: u64,
    /// Rate in kb/s.
    pub(crate) rate: u64,
    /// RTT in microseconds.
    pub(crate) rtt: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Competition {
    Alone,
    /// Flows with the same controller: their total number.
    Own(u64),
    /// CUBIC or NewReno flows.
    Others {
        count: u64,
        are_new_reno: bool,
        are_first: bool,
    },
    /// Traffic without congestion control.
    Traffic(Traffic),
    /// Short CUBIC flows, with this load in percent of the rate.
    Short(u64),
}

/// Traffic without congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Rate in percent of the link's rate.
    pub(crate) percent: u64,
    /// Whether packets arrive as a Poisson process, rather than at a constant rate.
    pub(crate) is_poisson: bool,
}

/// A property of a scenario. Each has its own sequence of random numbers, so that a change of one property, in a new
/// version, does not affect the draws of the others. The numbers must not change.
#[derive(Clone, Copy, Debug)]
enum Property {
    Rate = 1,
    Rtt = 2,
    Queue = 3,
    Loss = 4,
    Jitter = 5,
    Reordering = 6,
    Aqm = 7,
    Policer = 8,
    Steps = 9,
    Handovers = 10,
    Outage = 11,
    Competition = 12,
    Back = 13,
    BurstInterval = 14,
}

impl Scenario {
    pub(crate) fn draw(seed: u64) -> Self {
        let draw = |property: Property| Draw(Random::new(seed, (u64::from(VERSION) << 32) | property as u64));
        // Each property has its own random stream, so that a new property does not change the others.
        let rate = draw(Property::Rate).log(1_000.0, 1_000_000.0);
        let rtt = draw(Property::Rtt).log(4_000.0, 700_000.0);
        let queue_permille = draw(Property::Queue).log(50.0, 8_000.0);
        // kb/s x us / 8000 = bytes.
        let bdp = rate as f64 * rtt as f64 / 8_000.0;
        let queue = three(bdp * queue_permille as f64 / 1e3).max(6_000);
        let (aqm, ecn) = aqm(draw(Property::Aqm));
        let back = rate as f64 / draw(Property::Back).log_real(1.0, 50.0);
        let (burst_interval, back) = burst_interval(draw(Property::BurstInterval), back);
        let mut scenario = Self {
            seed,
            rate,
            rtt,
            queue,
            queue_permille,
            loss: loss(draw(Property::Loss)),
            jitter: jitter(draw(Property::Jitter)),
            reordering: reordering(draw(Property::Reordering), rtt),
            aqm,
            ecn,
            policer: policer(draw(Property::Policer), rate),
            steps: Vec::new(),
            handovers: Vec::new(),
            outage: outage(draw(Property::Outage)),
            competition: competition(draw(Property::Competition)),
            back,
            burst_interval,
            duration: 0,
        };
        // The duration depends on the events, and events after the end are removed.
        let (period, steps) = steps(draw(Property::Steps), rate, rtt);
        let handovers = handovers(draw(Property::Handovers));
        scenario.duration = scenario.seconds(period, !handovers.is_empty());
        let end = scenario.duration * 1000;
        scenario.steps = steps.into_iter().filter(|step| step.at < end).collect();
        // Handovers that overlap the outage are also removed.
        let is_free = |(at, length): &(u64, u64)| {
            let meets = |(from, lasts): (u64, u64)| *at < from + lasts && from < at + length;
            *at < end && !scenario.outage.is_some_and(meets)
        };
        let handovers = handovers.into_iter().filter(is_free).collect();
        Self { handovers, ..scenario }
    }

    /// Returns the duration in seconds. A run is long enough for its events, and otherwise shorter for higher rates.
    fn seconds(&self, period: Option<u64>, has_handovers: bool) -> u64 {
        let [usual, most] = PACKETS.map(|packets| packets * PACKET_BITS / (self.rate as f64 * 1e3));
        let round_trips = (ROUND_TRIPS * self.rtt as f64 / 1e6).max(SHORTEST);
        let factor = if self.is_shared() { CONVERGENCE } else { 1.0 };
        let period = period.map_or(0.0, |period| period as f64 / 1e3);
        let outage = self.outage.map_or(0.0, |(at, length)| (at + length) as f64 / 1e3);
        let [first, second] = if has_handovers { [15.0, 30.0] } else { [0.0; 2] };
        let wanted = (factor * round_trips).max(3.0 * period).max(outage + 15.0).max(second + 5.0);
        let least = round_trips.max(2.0 * period).max(outage + 5.0).max(first + 5.0);
        usual.max(wanted).min(most.max(least)).min(LONGEST).ceil() as u64
    }

    /// Returns whether flows with congestion control share the link, so that the score is their fairness.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.competition, Competition::Own(_) | Competition::Others { .. })
    }

    /// Returns the number of packets of 1504 bytes in a burst of the return path.
    pub(crate) fn burst_packets(&self) -> u64 {
        (self.back as f64 * self.burst_interval as f64 / OPPORTUNITY).round() as u64
    }

    pub(crate) const fn own(&self) -> u64 {
        if let Competition::Own(count) = self.competition { count } else { 1 }
    }
}

pub(super) struct Draw(pub(super) Random);

impl Draw {
    /// Draws from the log-uniform distribution.
    pub(super) fn log_real(&mut self, least: f64, most: f64) -> f64 {
        let (low, high) = (math::ln(least), math::ln(most));
        math::exp(low + (high - low) * self.0.unit())
    }

    /// Draws from the log-uniform distribution and rounds the value to three significant digits.
    fn log(&mut self, least: f64, most: f64) -> u64 {
        three(self.log_real(least, most))
    }

    /// Draws a uniformly distributed integer. Both ends are included.
    pub(super) fn whole(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.0.unit() < share
    }
}

/// Rounds a positive value to an integer with three significant digits, at least 1.
pub(super) fn three(value: f64) -> u64 {
    let mut unit = 1.0;
    while value / unit >= 999.5 {
        unit *= 10.0;
    }
    ((value / unit).round() * unit).max(1.0) as u64
}

fn loss(mut draw: Draw) -> Option<Loss> {
    let (has_loss, ppm) = (draw.chance(0.5), draw.log(10.0, 30_000.0));
    let (is_bursty, burst) = (draw.chance(1.0 / 3.0), draw.whole(2, 10));
    has_loss.then_some(Loss { ppm, burst: is_bursty.then_some(burst), window: None })
}

fn jitter(mut draw: Draw) -> u64 {
    let (has_jitter, most) = (draw.chance(0.5), draw.whole(1, 100));
    if has_jitter { most * 100 } else { 0 }
}

fn reordering(mut draw: Draw, rtt: u64) -> Option<Reordering> {
    let (reorders, ppm) = (draw.chance(0.1), draw.log(1_000.0, 50_000.0));
    let extra = three(rtt as f64 * draw.log_real(0.05, 0.5));
    reorders.then_some(Reordering { ppm, extra })
}

fn aqm(mut draw: Draw) -> (Aqm, bool) {
    let (which, marks) = (draw.0.unit(), draw.chance(0.5));
    let aqm = match which {
        which if which < 0.7 => Aqm::DropTail,
        which if which < 0.8 => Aqm::CoDel,
        which if which < 0.9 => Aqm::Pie,
        _ => Aqm::Red,
    };
    (aqm, marks && aqm != Aqm::DropTail)
}

fn policer(mut draw: Draw, rate: u64) -> Option<Policer> {
    let (polices, percent, millis) = (draw.chance(0.05), draw.whole(30, 90), draw.log_real(5.0, 500.0));
    let rate = three(rate as f64 * percent as f64 / 100.0);
    polices.then_some(Policer { rate, burst: three(rate as f64 * millis / 8.0).max(6_000) })
}

/// Returns the interval between steps in milliseconds, and the steps of the longest run.
fn steps(mut draw: Draw, rate: u64, rtt: u64) -> (Option<u64>, Vec<Step>) {
    let (steps, period) = (draw.chance(0.2), draw.whole(50, 200) * 100);
    let most = if steps { (LONGEST * 1e3) as u64 / period } else { 0 };
    let step = |nth| Step {
        at: nth * period,
        rate: three((rate as f64 * draw.log_real(0.1, 10.0)).min(1e6)),
        rtt: three(rtt as f64 * draw.log_real(0.5, 2.0)),
    };
    (steps.then_some(period), (1..=most).map(step).collect())
}

fn handovers(mut draw: Draw) -> Vec<(u64, u64)> {
    let (hands_over, silence) = (draw.chance(0.1), draw.whole(0, 300));
    let most = if hands_over && silence > 0 { 4 } else { 0 };
    (1..=most).map(|nth| (nth * HANDOVER, silence)).collect()
}

fn outage(mut draw: Draw) -> Option<(u64, u64)> {
    let (fails, at, length) = (draw.chance(0.05), draw.whole(50, 150) * 100, draw.whole(10, 300) * 100);
    fails.then_some((at, length))
}

fn competition(mut draw: Draw) -> Competition {
    let kind = draw.0.unit();
    let (own, others, percent, load) = (draw.whole(2, 16), draw.whole(1, 4), draw.whole(10, 80), draw.whole(10, 50));
    let (first, second) = (draw.chance(0.5), draw.chance(0.5));
    match kind {
        kind if kind < 0.4 => Competition::Alone,
        kind if kind < 0.6 => Competition::Own(own),
        kind if kind < 0.8 => Competition::Others { count: others, are_new_reno: first, are_first: second },
        kind if kind < 0.95 => Competition::Traffic(Traffic { percent, is_poisson: first }),
        _ => Competition::Short(load),
    }
}

/// Returns the interval of ACK bursts in milliseconds and the rate of the return path in kb/s, which carries a whole
/// number of packets per interval. If it has no capacity for one, there are no bursts.
fn burst_interval(mut draw: Draw, back: f64) -> (u64, u64) {
    let millis = draw.whole(0, 20);
    let packets = (back * millis as f64 / OPPORTUNITY).round();
    if packets >= 1.0 { (millis, three(packets * OPPORTUNITY / millis as f64)) } else { (0, three(back)) }
}

impl fmt::Display for Scenario {
    /// Writes the properties that differ from a plain link: `24.1 Mb/s, 120 ms, queue 0.31 BDP, loss 0.02 %`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} Mb/s, {} ms", thousandth(self.rate), thousandth(self.rtt))?;
        // A queue of few packets is larger than drawn.
        let bdp = self.rate as f64 * self.rtt as f64 / 8_000.0;
        write!(out, ", queue {:.2} BDP", self.queue as f64 / bdp)?;
        // Queue management.
        match self.aqm {
            Aqm::DropTail => {}
            Aqm::CoDel => out.write_str(", CoDel")?,
            Aqm::Pie => out.write_str(", PIE")?,
            Aqm::Red => out.write_str(", RED")?,
        }
        if self.ecn {
            out.write_str(" with ECN")?;
        }
        // Impairments of data packets.
        if let Some(loss) = self.loss {
            write!(out, ", loss {} %", loss.ppm as f64 / 1e4)?;
            if let Some(burst) = loss.burst {
                write!(out, " in bursts of {burst}")?;
            }
            if loss.window.is_some() {
                out.write_str(", all in a quarter of the time")?;
            }
        }
        if self.jitter > 0 {
            write!(out, ", jitter {} ms", thousandth(self.jitter))?;
        }
        if let Some(reordering) = self.reordering {
            let share = reordering.ppm as f64 / 1e4;
            write!(out, ", {share} % late by up to {} ms", thousandth(reordering.extra))?;
        }
        if let Some(policer) = self.policer {
            let kilobytes = thousandth(policer.burst);
            write!(out, ", policer {} Mb/s with {kilobytes} kB", thousandth(policer.rate))?;
        }
        // Changes over time.
        if let [step, ..] = self.steps[..]
            && self.steps.len() > STEPS_TOLD
        {
            let rates = || self.steps.iter().map(|step| thousandth(step.rate));
            let (least, most) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
            write!(out, ", every {} s a step ({least} to {most} Mb/s)", thousandth(step.at))?;
        } else if let [step, ..] = self.steps[..] {
            let rates: Vec<String> = self.steps.iter().map(|step| thousandth(step.rate).to_string()).collect();
            write!(out, ", every {} s a step ({} Mb/s)", thousandth(step.at), rates.join(", "))?;
        }
        if let Some((_, silence)) = self.handovers.first() {
            write!(out, ", handovers of {silence} ms")?;
        }
        if let Some((at, length)) = self.outage {
            write!(out, ", outage of {} s at {} s", thousandth(length), thousandth(at))?;
        }
        // Competing flows and traffic.
        match self.competition {
            Competition::Alone => {}
            Competition::Own(count) => write!(out, ", {count} of its kind")?,
            Competition::Others { count, are_new_reno, are_first } => {
                let (name, order) =
                    (if are_new_reno { "NewReno" } else { "CUBIC" }, if are_first { "first" } else { "last" });
                write!(out, ", {count} {name} {order}")?;
            }
            Competition::Traffic(traffic) => {
                let kind = if traffic.is_poisson { "Poisson" } else { "constant" };
                write!(out, ", {} % {kind} traffic", traffic.percent)?;
            }
            Competition::Short(load) => write!(out, ", {load} % short flows")?,
        }
        // The return path.
        write!(out, ", back {} Mb/s", thousandth(self.back))?;
        if self.burst_interval > 0 {
            write!(out, " every {} ms", self.burst_interval)?;
        }
        Ok(())
    }
}

fn thousandth(value: u64) -> f64 {
    value as f64 / 1e3
}

/// Payload in an IP packet, of 1500 bytes.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// Minimum share of the link that traffic without congestion control leaves.
const LEFT: f64 = 0.1;

impl Scenario {
    /// Returns the limit of the goodput of all flows with congestion control, except short flows, in Mb/s, between
    /// two times in milliseconds: the mean of the rate or of the policer's rate over this time, without silences,
    /// other traffic, headers and random losses.
    pub(super) fn limit(&self, from: u64, to: u64) -> f64 {
        let mut edges = vec![from, to];
        edges.extend(self.steps.iter().map(|step| step.at));
        edges.extend(self.silences().flat_map(|(at, length)| [at, at + length]));
        edges.retain(|edge| (from..=to).contains(edge));
        edges.sort_unstable();
        let bits: f64 = edges.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * self.left_at(pair[0])).sum();
        let arrives = 1.0 - self.loss.map_or(0.0, |loss| loss.ppm as f64 / 1e6);
        bits / (to - from) as f64 / 1e3 * PAYLOAD * arrives
    }

    /// Returns the rate that is left for flows from a time on, in kb/s.
    fn left_at(&self, at: u64) -> f64 {
        if self.silences().any(|(from, length)| (from..from + length).contains(&at)) {
            return 0.0;
        }
        let rate = self.steps.iter().rev().find(|step| step.at <= at).map_or(self.rate, |step| step.rate);
        let rate = self.policer.map_or(rate, |policer| rate.min(policer.rate)) as f64;
        let percent = match self.competition {
            Competition::Traffic(traffic) => traffic.percent,
            Competition::Short(load) => load,
            _ => 0,
        };
        (rate - self.rate as f64 * percent as f64 / 100.0).max(LEFT * rate)
    }

    pub(super) fn silences(&self) -> impl Iterator<Item = (u64, u64)> {
        self.handovers.iter().copied().chain(self.outage)
    }
}

#[cfg(test)]
mod tests;
