//! Parameters and arguments of measures.

use longhaul_link::statistics::mean;
use longhaul_link::{Cause, Histogram};
use longhaul_units::Span;

use super::{Measure, find};
use crate::expression::{Argument, Call};

/// A parameter of a measure. Arguments are in the order of [`Measure::parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// One of the shared links, such as `link-2`. The default is the first.
    Link,
    Flows,
    Probe,
    Workload,
    Estimate,
    Phase,
    Quantile,
    Bytes,
    /// A lower bound, included, and an upper bound, excluded, of sizes in bytes; optional.
    Sizes,
    /// Any number of drop causes.
    Causes,
    /// Any number of drop causes and packet classes.
    CausesAndClasses,
    /// Times: none for the whole run, one for the part before it, two for the part between them.
    Times {
        least: usize,
        most: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantile {
    Mean,
    /// The quantile at this fraction, from 0 to 1.
    Share(f64),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// The causes. If empty, all causes.
    pub(crate) causes: Vec<Cause>,
    /// Whether losses of low or of normal priority are selected; `None` selects both.
    pub(crate) low: Option<bool>,
}

#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) measure: &'static Measure,
    pub(crate) link: usize,
    pub(crate) flows: Vec<&'a str>,
    pub(crate) probe: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) estimate: &'a str,
    pub(crate) phase: &'a str,
    /// The quantile. The default is the maximum.
    pub(crate) quantile: Quantile,
    pub(crate) bytes: u64,
    /// Bounds of sizes in bytes: the lower is included, the upper is not.
    pub(crate) sizes: Option<[u64; 2]>,
    pub(crate) losses: Losses,
    /// Times in ascending order.
    pub(crate) times: Vec<Span>,
}

/// Returns the name of a drop cause in experiment files.
fn name_of(cause: Cause) -> String {
    if cause == Cause::Lost { "random".to_owned() } else { cause.name().replace(' ', "-") }
}

impl<'a> Asked<'a> {
    pub(crate) fn read(call: &'a Call) -> Result<Self, String> {
        let Some(measure) = find(&call.name) else {
            let known: Vec<&str> = super::all().map(Measure::name).collect();
            return Err(format!("there is no measure {:?}; there are: {}", call.name, known.join(", ")));
        };
        let (quantile, losses) = (Quantile::Share(1.0), Losses::default());
        let mut asked = Self {
            measure,
            link: 0,
            flows: Vec::new(),
            probe: "",
            workload: "",
            estimate: "",
            phase: "",
            quantile,
            bytes: 0,
            sizes: None,
            losses,
            times: Vec::new(),
        };
        let mut rest = call.arguments.as_slice();
        for parameter in measure.parameters() {
            rest = asked.take(parameter, rest)?;
        }
        if !rest.is_empty() {
            return Err(asked.usage());
        }
        let any = Parameter::Times { least: 0, most: 2 };
        let is_none = measure.parameters().contains(&any) && asked.times == [Span::ZERO];
        if is_none || asked.times.windows(2).any(|two| two[0] >= two[1]) {
            return Err(format!("{} needs an end after its start", call.name));
        }
        Ok(asked)
    }

    fn usage(&self) -> String {
        format!("{} is written {}", self.measure.name(), self.measure.usage)
    }

