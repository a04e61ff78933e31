//! Options of Pathload.

use longhaul_units::{Bytes, Span};

use super::rules::{FleetRule, StreamRule};
use crate::MethodKind;
use crate::options::{Checks, InvalidOption};
use crate::turns::Limits;

/// Options of [`Pathload`](super::Pathload), with their ranges and defaults. Sizes are those of IP packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathloadConfig {
    /// Packets per stream, K: 10 to 1000, 100 by default.
    pub packets: u32,
    /// Streams per fleet, N: 1 to 100, 12 by default.
    pub streams: u32,
    /// Smallest packet size: 60 B to `largest`, 200 B by default.
    pub smallest: Bytes,
    /// Largest packet size: 60 B to 64 KiB, 1500 B by default.
    pub largest: Bytes,
    /// Gap between packets at rates that permit it: `least_gap` to `most_gap`, 100 us by default.
    pub gap: Span,
    /// Shortest gap, between the largest packets at the highest rate: 100 ns to 200 ms, 7 us by default.
    pub least_gap: Span,
    /// Longest gap, between the smallest packets at the lowest rate: 10 us to 10 s, 200 ms by default.
    pub most_gap: Span,
    /// Number of packets of the first train, which are sent back to back: 5 to 1000, 48 by default.
    pub first: u32,
    /// Shortest rest between streams in durations of a stream: 0 to 1000, 9 by default. It is at least one round trip.
    pub rest: f64,
    /// Resolution omega relative to the rate of the first train: 0.001 to 1, 0.02 by default.
    pub resolution: f64,
    /// Resolution of grey rates, chi, relative to the rate of the first train: 0.001 to 1, 0.05 by default.
    pub grey_resolution: f64,
    /// Upper bound of that resolution in bytes per second: 1 to 1e12, 1.5e6 (12 Mb/s) by default.
    pub grey_most: f64,
    /// Number of fleets that must confirm an end of the range: 1 to 10, 2 by default.
    pub verdicts: u32,
    /// Number of times that a fleet without enough usable streams is repeated before its rate counts as grey: 0 to 100,
    /// 3 by default.
    pub repeats: u32,
    /// Number of fleets that ends the session: 1 to 1000, 60 by default.
    pub fleets: u32,
    /// Evaluation of a stream.
    pub stream: StreamRule,
    /// Evaluation of a fleet.
    pub fleet: FleetRule,
    /// Conditions under which the session gives up.
    pub limits: Limits,
}

impl Default for PathloadConfig {
    fn default() -> Self {
        Self {
            packets: 100,
            streams: 12,
            smallest: Bytes(200),
            largest: Bytes(1500),
            gap: Span::from_micros(100),
            least_gap: Span::from_micros(7),
            most_gap: Span::from_millis(200),
            first: 48,
            rest: 9.0,
            resolution: 0.02,
            grey_resolution: 0.05,
            grey_most: 1.5e6,
            verdicts: 2,
            repeats: 3,
            fleets: 60,
            stream: StreamRule::default(),
            fleet: FleetRule::default(),
            limits: Limits::default(),
        }
    }
}

impl PathloadConfig {
    /// The same options for a path that carries packets of at most `largest` bytes.
    pub(crate) fn up_to(self, largest: Bytes) -> Self {
        Self { smallest: self.smallest.min(largest), largest: self.largest.min(largest), ..self }
    }

    pub(super) fn check(&self) -> Result<(), InvalidOption> {
        let checks = Checks(MethodKind::Pathload.name());
        let count = |name, value: u32, range| checks.within(name, f64::from(value), range);
        let span = |name, value: Span, range| checks.within(name, value.as_secs_f64(), range);
        count("packets", self.packets, (10.0, 1000.0))?;
        count("streams", self.streams, (1.0, 100.0))?;
        checks.within("largest", self.largest.as_f64(), (60.0, 65_536.0))?;
        checks.within("smallest", self.smallest.as_f64(), (60.0, self.largest.as_f64()))?;
        span("least_gap", self.least_gap, (1e-7, 0.2))?;
        span("most_gap", self.most_gap, (1e-5, 10.0))?;
        span("gap", self.gap, (self.least_gap.as_secs_f64(), self.most_gap.as_secs_f64()))?;
        count("first", self.first, (5.0, 1000.0))?;
        checks.within("rest", self.rest, (0.0, 1000.0))?;
        checks.within("resolution", self.resolution, (0.001, 1.0))?;
        checks.within("grey_resolution", self.grey_resolution, (0.001, 1.0))?;
        checks.within("grey_most", self.grey_most, (1.0, 1e12))?;
        count("verdicts", self.verdicts, (1.0, 10.0))?;
        count("repeats", self.repeats, (0.0, 100.0))?;
        count("fleets", self.fleets, (1.0, 1000.0))?;
        self.check_stream(checks)?;
        self.check_fleet(checks)?;
        self.limits.check(checks)
    }

    fn check_stream(&self, checks: Checks) -> Result<(), InvalidOption> {
        let StreamRule {
            pct,
            pdt,
            least_points,
            split_gaps,
            split_more,
            least_arrival,
            coalesced,
            slope,
            least_rise,
            ..
        } = self.stream;
        for (name, band) in [("stream.pct", pct), ("stream.pdt", pdt)] {
            checks.within(name, band.high, (0.0, 1.0))?;
            checks.within(name, band.low, (0.0, band.high))?;
        }
        checks.within("stream.least_points", f64::from(least_points), (2.0, 100.0))?;
        checks.within("stream.split_gaps", split_gaps, (1.0, 1000.0))?;
        checks.within("stream.split_more", split_more.as_secs_f64(), (0.0, 1.0))?;
        checks.within("stream.least_arrival", least_arrival.as_secs_f64(), (0.0, 0.01))?;
        checks.within("stream.coalesced", coalesced, (0.0, 1.0))?;
        checks.within("stream.slope", slope, (0.0, 0.01))?;
        checks.within("stream.least_rise", least_rise.as_secs_f64(), (0.0, 0.01))
    }

    fn check_fleet(&self, checks: Checks) -> Result<(), InvalidOption> {
        let FleetRule { agree, usable, medium_loss, high_loss, high_streams, medium_streams } = self.fleet;
        checks.within("fleet.agree", agree, (0.5, 1.0))?;
        checks.within("fleet.usable", usable, (0.0, 1.0))?;
        checks.within("fleet.high_loss", high_loss, (0.0, 1.0))?;
        checks.within("fleet.high_streams", f64::from(high_streams), (1.0, 100.0))?;
        checks.within("fleet.medium_loss", medium_loss, (0.0, high_loss))?;
        checks.within("fleet.medium_streams", f64::from(medium_streams), (1.0, 100.0))
    }
}
