//! Probe setups.

use longhaul_link::spec::value;
use longhaul_probe::MethodKind;
use longhaul_probe::sim::ReceiverClock;
use longhaul_units::Span;

use super::TrafficSetup;
use super::prepare::Filling;
use crate::definition::{Fault, Probe, Setting};
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
        let clock = ReceiverClock::default();
        Ok(ProbeSetup {
            name: probe.name.get_ref().clone(),
            method,
            start,
            left: left.map(|link| link.there),
            tick: probe.tick.as_ref().map_or(Ok(clock.tick), |text| self.span(text, "probes.tick"))?,
            skew: match &probe.skew {
                Some(Setting(text)) => self.read(text, "probes.skew", value::number)?,
                None => clock.skew_ppm,
            },
        })
    }
}
