//! Measures of the flows of one name.

use longhaul_units::statistics::{mean, population_deviation};

use super::part::{Part, percent, ratio};
use super::{ANY, Better, Measure, ONE, Parameter, Watch};
use Parameter::{Bytes, Estimate, Flows};

const PART: &[Parameter] = &[Flows, ANY];
const WHOLE: &[Parameter] = &[Flows];

pub(super) const MEASURES: &[Measure] = &[
    Measure {
        name: "goodput",
        parameters: PART,
        usage: "goodput(FLOWS[, FROM][, TO])",
        about: "goodput: data that applications read, Mb/s, total (RFC 5166, section 2.1.1)",
        better: Better::More,
        watch: Watch::Nothing,
        value: |part| Some(part.sum(|flow| flow.read) * 8e-6 / part.seconds()),
    },
    Measure {
        name: "sent",
        parameters: PART,
        usage: "sent(FLOWS[, FROM][, TO])",
        about: "bytes of new data sent, total",
        better: Better::Unknown,
        watch: Watch::Nothing,
        value: |part| Some(part.sum(|flow| flow.sent)),
    },
    Measure {
        name: "completion",
        parameters: WHOLE,
        usage: "completion(FLOWS)",
        about: "seconds from connect to the last byte at the receiver, mean; undefined if one did not end",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let flows = &part.outcome.at(part.to).flows[part.flows()];
            mean(&flows.iter().map(|flow| flow.completion).collect::<Option<Vec<f64>>>()?)
        },
    },
    Measure {
        name: "time-to",
        parameters: &[Flows, Bytes],
        usage: "time-to(FLOWS, BYTES)",
        about: "seconds from the first connect until applications have read this many bytes, total: the \
               ramp-up time of draft-irtf-iccrg-tcpeval-01, section 5.2, for the (1500 x 10^n)-th byte",
        better: Better::Less,
        watch: Watch::Bytes,
        value: |part| part.outcome.reached.get(&(part.flows().start, part.asked.bytes)).copied(),
    },
    Measure {
        name: "message-delay",
        parameters: &[Flows, Parameter::Quantile],
        usage: "message-delay(FLOWS, QUANTILE)",
        about: "ms from the time at which a message is due to be written until its last byte is read, of all \
               messages; only in real time",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let delays = part.outcome.messages.get(part.flows())?.concat();
            part.asked.quantile.of(delays).map(|delay| delay * 1e3)
        },
    },
    Measure {
        name: "data-packets",
        parameters: &[Flows, Bytes],
        usage: "data-packets(FLOWS, BYTES)",
        about: "data packets of any source, without low-priority probes, that are offered to the first shared \
               link until these flows have read this many bytes",
        better: Better::Unknown,
        watch: Watch::Data,
        value: |part| data(part).map(|[offered, _]| offered),
    },
    Measure {
        name: "data-drops",
        parameters: &[Flows, Bytes],
        usage: "data-drops(FLOWS, BYTES)",
        about: "number of these packets that the link dropped",
        better: Better::Less,
        watch: Watch::Data,
        value: |part| data(part).map(|[_, dropped]| dropped),
    },
    Measure {
        name: "resent",
        parameters: PART,
        usage: "resent(FLOWS[, FROM][, TO])",
        about: "retransmitted segments, percent of all data segments",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| percent(part.sum(|flow| flow.resent), part.sum(|flow| flow.segments)),
    },
    Measure {
        name: "resent-bytes",
        parameters: PART,
        usage: "resent-bytes(FLOWS[, FROM][, TO])",
        about: "retransmitted bytes, percent of all bytes sent",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| percent(part.sum(|flow| flow.sent_again), part.sum(|flow| flow.sent + flow.sent_again)),
    },
    Measure {
        name: "spurious",
        parameters: PART,
        usage: "spurious(FLOWS[, FROM][, TO])",
        about: "duplicates that receivers reported by D-SACK (RFC 2883), percent of the retransmitted segments; more \
               than 100 % if the network duplicates packets; undefined without SACK",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let known = part.outcome.at(part.to).flows[part.flows()].iter().all(|flow| flow.has_sack);
            let share = percent(part.sum(|flow| flow.dsacks), part.sum(|flow| flow.resent));
            known.then(|| share.unwrap_or_default())
        },
    },
    Measure {
        name: "undone",
        parameters: PART,
        usage: "undone(FLOWS[, FROM][, TO])",
        about: "spurious recoveries that were detected and undone (RFC 3522, RFC 5682, D-SACK), percent of all \
               recoveries",
        better: Better::Unknown,
        watch: Watch::Nothing,
        value: |part| percent(part.sum(|flow| flow.undone), part.sum(|flow| flow.recoveries)),
    },
    Measure {
        name: "timeouts",
        parameters: PART,
        usage: "timeouts(FLOWS[, FROM][, TO])",
        about: "retransmission timeouts, total",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| Some(part.sum(|flow| flow.timeouts)),
    },
    Measure {
        name: "probe-overhead",
        parameters: PART,
        usage: "probe-overhead(FLOWS[, FROM][, TO])",
        about: "payload of low-priority probes, percent of the payload of all other data sent, including \
               retransmissions",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| percent(part.sum(|flow| flow.probes), part.sum(|flow| flow.sent + flow.sent_again)),
    },
    Measure {
        name: "deviation",
        parameters: WHOLE,
        usage: "deviation(FLOWS)",
        about: "standard deviation of the goodput per second, Mb/s, total",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| population_deviation(&part.each_second(part.from)),
    },
    Measure {
        name: "oscillation",
        parameters: &[Flows, ONE],
        usage: "oscillation(FLOWS[, FROM])",
        about: "coefficient of variation of the goodput per full second, total: its standard deviation divided \
               by its mean (RFC 5166, section 2.2.2)",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let each = part.each_second(part.since());
            ratio(population_deviation(&each)?, mean(&each)?)
        },
    },
    Measure {
        name: "settled",
        parameters: WHOLE,
        usage: "settled(FLOWS)",
        about: "first second in which the goodput reaches 90 % of its mean over the last ten seconds of the run",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let each = part.each_second(part.from);
            let end = mean(each.get(each.len().checked_sub(10)?..)?)?;
            each.iter().position(|mbps| *mbps >= 0.9 * end).map(|second| (second + 1) as f64)
        },
    },
    Measure {
        name: "rtt",
        parameters: &[Flows, Parameter::Quantile],
        usage: "rtt(FLOWS, QUANTILE)",
        about: "RTT samples of the senders, milliseconds, all flows together; quantiles are accurate to 1/32",
        better: Better::Less,
        watch: Watch::Rtt,
        value: |part| {
            let mut all = longhaul_link::Histogram::default();
            part.outcome.rtts.get(part.flows())?.iter().for_each(|rtts| all.merge(rtts));
            part.asked.quantile.seconds(&all).map(|seconds| seconds * 1e3)
        },
    },
    Measure {
        name: "cwnd",
        parameters: &[Flows, ONE],
        usage: "cwnd(FLOWS[, TIME])",
        about: "congestion window in bytes at a time, mean; after the end of a connection, its last value",
        better: Better::Unknown,
        watch: Watch::State,
        value: |part| part.mean_state(|state| Some(state.cwnd)),
    },
    Measure {
        name: "time-to-window",
        parameters: &[Flows, Bytes, Parameter::Times(&[1])],
        usage: "time-to-window(FLOWS, BYTES, FROM)",
        about: "seconds from a time until the congestion windows, total, first reach this many bytes \
               (draft-irtf-iccrg-tcpeval-01, section 5.3); undefined if they never do",
        better: Better::Less,
        watch: Watch::Window,
        value: |part| {
            let goal = (part.flows().start, part.asked.bytes, part.since());
            part.outcome.windows_reached.get(&goal).copied()
        },
    },
    Measure {
        name: "estimate",
        parameters: &[Flows, Estimate, ONE],
        usage: "estimate(FLOWS, NAME[, TIME])",
        about: "estimate of the senders at a time, mean over the flows that have it: Mb/s, bytes, milliseconds or a \
               number. NAME is the controller's name of the estimate, or bandwidth (the controller's own estimate of the \
               path's payload rate), delivery-rate, pacing-rate, srtt, latest-rtt, min-rtt, or capacity (by flipped \
               pairs)",
        better: Better::Unknown,
        watch: Watch::State,
        value: |part| part.mean_state(|state| state.estimate(part.asked.estimate)),
    },
    Measure {
        name: "estimate-known",
        parameters: &[Flows, Estimate, ANY],
        usage: "estimate-known(FLOWS, NAME[, FROM][, TO])",
        about: "share of the senders that have the estimate, at each full second, percent",
        better: Better::More,
        watch: Watch::State,
        value: |part| {
            let all = part.estimates_by_second();
            percent(all.iter().flatten().count() as f64, all.len() as f64)
        },
    },
    Measure {
        name: "estimate-quantile",
        parameters: &[Flows, Estimate, Parameter::Quantile, ANY],
        usage: "estimate-quantile(FLOWS, NAME, QUANTILE[, FROM][, TO])",
        about: "quantile of the estimates that the senders have at each full second",
        better: Better::Unknown,
        watch: Watch::State,
        value: |part| part.asked.quantile.of(part.estimates_by_second().into_iter().flatten().collect()),
    },
    Measure {
        name: "cwnd-at-first-drop",
        parameters: WHOLE,
        usage: "cwnd-at-first-drop(FLOWS)",
        about: "congestion window in bytes when a shared link first drops a packet of any source, mean; \
               undefined without drops",
        better: Better::Unknown,
        watch: Watch::FirstDrop,
        value: |part| {
            mean(&part.outcome.windows_at_drop.get(part.flows())?.iter().flatten().copied().collect::<Vec<_>>())
        },
    },
    Measure {
        name: "overshoot",
        parameters: WHOLE,
        usage: "overshoot(FLOWS)",
        about: "packets of any source that the shared links dropped until one of the flows first entered recovery; \
               undefined if none did",
        better: Better::Less,
        watch: Watch::Reduction,
        value: first_reduction,
    },
];

/// Returns the numbers of data packets offered and dropped.
fn data(part: &Part<'_>) -> Option<[f64; 2]> {
    part.outcome.data.get(&(part.flows().start, part.asked.bytes)).copied()
}

fn first_reduction(part: &Part<'_>) -> Option<f64> {
    let first = part.outcome.reductions.get(part.flows())?.iter().flatten();
    first.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, dropped)| *dropped)
}
