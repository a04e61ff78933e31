//! Sequence of Pathload's trains: one train back to back for the first rate, then fleets of streams.

use longhaul_units::{Bytes, Span};

use super::PathloadConfig;
use super::rules::{Stream, Trend, Verdict, aborts, fleet_verdict, stream_trend};
use super::search::Search;
use crate::pathrate::rules::{around, bursts};
use crate::turns::{Plan, Session, UNANSWERED};
use crate::{Arrived, Estimate, MethodKind, Train};

/// Gaps of the first train below this fraction of the mean gap count as back to back, as in Pathrate.
const BACK_TO_BACK: f64 = 0.25;

#[derive(Clone, Debug, Default)]
pub(crate) struct Procedure {
    config: PathloadConfig,
    tries: u32,
    /// Search for the rate; `None` until the first train has determined its start.
    search: Option<Search>,
    round_trip: Span,
    /// Time per byte of the first train in seconds.
    per_byte: f64,
    /// Rate of the current fleet in bytes per second.
    rate: f64,
    streams: Vec<Stream>,
    repeats: u32,
    fleets: u32,
    ended: bool,
}

impl Procedure {
    pub(crate) fn new(config: PathloadConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Size and gap of packets at a rate. If no permitted size fits the usual gap, the nearest size determines the gap.
    fn shape(&self, rate: f64) -> (Bytes, Span) {
        let size = Bytes::from_f64((rate * self.config.gap.as_secs_f64()).round());
        let size = size.clamp(self.config.smallest, self.config.largest);
        let gap = Span::from_secs_f64(size.as_f64() / rate);
        (size, gap.clamp(self.config.least_gap, self.config.most_gap))
    }

    fn most(&self) -> f64 {
        self.config.largest.as_f64() / self.config.least_gap.as_secs_f64()
    }

    fn learn_first(&mut self, packets: &[Option<Arrived>]) {
        self.tries = self.tries.saturating_add(1);
        self.ended |= self.tries >= UNANSWERED;
        let round_trip = packets.iter().flatten().map(|packet| packet.rtt).min();
        let Some((rate, round_trip)) = bursts(packets, BACK_TO_BACK).rate.zip(round_trip) else { return };
        let most = self.most();
        self.per_byte = 1.0 / rate;
        let rate = rate.min(most);
        (self.round_trip, self.rate, self.ended) = (round_trip, rate, false);
        let grey = (self.config.grey_resolution * rate).min(self.config.grey_most);
        let mut search = Search::new(self.config.resolution * rate, grey, most);
        search.verdicts = self.config.verdicts;
        self.search = Some(search);
    }

    fn learn_stream(&mut self, packets: &[Option<Arrived>]) {
        let (_, gap) = self.shape(self.rate);
        let lost = packets.iter().filter(|packet| packet.is_none()).count();
        let none_arrived = lost == packets.len();
        let loss = if none_arrived { 0.0 } else { lost as f64 / packets.len() as f64 };
        let trend = if none_arrived {
            Trend::Discarded
        } else {
            stream_trend(packets, (gap, self.per_byte), &self.config.stream)
        };
        self.streams.push(Stream { trend, loss });
        let complete = self.streams.len() >= self.config.streams as usize;
        if !complete && !aborts(&self.streams, &self.config.fleet) {
            return;
        }
        let (verdict, share) = fleet_verdict(&self.streams, &self.config.fleet);
        self.streams.clear();
        self.fleets = self.fleets.saturating_add(1);
        if verdict == Verdict::Again && self.repeats < self.config.repeats {
            self.repeats += 1;
        } else {
            self.repeats = 0;
            self.go_on(if verdict == Verdict::Again { Verdict::Grey } else { verdict }, share);
        }
        self.ended |= self.fleets >= self.config.fleets;
    }

    fn go_on(&mut self, verdict: Verdict, share: f64) {
        let Some(search) = &mut self.search else { return };
        search.learn(self.rate, verdict, share);
        let least = self.config.smallest.as_f64() / self.config.most_gap.as_secs_f64();
        match search.next().filter(|rate| *rate >= least) {
            Some(rate) => self.rate = rate,
            None => self.ended = true,
        }
    }
}

impl Session for Procedure {
    const KIND: MethodKind = MethodKind::Pathload;

    fn plan(&mut self) -> Option<Plan> {
        if self.ended {
            return None;
        }
        if self.search.is_none() {
            let packets = Train::regular(0, self.config.first, self.config.largest, Span::ZERO).packets;
            // When the last packet has been answered, the queue is empty. The round trip, for which to rest, is not
            // known yet.
            return Some(Plan { packets, rest: Span::ZERO });
        }
        let (size, gap) = self.shape(self.rate);
        let length = gap * u64::from(self.config.packets);
        let packets = Train::regular(0, self.config.packets, size, gap).packets;
        Some(Plan { packets, rest: self.round_trip.max(length.mul_f64(self.config.rest)) })
    }

    fn learn(&mut self, packets: &[Option<Arrived>]) {
        if self.search.is_none() {
            self.learn_first(packets);
        } else {
            self.learn_stream(packets);
        }
    }

    fn estimate(&self) -> Estimate {
        let Some(search) = &self.search else { return Estimate::default() };
        let low = search.low();
        match search.high() {
            Some(high) => {
                let (from, to) = search.grey.unwrap_or((low, high));
                Estimate {
                    available: Some(around(f64::midpoint(from, to), (low, high))),
                    converged: search.converged(),
                    confidence: (low / high * search.support()).clamp(0.0, 1.0),
                    ..Estimate::default()
                }
            }
            None if low > 0.0 => Estimate { available: Some(around(low, (low, low))), ..Estimate::default() },
            None => Estimate::default(),
        }
    }
}
