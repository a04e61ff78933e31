//! Measures of the phases of the senders' congestion controllers.

use longhaul_units::Span;
use longhaul_units::statistics::mean;

use super::part::Part;
use super::{ANY, Better, Measure, Parameter, Watch};
use crate::world::Stay;

const NAMED: &[Parameter] = &[Parameter::Flows, Parameter::Phase];

pub(super) const MEASURES: &[Measure] = &[
    Measure {
        name: "phase-time",
        parameters: NAMED,
        usage: "phase-time(FLOWS, PHASE)",
        about: "seconds of a sender's first period in a phase, mean; undefined if a flow never enters it or is \
               in it at the end. PHASE is the controller's name of the phase: slow-start, \
               congestion-avoidance, recovery, window-expanding and so on",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.to? - stay.from)),
    },
    Measure {
        name: "phase-share",
        parameters: &[Parameter::Flows, Parameter::Phase, ANY],
        usage: "phase-share(FLOWS, PHASE[, FROM][, TO])",
        about: "share of the time that a sender is in a phase, from 0 to 1, mean; 0 for controllers without \
               this phase",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| {
            let each = part.outcome.phases.get(part.flows())?.iter();
            let [from, to] = [part.from, part.to].map(Span::as_secs_f64);
            mean(&each.map(|phases| phases.share(part.asked.phase, from, to)).collect::<Option<Vec<f64>>>()?)
        },
    },
    Measure {
        name: "phase-segments",
        parameters: NAMED,
        usage: "phase-segments(FLOWS, PHASE)",
        about: "data segments sent in this period, including retransmissions and those sent on the event that \
               starts it, mean",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.segments as f64)),
    },
    Measure {
        name: "phase-probes",
        parameters: NAMED,
        usage: "phase-probes(FLOWS, PHASE)",
        about: "low-priority probes sent in this period, mean",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.probes as f64)),
    },
    Measure {
        name: "phase-window",
        parameters: NAMED,
        usage: "phase-window(FLOWS, PHASE)",
        about: "congestion window in bytes at the end of this period, before the event that ends it, mean",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.window as f64)),
    },
    Measure {
        name: "answers-to-growth",
        parameters: &[Parameter::Flows],
        usage: "answers-to-growth(FLOWS)",
        about: "answers to probes from the start of the first recovery until the window, after it, first grows \
               by at least one segment at once, including the answer that causes this, mean; undefined if a \
               window never does",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| {
            let each = part.outcome.phases.get(part.flows())?.iter();
            mean(&each.map(|phases| Some(phases.answers_to_growth? as f64)).collect::<Option<Vec<f64>>>()?)
        },
    },
];

impl Part<'_> {
    fn mean_stay(&self, what: impl Fn(&Stay) -> Option<f64>) -> Option<f64> {
        let each = self.outcome.phases.get(self.flows())?.iter();
        mean(&each.map(|phases| what(phases.stays.get(self.asked.phase)?)).collect::<Option<Vec<f64>>>()?)
    }
}
