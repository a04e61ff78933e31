//! Pathload's options.

use longhaul_units::{Bytes, Span};

use super::rules::{FleetRule, StreamRule};
use crate::MethodKind;
use crate::options::{Checks, InvalidOption};
use crate::turns::Limits;

/// The options of [`Pathload`](super::Pathload), with their ranges and defaults. Sizes are those of whole IP packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathloadConfig {
    /// Packets of a stream, K: 10 to 1000, 100.
    pub packets: u32,
    /// Streams of a fleet, N: 1 to 100, 12.
    pub streams: u32,
    /// The smallest packets: 60 B to `largest`, 200 B.
    pub smallest: Bytes,
    /// The largest packets: 60 B to 64 kB, 1500 B.
    pub largest: Bytes,
    /// The gap between packets where the rate allows it: `least_gap` to `most_gap`, 100 us.
    pub gap: Span,
    /// The shortest gap, of the largest packets at the highest rate: 100 ns to 200 ms, 7 us.
    pub least_gap: Span,
    /// The longest gap, of the smallest packets at the lowest rate: 10 us to 10 s, 200 ms.
    pub most_gap: Span,
    /// Packets of the first train, back to back: 5 to 1000, 48.
    pub first: u32,
    /// The least rest between streams in lengths of a stream: 0 to 1000, 9. A round trip in any case.
    pub rest: f64,
    /// The resolution, omega, as a part of the first train's rate: 0.001 to 1, 0.02.
    pub resolution: f64,
    /// The resolution of grey rates, chi, as a part of the first train's rate: 0.001 to 1, 0.05 ...
    pub grey_resolution: f64,
    /// ... but at most so many bytes a second: 1 to 1e12, 1.5e6 (12 Mb/s).
    pub grey_most: f64,
    /// So many fleets must have found an end of the range: 1 to 10, 2.
    pub verdicts: u32,
    /// A fleet without enough usable streams is sent again so often, then its rate is grey: 0 to 100, 3.
    pub repeats: u32,
    /// So many fleets end the session: 1 to 1000, 60.
    pub fleets: u32,
    /// What a stream says.
    pub stream: StreamRule,
    /// What a fleet says.
    pub fleet: FleetRule,
    /// When it gives up.
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
