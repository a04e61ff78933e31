//! Validation of link configurations.

use core::ops::RangeInclusive;

use longhaul_units::{Rate, Span};

use crate::config::{LinkConfig, LinkRate, Loss, Policer, Reordering};
use crate::queue::{Discipline, Limit, QueueConfig};
use crate::router::RouterConfig;

/// The minimum burst of a policer in bytes. It is the largest packet of most networks, which could otherwise never
/// pass.
const LEAST_BURST: u64 = 1500;

/// Error in a link configuration, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl LinkConfig {
    /// Checks that the configuration describes a possible link.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_rate()?;
        self.queue.validate()?;
        if let Some(Policer { rate: tokens, burst }) = self.policer {
            rate("policer's rate", tokens)?;
            ensure(burst >= LEAST_BURST, || {
                let remedy = format!("give at least {LEAST_BURST} bytes");
                format!("the policer's burst of {burst} bytes is less than a packet; {remedy}")
            })?;
        }
        self.loss.validate()?;
        self.validate_cycle()?;
        share("share of corrupted packets", self.corruption.share)?;
        share("share of undetected corruption", self.corruption.unseen)?;
        share("share of duplicates", self.duplication)?;
        self.reordering.map_or(Ok(()), |reordering| reordering.validate())?;
        self.router.as_ref().map_or(Ok(()), RouterConfig::validate)?;
        self.validate_times()
    }

    fn validate_rate(&self) -> Result<(), ConfigError> {
        let mut changes = self.steps.iter().filter_map(|step| step.rate);
        let one = match self.rate {
            LinkRate::Constant(constant) => {
                rate("rate", constant)?;
                return changes.try_for_each(|step| rate("rate of a step", step));
            }
            LinkRate::Trace(_) => "a trace",
            LinkRate::Unlimited => "an unlimited rate",
        };
        ensure(changes.next().is_none(), || {
            format!("{one} and a step of the rate exclude each other; leave one of them out")
        })
    }

    fn validate_cycle(&self) -> Result<(), ConfigError> {
        for phase in &self.cycle {
            share("loss in a phase of the cycle", phase.loss)?;
            positive("duration of a phase of the cycle", phase.lasts)?;
            ensure(phase.loss == 0.0 || self.loss == Loss::None, || {
                "losses and losses in a cycle exclude each other; leave one of them out".into()
            })?;
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let in_order = |holds, what: &str, number: usize| {
            ensure(holds, || {
                format!("{what} number {number} is not after the one before; sort them by time and keep them apart")
            })
        };
        for (number, pair) in (2..).zip(self.steps.windows(2)) {
            in_order(pair[0].at < pair[1].at, "step", number)?;
        }
        for (index, outage) in self.outages.iter().enumerate() {
            let (number, from, until) = (index + 1, outage.from, outage.until);
            ensure(from < until, || {
                format!("outage number {number} ends at {until:?}, not after its beginning at {from:?}")
            })?;
            in_order(index == 0 || self.outages[index - 1].until <= from, "outage", number)?;
        }
        Ok(())
    }
}

impl Loss {
    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::None => Ok(()),
            Self::Uniform(p) => share("loss", *p),
            Self::GilbertElliott(config) => {
                share("probability p to go to the bad state", config.p)?;
                share("probability r to go to the good state", config.r)?;
                share("loss in the good state", config.loss_good)?;
                share("loss in the bad state", config.loss_bad)
            }
            // At a rate above one half, the link would invert more bits than it preserves.
            Self::BitErrors(rate) => number("bit error rate", *rate, 0.0..=0.5),
            Self::List(numbers) => match (2..).zip(numbers.windows(2)).find(|(_, pair)| pair[1] <= pair[0]) {
                Some((index, _)) => Err(ConfigError(format!(
                    "lost packet {index} of the list is not after the one before; sort them by number, each once"
                ))),
                None => ensure_positive("number of a lost packet (the first is 1)", numbers.first() != Some(&0)),
            },
        }
    }
}

impl Reordering {
    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Places { share: s, places, .. } => {
                share("share of reordered packets", *s)?;
                ensure_positive("number of places back", *places > 0)
            }
            Self::Late { share: s, least, most } => {
                share("share of late packets", *s)?;
                ensure_below("minimum extra delay", "maximum extra delay", least <= most)
            }
        }
    }
}

impl QueueConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if let Some(unit) = match self.limit {
            Limit::Packets(0) => Some("packets"),
            Limit::Bytes(0) => Some("bytes"),
            _ => None,
        } {
            let remedy = "give at least 1, or leave the limit out for an infinite queue";
            return Err(ConfigError(format!("the queue holds 0 {unit}; {remedy}")));
        }
        match &self.discipline {
            Discipline::CoDel(config) => config.validate(),
            Discipline::Red(config) => {
                config.validate()?;
                // This form rejects NaN.
                let in_order = config.min >= 0.0 && config.min < config.max && config.max.is_finite();
                ensure_below("lower RED threshold", "upper RED threshold", in_order)
            }
            Discipline::Pie(config) => config.validate(),
            Discipline::DualPi2(config) => config.validate(),
            Discipline::DropTail { .. } | Discipline::DropHead | Discipline::Priority(_) | Discipline::Threshold(_) => {
                Ok(())
            }
        }
    }
}

fn ensure(holds: bool, fault: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError(fault())) }
}

fn ensure_positive(what: &str, is_positive: bool) -> Result<(), ConfigError> {
    ensure(is_positive, || format!("the {what} must be more than 0"))
}

fn ensure_below(low: &str, high: &str, is_below: bool) -> Result<(), ConfigError> {
    ensure(is_below, || format!("the {low} is not below the {high}; swap them or move them apart"))
}

fn rate(what: &str, rate: Rate) -> Result<(), ConfigError> {
    ensure(rate > Rate::ZERO, || {
        let remedy = "give at least 8 bit/s, or an outage for a time without service";
        format!("the {what} is 0, so nothing would ever pass; {remedy}")
    })
}

pub(crate) fn number(what: &str, value: f64, range: RangeInclusive<f64>) -> Result<(), ConfigError> {
    let (least, most) = (range.start(), range.end());
    ensure(range.contains(&value), || format!("the {what} is {value}; it must be from {least} to {most}"))
}

pub(crate) fn share(what: &str, value: f64) -> Result<(), ConfigError> {
    number(what, value, 0.0..=1.0)
}

pub(crate) fn count(what: &str, value: u32, range: RangeInclusive<f64>) -> Result<(), ConfigError> {
    number(what, f64::from(value), range)
}

pub(crate) fn gain(what: &str, value: f64) -> Result<(), ConfigError> {
    ensure_positive(what, value > 0.0 && value.is_finite())
}

pub(crate) fn span(what: &str, value: Span, range: RangeInclusive<Span>) -> Result<(), ConfigError> {
    let (least, most) = (range.start(), range.end());
    ensure(range.contains(&value), || format!("the {what} is {value:?}; it must be from {least:?} to {most:?}"))
}

pub(crate) fn positive(what: &str, value: Span) -> Result<(), ConfigError> {
    ensure_positive(what, !value.is_zero())
}

#[cfg(test)]
mod tests;
