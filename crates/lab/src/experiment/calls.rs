//! Checks of the calls in metrics and series.

use longhaul_link::LinkRate;
use longhaul_link::spec::value;
use longhaul_link::topology::Duplex;
use longhaul_units::Span;

use super::prepare::Filling;
use super::{FlowSetup, ProbeSetup, WorkloadSetup};
use crate::definition::{Fault, Series, Text};
use crate::expression::{Call, Expression};
use crate::measure::Asked;
use crate::series::{self, SeriesSetup};

/// Maximum number of samples of a series in a run.
const MOST_SAMPLES: u64 = 1_000_000;

/// The objects of a cell that measures can refer to.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) flows: &'a [FlowSetup],
    pub(super) probes: &'a [ProbeSetup],
    pub(super) workloads: &'a [WorkloadSetup],
    pub(super) links: &'a [Duplex],
    pub(super) duration: Span,
}

impl Around<'_> {
    fn check(self, call: &Call) -> Result<(), String> {
        let asked = Asked::read(call)?;
        asked.flows.iter().try_for_each(|name| self.check_name(name))?;
        let probes = self.probes.iter().map(|probe| probe.name.as_str());
        known(asked.probe, "is no probe", probes)?;
        known(asked.workload, "is no workload", self.workloads.iter().map(|workload| workload.name.as_str()))?;
        if let Some(time) = asked.times.iter().find(|time| **time > self.duration) {
            let (time, end) = (time.as_secs_f64(), self.duration.as_secs_f64());
            return Err(format!("{} at {time} s, but a run ends at {end} s", call.name));
        }
        let link = self.link(asked.link)?;
        if call.name == "utilisation" && link.there.rate == LinkRate::Unlimited {
            return Err("utilisation of a bottleneck without --rate".into());
        }
        Ok(())
    }

    fn link(&self, place: usize) -> Result<&Duplex, String> {
        let links = self.links.len();
        self.links.get(place).ok_or_else(|| format!("there is no link-{}; the bottleneck has {links}", place + 1))
    }

    fn check_name(self, name: &str) -> Result<(), String> {
        known(name, "are no flows", self.flows.iter().map(|flow| flow.name.as_str()))
    }
}

/// Checks that a name, if there is one, is known.
fn known<'a>(name: &str, what: &str, mut names: impl Iterator<Item = &'a str> + Clone) -> Result<(), String> {
    let all = names.clone();
    if name.is_empty() || names.any(|known| known == name) {
        return Ok(());
    }
    Err(format!("there {what} {name:?}; there are: {}", all.collect::<Vec<_>>().join(", ")))
}

impl Filling<'_> {
    pub(super) fn metric(self, text: &Text, around: Around<'_>) -> Result<Expression, Fault> {
        let field = "metrics.value";
        let expression = self.read(text, field, Expression::parse)?;
        for call in expression.calls() {
            around.check(call).map_err(|what| self.fault(text, field, what))?;
        }
        Ok(expression)
    }

    pub(super) fn series(self, name: &str, series: &Series, around: Around<'_>) -> Result<SeriesSetup, Fault> {
        let wrong = |what: String| self.fault(&series.value, "series.value", what);
        let expression = self.read(&series.value, "series.value", Expression::parse)?;
        let Expression::Measure(call) = &expression else { return Err(wrong("a series must be a single call".into())) };
        let (what, flows, estimate, link) = series::read(call).map_err(wrong)?;
        around.link(link).map_err(wrong)?;
        around.check_name(&flows).map_err(wrong)?;
        let usual = if what.is_by_event() { Span::ZERO } else { Span::from_secs(1) };
        let every = self.or(usual, &series.every, "series.every", value::span)?;
        let samples = around.duration.as_nanos().checked_div(every.as_nanos());
        if let (Some(text), false) = (&series.every, what.is_by_event())
            && samples.is_none_or(|samples| samples > MOST_SAMPLES)
        {
            return Err(self.fault(text, "series.every", format!("more than {MOST_SAMPLES} samples of a run")));
        }
        let runs = series.runs.map_or(u64::MAX, u64::from);
        Ok(SeriesSetup { name: name.to_owned(), what, flows, estimate, link, every, runs })
    }
}
