//! Probe setups.

use longhaul_probe::MethodKind;
use longhaul_units::Span;

use super::TrafficSetup;
use super::prepare::Filling;
use crate::definition::{Fault, Probe};
use crate::probing::ProbeSetup;

impl Filling<'_> {
    pub(super) fn probe(self, probe: &Probe, traffic: &[TrafficSetup]) -> Result<ProbeSetup, Fault> {
        if traffic.iter().any(|traffic| traffic.stop != Span::MAX) {
            let what = "cross traffic must not end while a probe measures; leave out its `stop`";
            return Err(self.fault(&probe.name, "probes.name", what));
        }
        let method = self.read(&probe.method, "probes.method", |text| {
            text.parse::<MethodKind>().map_err(|error| error.to_string())
        })?;
        let start = self.optional(&probe.start, |text| self.span(text, "probes.start"))?;
        let left = probe.left.as_ref().map(|text| self.link(text, "probes.left")).transpose()?;
        Ok(ProbeSetup { name: probe.name.get_ref().clone(), method, start, left: left.map(|link| link.there) })
    }
}
