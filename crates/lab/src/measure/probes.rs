//! Measures of probes.

use longhaul_probe::RateRange;
use longhaul_probe::sim::Probing;
use longhaul_units::Span;

use super::{Measure, Part, Value, Watch};
use crate::measure::mbps;
use crate::probing::Probed;

const fn measure(usage: &'static str, about: &'static str, value: Value) -> Measure {
    super::measure(usage, about, value).watches(Watch::Probe)
}

pub(super) const ALL: &[Measure] = &[
    measure("capacity(PROBE)", "capacity of the link as estimated by a tool, Mb/s of IP packets", |part| {
        Some(mbps(part.capacity()?.value))
    }),
    measure("capacity-low(PROBE)", "lower end of the range that the tool reports for the capacity", |part| {
        Some(mbps(part.capacity()?.low))
    }),
    measure("capacity-high(PROBE)", "upper end of this range", |part| Some(mbps(part.capacity()?.high))),
    measure(
        "available-low(PROBE)",
        "lower end of the range that a tool reports for the available bandwidth, Mb/s",
        |part| Some(mbps(part.available()?.low)),
    ),
    measure("available-high(PROBE)", "upper end of this range, Mb/s", |part| Some(mbps(part.available()?.high))),
    measure("available(PROBE)", "available bandwidth as estimated by a tool, Mb/s of IP packets", |part| {
        Some(mbps(part.available()?.value))
    }),
    measure("confidence(PROBE)", "confidence that a tool reports for its estimate, from 0 to 1", |part| {
        Some(part.probe()?.estimate.confidence)
    }),
    measure(
        "converged(PROBE)",
        "seconds until a tool's estimate had converged by its own criterion; undefined if it never did",
        |part| part.probed()?.converged.map(Span::as_secs_f64),
    )
    .less(),
    measure("probed(PROBE)", "seconds until a tool was done; undefined if the run ended before", |part| {
        let probing = part.probe()?;
        probing.done.then(|| probing.took.as_secs_f64())
    })
    .less(),
    measure("probe-bytes(PROBE)", "bytes of IP packets that a tool sent", |part| Some(part.probe()?.bytes as f64))
        .less(),
];

impl Part<'_> {
    fn probed(&self) -> Option<&Probed> {
        self.outcome.probes.get(self.asked.probe)
    }

    fn probe(&self) -> Option<&Probing> {
        self.probed().map(|probed| &probed.probing)
    }

    fn capacity(&self) -> Option<RateRange> {
        self.probe()?.estimate.capacity
    }

    fn available(&self) -> Option<RateRange> {
        self.probe()?.estimate.available
    }
}