    fn take(&mut self, parameter: Parameter, from: &'a [Argument]) -> Result<&'a [Argument], String> {
        // Access to the next argument: of any kind, a name, or the number of leading ones of a kind.
        let one = || from.split_first().ok_or_else(|| self.usage());
        let name = || match one()? {
            (Argument::Name(name), rest) => Ok((name.as_str(), rest)),
            _ => Err(self.usage()),
        };
        let leading = |of_kind: fn(&Argument) -> bool| from.iter().take_while(|argument| of_kind(argument)).count();
        match parameter {
            // Names. A link is optional, and measures of several flows have several names.
            Parameter::Link => {
                let (link, rest) = link(from)?;
                self.link = link;
                Ok(rest)
            }
            Parameter::Flows => {
                let (name, rest) = name()?;
                self.flows.push(name);
                Ok(rest)
            }
            Parameter::Probe => Ok(put(name()?, &mut self.probe)),
            Parameter::Workload => Ok(put(name()?, &mut self.workload)),
            Parameter::Estimate => Ok(put(name()?, &mut self.estimate)),
            Parameter::Phase => Ok(put(name()?, &mut self.phase)),
            Parameter::Quantile => {
                let (name, rest) = name()?;
                self.quantile = Quantile::parse(name)?;
                Ok(rest)
            }
            // Sizes: one that is required, or two optional bounds.
            Parameter::Bytes => match one()? {
                (Argument::Size(bytes), rest) => {
                    self.bytes = *bytes;
                    Ok(rest)
                }
                _ => Err(self.usage()),
            },
            Parameter::Sizes => match from {
                [Argument::Size(least), Argument::Size(most), rest @ ..] => {
                    self.sizes = Some([*least, *most]);
                    Ok(rest)
                }
                _ => Ok(from),
            },
            // Lists: all leading names are causes or classes, and all leading times belong to the measure.
            Parameter::Causes | Parameter::CausesAndClasses => {
                let (names, rest) = from.split_at(leading(|argument| matches!(argument, Argument::Name(_))));
                for name in names {
                    self.losses.add(name, parameter == Parameter::CausesAndClasses)?;
                }
                Ok(rest)
            }
            Parameter::Times { least, most } => {
                let (times, rest) = from.split_at(leading(|argument| matches!(argument, Argument::Time(_))));
                if !(least..=most).contains(&times.len()) {
                    return Err(self.usage());
                }
                self.times = super::times_of(times).collect();
                Ok(rest)
            }
        }
    }
}

/// Stores the first of an argument and the remaining ones, and returns the latter.
fn put<'a>((name, rest): (&'a str, &'a [Argument]), place: &mut &'a str) -> &'a [Argument] {
    *place = name;
    rest
}

/// Returns the index of the link named by the first argument, from 0, and the other arguments. Without such an
/// argument, it returns the first link and all arguments.
pub(crate) fn link(from: &[Argument]) -> Result<(usize, &[Argument]), String> {
    let [Argument::Name(name), rest @ ..] = from else { return Ok((0, from)) };
    let Some(number) = name.strip_prefix("link-") else { return Ok((0, from)) };
    let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    Ok((place.ok_or_else(|| format!("{name:?} is not a link; links are numbered from link-1"))?, rest))
}

impl Quantile {
    /// Parses `p95`, `p99.9`, `median`, `min`, `max` or `mean`.
    fn parse(name: &str) -> Result<Self, String> {
        let share = match name {
            "mean" => return Ok(Self::Mean),
            "min" => 0.0,
            "median" => 0.5,
            "max" => 1.0,
            _ => {
                let percent = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                let told = || {
                    format!("{name:?} is not a quantile; write p50, p95, p99.9 (0 to 100), min, median, max or mean")
                };
                percent.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(told)? / 100.0
            }
        };
        Ok(Self::Share(share))
    }

    /// Returns the quantile of values by nearest rank, or `None` without values.
    pub(super) fn of(self, mut values: Vec<f64>) -> Option<f64> {
        let Self::Share(share) = self else { return mean(&values) };
        values.sort_by(f64::total_cmp);
        let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
        values.get(rank - 1).copied()
    }

    /// Returns the quantile of a histogram in seconds, or `None` if it is empty.
    pub(crate) fn seconds(self, of: &Histogram) -> Option<f64> {
        if of.is_empty() {
            return None;
        }
        let span = match self {
            Self::Mean => of.mean(),
            Self::Share(share) => of.quantile(share),
        };
        Some(span.as_secs_f64())
    }
}

