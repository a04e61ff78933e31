//! Measures of probes.

use longhaul_probe::RateRange;
use longhaul_probe::sim::Probing;
use longhaul_units::Span;

use super::{Measure, Part, Value, Watch};
use crate::measure::mbps;

const fn measure(usage: &'static str, value: Value) -> Measure {
    super::measure(usage, value).watches(Watch::Probe)
}

pub(super) const ALL: &[Measure] = &[
    measure("capacity(PROBE)", |part| Some(mbps(part.capacity()?.value))),
    measure("capacity-low(PROBE)", |part| Some(mbps(part.capacity()?.low))),
    measure("capacity-high(PROBE)", |part| Some(mbps(part.capacity()?.high))),
    measure("available-low(PROBE)", |part| Some(mbps(part.available()?.low))),
    measure("available-high(PROBE)", |part| Some(mbps(part.available()?.high))),
    measure("available(PROBE)", |part| Some(mbps(part.available()?.value))),
    measure("confidence(PROBE)", |part| Some(part.probe()?.estimate.confidence)),
    measure("converged(PROBE)", |part| part.probe()?.converged_after.map(Span::as_secs_f64)).less(),
    measure("probed(PROBE)", |part| {
        let probing = part.probe()?;
        probing.done.then(|| probing.took.as_secs_f64())
    })
    .less(),
    measure("probe-bytes(PROBE)", |part| Some(part.probe()?.bytes as f64)).less(),
];

impl Part<'_> {
    fn probe(&self) -> Option<&Probing> {
        self.outcome.probes.get(self.asked.probe)
    }

    fn capacity(&self) -> Option<RateRange> {
        self.probe()?.estimate.capacity
    }

    fn available(&self) -> Option<RateRange> {
        self.probe()?.estimate.available
    }
}
