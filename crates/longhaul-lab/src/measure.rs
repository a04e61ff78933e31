//! What can be measured of a run. Each measure is of connections of one name, or of the bottleneck; most can be restricted
//! to a part of the run. One that cannot be told, because a transfer did not end, has no value.

mod probes;
mod senders;

use longhaul_units::Span;

use crate::expression::{Argument, Call};
use crate::world::{FlowSample, Outcome, Sample};

/// What a measure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Connections of a name, which stands first.
    Flows,
    /// The shared link, on the way of the data.
    Bottleneck,
    /// A tool that measures the path.
    Probe,
    /// Connections of a name, and an estimate of their controllers'.
    Estimate,
}

/// A measure.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// What it is of.
    pub of: Needs,
    /// How many times may follow: none for the whole run, one for what had happened by then, two for what happened between.
    pub times: &'static [usize],
    /// How it is written.
    pub usage: &'static str,
    /// What it is, its unit and how it is computed.
    pub about: &'static str,
    value: fn(&Part<'_>) -> Option<f64>,
}

const ANY: &[usize] = &[0, 1, 2];
const WHOLE: &[usize] = &[0];

/// Those of what was counted.
const COUNTED: &[Measure] = &[
    Measure {
        name: "goodput",
        of: Needs::Flows,
        times: ANY,
        usage: "goodput(FLOWS[, FROM], TO)",
        about: "Mb/s that applications read, of all flows together",
        value: |part| Some(part.read() * 8e-6 / part.seconds()),
    },
    Measure {
        name: "sent",
        of: Needs::Flows,
        times: ANY,
        usage: "sent(FLOWS[, FROM], TO)",
        about: "bytes of new data sent, of all flows together",
        value: |part| Some(part.sum(|flow| flow.sent)),
    },
    Measure {
        name: "completion",
        of: Needs::Flows,
        times: WHOLE,
        usage: "completion(FLOWS)",
        about: "seconds from connect to the last byte at the receiver, the mean over flows; none if one did not end",
        value: |part| {
            let seconds: Option<Vec<f64>> =
                part.last().flows[part.flows()].iter().map(|flow| flow.completion).collect();
            mean(&seconds?)
        },
    },
    Measure {
        name: "jain",
        of: Needs::Flows,
        times: ANY,
        usage: "jain(FLOWS[, FROM], TO)",
        about: "Jain's index of the flows' goodput: the square of the sum over n times the sum of squares",
        value: |part| jain(&part.each(|flow| flow.read)),
    },
    Measure {
        name: "resent",
        of: Needs::Flows,
        times: ANY,
        usage: "resent(FLOWS[, FROM], TO)",
        about: "segments sent again, percent of the segments of data",
        value: |part| {
            let again = part.sum(|flow| flow.resent);
            ratio(100.0 * again, part.sum(|flow| flow.segments))
        },
    },
    Measure {
        name: "timeouts",
        of: Needs::Flows,
        times: ANY,
        usage: "timeouts(FLOWS[, FROM], TO)",
        about: "retransmission timeouts, of all flows together",
        value: |part| Some(part.sum(|flow| flow.timeouts)),
    },
    Measure {
        name: "deviation",
        of: Needs::Flows,
        times: WHOLE,
        usage: "deviation(FLOWS)",
        about: "standard deviation of the goodput of each second, Mb/s, of all flows together",
        value: |part| deviation(&part.each_second()),
    },
    Measure {
        name: "settled",
        of: Needs::Flows,
        times: WHOLE,
        usage: "settled(FLOWS)",
        about: "the first second whose goodput is 90 % of the mean of the run's last ten",
        value: |part| {
            let each = part.each_second();
            let end = mean(each.get(each.len().checked_sub(10)?..)?)?;
            each.iter().position(|mbps| *mbps >= 0.9 * end).map(|second| (second + 1) as f64)
        },
    },
    Measure {
        name: "dropped",
        of: Needs::Bottleneck,
        times: ANY,
        usage: "dropped([FROM, ]TO)",
        about: "packets that the shared link dropped, whatever for, percent of those offered",
        value: |part| {
            let (from, to) = part.ends();
            ratio(100.0 * (to.dropped - from.dropped), to.offered - from.offered)
        },
    },
    Measure {
        name: "carried",
        of: Needs::Bottleneck,
        times: ANY,
        usage: "carried([FROM, ]TO)",
        about: "Mb/s of IP packets that the shared link carried",
        value: |part| {
            let (from, to) = part.ends();
            Some((to.carried - from.carried) * 8e-6 / part.seconds())
        },
    },
];

