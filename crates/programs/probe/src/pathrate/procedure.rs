//! Sequence of Pathrate's trains: round trip, longest train, preliminary trains, Phase I, Phase II.

use longhaul_link::statistics::{mean, sample_deviation};
use longhaul_units::{Bytes, Span};

use super::PathrateConfig;
use super::rules::{Bursts, Sample, adr, around, best, bin_width, bursts, modes, train_rate, trimmed};
use crate::turns::{Plan, Session};
use crate::{Arrived, Estimate, MethodKind, Planned, RateRange, Train};

/// Minimum number of packets in a train that shows interrupt coalescence.
const LEAST_FOR_BURSTS: usize = 6;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Single packets measure the round trip.
    #[default]
    Exchange,
    /// Search for the longest train that passes without loss.
    Length,
    /// Trains of several lengths show whether the path is idle.
    Preliminary,
    /// Phase I: pairs of many sizes, for all local modes.
    Pairs,
    /// Phase II: long trains, for the asymptotic dispersion rate.
    Trains,
    /// Long trains only, because the receiver coalesces interrupts.
    Coalesced,
    Done,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Procedure {
    config: PathrateConfig,
    stage: Stage,
    /// Number of trains of this stage that were answered or lost.
    tries: u32,
    round_trips: Vec<f64>,
    spacing: Span,
    /// Number of packets of the longest train known to pass.
    longest: u32,
    /// Number of packets of the candidate train.
    candidate: u32,
    lossy: u32,
    /// Number of back-to-back trains, and of all trains, in the search for the longest train.
    bursty: (u32, u32),
    /// Rate of the last train in bytes per second, which limits the load.
    recent: Option<f64>,
    preliminary: Vec<f64>,
    width: f64,
    pairs: Vec<f64>,
    ignored: u32,
    pair_length: u32,
    smallest: Bytes,
    aborted: bool,
    trains: Vec<f64>,
    result: Option<Estimate>,
}