impl Losses {
    fn add(&mut self, argument: &Argument, classes: bool) -> Result<(), String> {
        let Argument::Name(name) = argument else { return Ok(()) };
        let class = match name.as_str() {
            "low" => Some(true),
            "normal" => Some(false),
            _ => None,
        };
        if class.is_some() && classes {
            self.low = class;
            return Ok(());
        }
        let Some(cause) = Cause::ALL.into_iter().find(|cause| name_of(*cause) == *name) else {
            let (known, and) =
                (Cause::ALL.map(name_of).join(", "), if classes { "; and the classes normal, low" } else { "" });
            return Err(format!("{name:?} is not a cause of loss; there are: {known}{and}"));
        };
        self.causes.push(cause);
        Ok(())
    }

    pub(crate) fn counts(&self, cause: Cause) -> bool {
        self.causes.is_empty() || self.causes.contains(&cause)
    }

    pub(crate) fn classes(&self) -> std::ops::Range<u8> {
        let end = longhaul_link::MAX_CLASSES as u8;
        match self.low {
            None => 0..end,
            Some(false) => 0..1,
            Some(true) => 1..end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;

    fn fault(text: &str) -> String {
        let expression = Expression::parse(text).unwrap();
        Asked::read(expression.calls()[0]).unwrap_err()
    }

    #[test]
    fn invalid_arguments_are_reported() {
        let quantile = "is not a quantile; write p50, p95, p99.9 (0 to 100), min, median, max or mean";
        assert_eq!(fault("rtt(x, p101)"), format!("\"p101\" {quantile}"));
        assert_eq!(fault("delay(half)"), format!("\"half\" {quantile}"));
        assert_eq!(fault("delay(pNaN)"), format!("\"pNaN\" {quantile}"));
        assert!(
            fault("lost(full)").starts_with("\"full\" is not a cause of loss; there are: queue-full, pushed-out, ")
        );
        assert!(fault("lost(full)").ends_with("; and the classes normal, low"));
        assert!(fault("first-drop(low)").starts_with("\"low\" is not a cause of loss; "));
        assert_eq!(fault("time-to(x)"), "time-to is written time-to(FLOWS, BYTES)");
        assert_eq!(fault("time-to(x, 5s)"), "time-to is written time-to(FLOWS, BYTES)");
        assert_eq!(fault("share(x)"), "share is written share(FLOWS, FLOWS[, FROM][, TO])");
        assert_eq!(fault("goodput(x, y)"), "goodput is written goodput(FLOWS[, FROM][, TO])");
        assert_eq!(fault("goodput(x, 2s, 1s)"), "goodput needs an end after its start");
        assert_eq!(fault("goodput(x, 0s)"), "goodput needs an end after its start");
        let expression = Expression::parse("oscillation(x, 0s) + goodput(x, 0s, 1s)").unwrap();
        assert!(expression.calls().into_iter().all(|call| Asked::read(call).is_ok()));
    }

    #[test]
    fn the_nearest_rank_by_hand() {
        let of = |share: f64| Quantile::Share(share).of(vec![50.0, 15.0, 20.0, 35.0, 40.0]);
        assert_eq!([0.0, 0.05, 0.3, 0.4, 0.5, 1.0].map(of), [15.0, 15.0, 20.0, 20.0, 35.0, 50.0].map(Some));
        assert_eq!(Quantile::Mean.of(vec![1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(Quantile::Share(0.5).of(Vec::new()), None);
    }

    #[test]
    fn causes_and_classes_choose() {
        let expression = Expression::parse("lost(low, queue-full, pushed-out, 1s)").unwrap();
        let asked = Asked::read(expression.calls()[0]).unwrap();
        assert!(asked.losses.counts(Cause::PushedOut) && !asked.losses.counts(Cause::Lost));
        assert_eq!((asked.losses.classes(), asked.times), (1..8, vec![Span::from_secs(1)]));
    }
}