/// All there are.
pub fn all() -> impl Iterator<Item = &'static Measure> {
    COUNTED.iter().chain(senders::ALL).chain(probes::ALL)
}

/// The measure of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Measure> {
    all().find(|measure| measure.name == name)
}

/// Whether a call needs what senders see at each ACK.
pub(crate) fn is_watched(call: &Call) -> bool {
    senders::has(&call.name)
}

/// Whether a call is of nothing that happens in the world of the flows.
pub(crate) fn is_of_probe(call: &Call) -> bool {
    find(&call.name).is_some_and(|measure| measure.of == Needs::Probe)
}

/// The times that a call names.
pub fn times(call: &Call) -> impl Iterator<Item = Span> {
    call.arguments.iter().filter_map(|argument| match argument {
        Argument::Time(time) => Some(*time),
        Argument::Name(_) => None,
    })
}

/// A call's value in a run.
#[must_use]
pub fn value(call: &Call, outcome: &Outcome) -> Option<f64> {
    let measure = find(&call.name)?;
    let times: Vec<Span> = times(call).collect();
    let (from, to) = match times[..] {
        [] => (Span::ZERO, outcome.duration),
        [to] => (Span::ZERO, to),
        [from, to, ..] => (from, to),
    };
    let mut names = call.arguments.iter().filter_map(|argument| match argument {
        Argument::Name(name) => Some(name.as_str()),
        Argument::Time(_) => None,
    });
    let (name, estimate) = (names.next(), names.next());
    (measure.value)(&Part { outcome, name, estimate, from, to })
}

/// The part of a run that a measure is of.
struct Part<'a> {
    outcome: &'a Outcome,
    name: Option<&'a str>,
    estimate: Option<&'a str>,
    from: Span,
    to: Span,
}

impl Part<'_> {
    fn flows(&self) -> std::ops::Range<usize> {
        self.name.and_then(|name| self.outcome.flows.get(name)).cloned().unwrap_or(0..0)
    }

    fn ends(&self) -> (&Sample, &Sample) {
        (self.outcome.at(self.from), self.outcome.at(self.to))
    }

    fn last(&self) -> &Sample {
        self.outcome.at(self.to)
    }

    fn seconds(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }

    fn each(&self, what: impl Fn(&FlowSample) -> f64) -> Vec<f64> {
        let (from, to) = self.ends();
        let range = self.flows();
        from.flows[range.clone()].iter().zip(&to.flows[range]).map(|(from, to)| what(to) - what(from)).collect()
    }

    fn sum(&self, what: impl Fn(&FlowSample) -> f64) -> f64 {
        self.each(what).iter().sum()
    }

    fn read(&self) -> f64 {
        self.sum(|flow| flow.read)
    }

    /// Mb/s of each whole second.
    fn each_second(&self) -> Vec<f64> {
        let range = self.flows();
        let read = |second: u64| -> f64 {
            self.outcome.at(Span::from_secs(second)).flows[range.clone()].iter().map(|flow| flow.read).sum()
        };
        let seconds = self.outcome.duration.as_nanos() / 1_000_000_000;
        (0..seconds).map(|second| (read(second + 1) - read(second)) * 8e-6).collect()
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn mean(values: &[f64]) -> Option<f64> {
    ratio(values.iter().sum(), values.len() as f64)
}

fn jain(values: &[f64]) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    ratio(values.iter().sum::<f64>().powi(2), values.len() as f64 * squares)
}

/// Of a population.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    ratio(squares, values.len() as f64).map(f64::sqrt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_has_the_square() {
        // Jain, Chiu and Hawe, 1984: k of n users that share equally and nothing for the others is k/n.
        assert_eq!(jain(&[5.0, 5.0, 0.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[3.0; 7]), Some(1.0));
        assert_eq!(jain(&[0.0; 7]), None);
    }

    #[test]
    fn deviation_by_hand() {
        assert_eq!(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(2.0));
        assert_eq!(deviation(&[]), None);
    }
}
