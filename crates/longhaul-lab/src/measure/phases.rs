//! Measures of the phases of the senders' congestion controllers.

use super::part::{Part, mean};
use super::{Better, Measure, Parameter, Watch};
use crate::world::Stay;

const NAMED: &[Parameter] = &[Parameter::Flows, Parameter::Phase];

pub(super) const MEASURES: &[Measure] = &[
    Measure {
        name: "phase-time",
        parameters: NAMED,
        usage: "phase-time(FLOWS, PHASE)",
        about: "seconds that a sender's first stay in a phase lasts, the mean over flows; none if one was not there or is there at the end. \
                PHASE is what congestion control calls it: slow-start, congestion-avoidance, recovery, window-expanding and so on",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.to? - stay.from)),
    },
    Measure {
        name: "phase-segments",
        parameters: NAMED,
        usage: "phase-segments(FLOWS, PHASE)",
        about: "segments of data, the first time and again, that leave during the same, with what the event sends that begins it and without \
                what the one sends that ends it, the mean over flows",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.segments as f64)),
    },
    Measure {
        name: "phase-probes",
        parameters: NAMED,
        usage: "phase-probes(FLOWS, PHASE)",
        about: "probes at low priority that leave during the same, the mean over flows",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.probes as f64)),
    },
    Measure {
        name: "phase-window",
        parameters: NAMED,
        usage: "phase-window(FLOWS, PHASE)",
        about: "bytes of the congestion window at the end of the same, before the event that ends it, the mean over flows",
        better: Better::Unknown,
        watch: Watch::Phases,
        value: |part| part.mean_stay(|stay| Some(stay.window as f64)),
    },
    Measure {
        name: "answers-to-growth",
        parameters: &[Parameter::Flows],
        usage: "answers-to-growth(FLOWS)",
        about: "answers to probes from the first recovery's beginning until the window, that recovery being over, first grows by a segment or \
                more at once, with the answer that lets it, the mean over flows; none if one never grows so",
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