impl Procedure {
    pub(crate) fn new(config: PathrateConfig) -> Self {
        Self {
            config,
            spacing: config.spacing,
            longest: 2,
            candidate: 2,
            pair_length: 2,
            smallest: config.smallest,
            ..Self::default()
        }
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.tries) = (stage, 0);
    }

    fn bin(&self, centre: f64) -> RateRange {
        around(centre, (centre - self.width / 2.0, centre + self.width / 2.0))
    }

    fn plan_of(&self, count: u32, size: Bytes) -> Plan {
        let packets: Vec<Planned> = Train::regular(0, count, size, Span::ZERO).packets;
        let bytes: f64 = packets.iter().map(|packet| packet.size.as_f64()).sum();
        let share = self.recent.map_or(Span::ZERO, |rate| Span::from_secs_f64(bytes / (rate * self.config.load)));
        Plan { packets, rest: self.spacing.max(share) }
    }

    fn preliminary_lengths(&self) -> u32 {
        self.config.preliminary.min(self.longest).saturating_sub(1).max(1)
    }

    /// Packet size of the next pair of Phase I, which uses all sizes in turn.
    fn pair_size(&self) -> Bytes {
        let steps = self.config.sizes.saturating_sub(1).max(1);
        let range = self.config.largest - self.smallest;
        self.smallest + range * u64::from(self.tries % self.config.sizes) / u64::from(steps)
    }

    fn sample(&self, packets: &[Option<Arrived>]) -> Sample {
        match train_rate(packets, self.config.least_dispersion) {
            Sample::Rate(rate) if rate > self.config.max_rate.as_bytes_per_sec() as f64 => Sample::Ignored,
            sample => sample,
        }
    }

    fn learn_round_trip(&mut self, packets: &[Option<Arrived>]) {
        if let Some(packet) = packets.iter().flatten().next().filter(|_| self.tries > 1) {
            self.round_trips.push(packet.rtt.as_secs_f64());
        }
        if self.tries < self.config.exchanges {
            return;
        }
        match mean(&self.round_trips) {
            Some(rtt) => {
                self.spacing = self.config.spacing.max(Span::from_secs_f64(rtt * self.config.spacing_rtts));
                self.enter(Stage::Length);
            }
            None => self.stop(),
        }
    }

    fn learn_length(&mut self, packets: &[Option<Arrived>], sample: Sample) {
        if sample == Sample::Lossy {
            self.lossy = self.lossy.saturating_add(1);
            if self.lossy > self.config.lossy_trains {
                self.end_length();
            }
            return;
        }
        let ends = (packets.first().copied().flatten(), packets.last().copied().flatten());
        let span =
            if let (Some(first), Some(last)) = ends { last.arrived_at.since(first.arrived_at) } else { Span::ZERO };
        if span > self.spacing && self.candidate > 2 {
            return self.end_length();
        }
        if packets.len() >= LEAST_FOR_BURSTS {
            let Bursts { back_to_back, rate } = bursts(packets, self.config.coalesced_gap);
            let found = back_to_back > self.config.coalesced;
            self.bursty = (self.bursty.0 + u32::from(found), self.bursty.1 + 1);
            // The rate of bursts replaces that of the train, whose ends were merged.
            self.recent = rate.filter(|_| found).or(self.recent);
        }
        self.longest = self.candidate;
        if self.candidate >= self.config.longest {
            return self.end_length();
        }
        let step = [(6, 1), (12, 2)].iter().find(|(below, _)| self.candidate < *below).map_or(4, |(_, step)| *step);
        self.candidate = (self.candidate + step).min(self.config.longest);
    }

    fn end_length(&mut self) {
        let (bursty, all) = self.bursty;
        self.enter(if bursty * 2 > all { Stage::Coalesced } else { Stage::Preliminary });
    }

    fn learn_preliminary(&mut self, sample: Sample) {
        if let Sample::Rate(rate) = sample {
            self.preliminary.push(rate);
        }
        let wanted = self.config.per_length.saturating_mul(self.preliminary_lengths());
        if !self.enough(self.preliminary.len(), wanted) {
            return;
        }
        let complete = self.preliminary.len() >= wanted as usize;
        if self.preliminary.len() > self.config.trim_above as usize {
            self.preliminary = trimmed(&self.preliminary, self.config.trim as usize);
        }
        let Some(mean) = mean(&self.preliminary) else { return self.stop() };
        self.width = bin_width(&self.preliminary, &self.config.bins);
        self.recent = Some(mean);
        let variation = sample_deviation(&self.preliminary).unwrap_or(0.0) / mean;
        if complete && variation < self.config.quick {
            self.end(self.bin(mean), true, 1.0 - variation);
        } else {
            self.enter(Stage::Pairs);
        }
    }

    fn learn_pair(&mut self, sample: Sample) {
        match sample {
            Sample::Rate(rate) => self.pairs.push(rate),
            Sample::Ignored => self.ignored = self.ignored.saturating_add(1),
            Sample::Lossy => {}
        }
        if self.tries >= self.config.sizes && f64::from(self.ignored) > self.config.ignored * f64::from(self.tries) {
            self.lengthen_pairs();
        } else if self.enough(self.pairs.len(), self.config.pairs) {
            self.enter(Stage::Trains);
        }
    }

    /// Lengthens trains and enlarges packets after too many ignored samples, so that dispersions grow.
    fn lengthen_pairs(&mut self) {
        self.pair_length = self.pair_length.saturating_add(1);
        if self.pair_length > self.longest / 4 {
            self.aborted = true;
            return self.enter(Stage::Trains);
        }
        self.smallest = (self.smallest + self.config.size_step).min(self.config.largest);
        (self.ignored, self.tries) = (0, 0);
        self.pairs.clear();
    }

    fn learn_train(&mut self, sample: Sample) {
        if let Sample::Rate(rate) = sample {
            self.trains.push(rate);
        }
        if self.enough(self.trains.len(), self.config.trains) {
            self.conclude();
        }
    }

    fn learn_coalesced(&mut self, packets: &[Option<Arrived>]) {
        self.trains.extend(bursts(packets, self.config.coalesced_gap).rate);
        if self.enough(self.trains.len(), self.config.coalesced_trains) {
            self.conclude_coalesced();
        }
    }

    /// Returns whether a stage has its samples, or has sent twice as many trains.
    fn enough(&self, samples: usize, wanted: u32) -> bool {
        samples >= wanted as usize || self.tries >= wanted.saturating_mul(2)
    }

    /// Asymptotic dispersion rate of the trains so far, or of the preliminary ones if there are none.
    fn asymptotic(&self) -> Option<f64> {
        let mean_of_all = adr(&self.trains, self.config.adr_trim as usize);
        let before = mean(&self.preliminary);
        let found = modes(&self.trains, self.width, &self.config.modes);
        match (found.as_slice(), mean_of_all, before) {
            ([], of_all, before) => of_all.or(before),
            ([only], Some(of_all), Some(before)) => {
                let deviation = sample_deviation(&trimmed(&self.trains, self.config.adr_trim as usize)).unwrap_or(0.0);
                let narrow = deviation < self.config.quick * of_all;
                let close = of_all > self.config.adr_close * before;
                Some(if narrow && close { only.centre } else { of_all })
            }
            ([_], of_all, _) => of_all,
            _ => best(found).map(|mode| mode.centre),
        }
    }

    /// Ends with the best mode of Phase I above the ADR. If there is none, the ADR is a lower bound.
    fn conclude(&mut self) {
        let Some(adr) = self.asymptotic() else { return self.enter(Stage::Done) };
        if self.aborted {
            let high = self.config.max_rate.as_bytes_per_sec() as f64;
            return self.end(around(adr, (adr, high)), false, 0.0);
        }
        let above = modes(&self.pairs, self.width, &self.config.modes).into_iter().filter(|mode| mode.high() > adr);
        let complete =
            self.pairs.len() >= self.config.pairs as usize && self.trains.len() >= self.config.trains as usize;
        match best(above) {
            Some(mode) => self.end(mode.range(), complete, mode.share),
            None => self.end(self.bin(adr), false, 0.0),
        }
    }

    /// Ends with the rate of long trains, which is the capacity of an idle path and less than the capacity of a loaded
    /// one.
    fn conclude_coalesced(&mut self) {
        self.width = bin_width(&self.trains, &self.config.bins);
        let Some(mean) = adr(&self.trains, self.config.adr_trim as usize) else { return self.enter(Stage::Done) };
        let variation = sample_deviation(&self.trains).unwrap_or(0.0) / mean;
        let value = best(modes(&self.trains, self.width, &self.config.modes)).map_or(mean, |mode| mode.value);
        let complete = self.trains.len() >= self.config.coalesced_trains as usize;
        self.end(self.bin(value), complete && variation < self.config.quick, (1.0 - variation).max(0.0));
    }

    fn end(&mut self, capacity: RateRange, converged: bool, confidence: f64) {
        self.result = Some(Estimate { capacity: Some(capacity), converged, confidence, ..Estimate::default() });
        self.enter(Stage::Done);
    }
}

