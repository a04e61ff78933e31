//! Measures of workloads: response times.

use longhaul_sim::Epoch;
use longhaul_units::Time;

use super::part::Part;
use super::{ANY, Better, Measure, Parameter, Watch};
use Parameter::{Sizes, Workload};

pub(super) const MEASURES: &[Measure] = &[
    Measure {
        name: "epoch",
        parameters: &[Workload, Parameter::Quantile, Sizes, ANY],
        usage: "epoch(WORKLOAD, QUANTILE[, FROM_BYTES, TO_BYTES][, FROM][, TO])",
        about: "seconds from the first byte of a request on an established connection until its response has \
               been read, for responses of at least FROM_BYTES and less than TO_BYTES whose requests were in \
               this part of the run: the response time of an a-b-t epoch (Weigle et al., Tmix, CCR 2006)",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| part.asked.quantile.of(part.epochs().filter_map(seconds).collect()),
    },
    Measure {
        name: "epochs",
        parameters: &[Workload, Sizes, ANY],
        usage: "epochs(WORKLOAD[, FROM_BYTES, TO_BYTES][, FROM][, TO])",
        about: "number of completed epochs, as defined for `epoch`",
        better: Better::More,
        watch: Watch::Nothing,
        value: |part| Some(part.epochs().filter_map(seconds).count() as f64),
    },
    Measure {
        name: "unfinished",
        parameters: &[Workload, Sizes, ANY],
        usage: "unfinished(WORKLOAD[, FROM_BYTES, TO_BYTES][, FROM][, TO])",
        about: "number of epochs that have begun, but have not completed at the end of the run",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| Some(part.epochs().filter(|epoch| epoch.ended.is_none()).count() as f64),
    },
    Measure {
        name: "offered",
        parameters: &[Workload, Sizes, ANY],
        usage: "offered(WORKLOAD[, FROM_BYTES, TO_BYTES][, FROM][, TO])",
        about: "rate of the responses whose requests were in this part of the run, Mb/s, completed or not: the load \
               if nothing were delayed",
        better: Better::Unknown,
        watch: Watch::Nothing,
        value: |part| Some(part.epochs().map(|epoch| epoch.response as f64).sum::<f64>() * 8e-6 / part.seconds()),
    },
];

fn seconds(epoch: &Epoch) -> Option<f64> {
    Some((epoch.ended? - epoch.began).as_secs_f64())
}

impl Part<'_> {
    fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        let [least, most] = self.asked.sizes.unwrap_or([0, u64::MAX]);
        let (from, to) = (Time::ZERO + self.from, Time::ZERO + self.to);
        let all = self.outcome.epochs.get(self.asked.workload).into_iter().flatten();
        all.filter(move |epoch| (least..most).contains(&epoch.response) && (from..=to).contains(&epoch.began))
    }
}