impl Session for Procedure {
    const KIND: MethodKind = MethodKind::Pathrate;

    fn time(&self) -> Span {
        self.config.time
    }

    fn plan(&mut self) -> Option<Plan> {
        let largest = self.config.largest;
        Some(match self.stage {
            Stage::Exchange => self.plan_of(1, self.config.smallest),
            Stage::Length => self.plan_of(self.candidate, largest),
            Stage::Preliminary => self.plan_of(2 + self.tries % self.preliminary_lengths(), largest),
            Stage::Pairs => self.plan_of(self.pair_length, self.pair_size()),
            Stage::Trains | Stage::Coalesced => self.plan_of(self.longest, largest),
            Stage::Done => return None,
        })
    }

    fn learn(&mut self, packets: &[Option<Arrived>]) {
        self.tries = self.tries.saturating_add(1);
        let sample = self.sample(packets);
        if let (Sample::Rate(rate), Stage::Length) = (sample, self.stage) {
            self.recent = Some(rate);
        }
        match self.stage {
            Stage::Exchange => self.learn_round_trip(packets),
            Stage::Length => self.learn_length(packets, sample),
            Stage::Preliminary => self.learn_preliminary(sample),
            Stage::Pairs => self.learn_pair(sample),
            Stage::Trains => self.learn_train(sample),
            Stage::Coalesced => self.learn_coalesced(packets),
            Stage::Done => {}
        }
    }

    fn stop(&mut self) {
        match self.stage {
            Stage::Pairs | Stage::Trains => self.conclude(),
            Stage::Coalesced => self.conclude_coalesced(),
            _ => self.enter(Stage::Done),
        }
    }

    fn estimate(&self) -> Estimate {
        self.result.unwrap_or_else(|| {
            let capacity = mean(&self.preliminary).map(|mean| self.bin(mean));
            Estimate { capacity, ..Estimate::default() }
        })
    }
}

#[cfg(test)]
mod tests;
