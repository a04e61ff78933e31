//! Validation of link configurations.

use core::ops::RangeInclusive;

use longhaul_units::{Rate, Span, Time};

use crate::config::{LinkConfig, LinkRate, Loss, Reordering};
use crate::queue::{Discipline, DualPi2Config, Limit, PieConfig, QueueConfig, RedConfig};
use crate::router::RouterConfig;

/// The minimum burst of a policer in bytes. It is the largest packet of most networks, which could otherwise never
/// pass.
const LEAST_BURST: u64 = 1500;

/// Error in a link configuration, with its remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A rate of zero, at which no packet is ever sent.
    #[error(
        "the {what} is 0, so nothing would ever pass; give at least 8 bit/s, or an outage for a time without service"
    )]
    RateZero {
        /// Which rate it is.
        what: &'static str,
    },
    /// A queue limit of zero.
    #[error("the queue holds 0 {what}; give at least 1, or leave the limit out for an infinite queue")]
    QueueZero {
        /// The unit of the limit: packets or bytes.
        what: &'static str,
    },
    /// A token bucket too small for a packet.
    #[error("the policer's burst of {burst} bytes is less than a packet; give at least {LEAST_BURST} bytes")]
    BurstTooSmall {
        /// The burst in bytes.
        burst: u64,
    },
    /// A value that is not a probability or fraction.
    #[error("the {what} is {value}; it must be from 0 to {most}")]
    NotAShare {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The maximum.
        most: f64,
    },
    /// A number that must be above zero.
    #[error("the {what} must be more than 0")]
    NotPositive {
        /// The parameter.
        what: &'static str,
    },
    /// Bounds that are not in ascending order.
    #[error("the {low} is not below the {high}; swap them or move them apart")]
    NotBelow {
        /// The bound that must be lower.
        low: &'static str,
        /// The bound that must be higher.
        high: &'static str,
    },
    /// Events that are not in ascending order of time.
    #[error("{what} number {number} is not after the one before; sort them by time and keep them apart")]
    NotInOrder {
        /// The kind of event.
        what: &'static str,
        /// The position in the list, from 1.
        number: usize,
    },
    /// Lost packets that are not in ascending order of their numbers.
    #[error("lost packet {index} of the list is not after the one before; sort them by number, each once")]
    LossesNotInOrder {
        /// The position in the list, from 1.
        index: usize,
    },
    /// An outage that ends before it begins, or is empty.
    #[error("outage number {number} ends at {until:?}, not after its beginning at {from:?}")]
    OutageEmpty {
        /// The position in the list, from 1.
        number: usize,
        /// Its beginning.
        from: Time,
        /// Its end.
        until: Time,
    },
    /// A number out of its range.
    #[error("the {what} is {value}; it must be from {least} to {most}")]
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The minimum.
        least: f64,
        /// The maximum.
        most: f64,
    },
    /// A time out of its range.
    #[error("the {what} is {value:?}; it must be from {least:?} to {most:?}")]
    TimeOutOfRange {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: Span,
        /// The minimum.
        least: Span,
        /// The maximum.
        most: Span,
    },
    /// Two mutually exclusive options.
    #[error("{one} and {other} exclude each other; leave one of them out")]
    Contradiction {
        /// One option.
        one: &'static str,
        /// The other option.
        other: &'static str,
    },
}

impl LinkConfig {
    /// Checks that the configuration describes a possible link.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_rate()?;
        self.queue.validate()?;
        if let Some(policer) = self.policer {
            rate("policer's rate", policer.rate)?;
            if policer.burst < LEAST_BURST {
                return Err(ConfigError::BurstTooSmall { burst: policer.burst });
            }
        }
        self.loss.validate()?;
        share("share of corrupted packets", self.corruption.share)?;
        share("share of undetected corruption", self.corruption.unseen)?;
        share("share of duplicates", self.duplication)?;
        self.reordering.map_or(Ok(()), |reordering| reordering.validate())?;
        self.router.as_ref().map_or(Ok(()), RouterConfig::validate)?;
        self.validate_times()
    }

    fn validate_rate(&self) -> Result<(), ConfigError> {
        let steps = self.steps.iter().filter_map(|step| step.rate);
        match self.rate {
            LinkRate::Constant(constant) => rate("rate", constant)?,
            LinkRate::Trace(_) if self.steps.iter().any(|step| step.rate.is_some()) => {
                return Err(ConfigError::Contradiction { one: "a trace", other: "a step of the rate" });
            }
            LinkRate::Unlimited if self.steps.iter().any(|step| step.rate.is_some()) => {
                return Err(ConfigError::Contradiction { one: "an unlimited rate", other: "a step of the rate" });
            }
            _ => {}
        }
        steps.into_iter().try_for_each(|step| rate("rate of a step", step))
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        for (index, pair) in self.steps.windows(2).enumerate() {
            if pair[1].at <= pair[0].at {
                return Err(ConfigError::NotInOrder { what: "step", number: index + 2 });
            }
        }
        for (index, outage) in self.outages.iter().enumerate() {
            if outage.until <= outage.from {
                let (from, until) = (outage.from, outage.until);
                return Err(ConfigError::OutageEmpty { number: index + 1, from, until });
            }
            if index > 0 && self.outages[index - 1].until > outage.from {
                return Err(ConfigError::NotInOrder { what: "outage", number: index + 1 });
            }
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
            // A rate above one half would make the link an inverter.
            Self::BitErrors(rate) => up_to("bit error rate", *rate, 0.5),
            Self::List(numbers) => match numbers.windows(2).position(|pair| pair[1] <= pair[0]) {
                Some(index) => Err(ConfigError::LossesNotInOrder { index: index + 2 }),
                None if numbers.first() == Some(&0) => {
                    Err(ConfigError::NotPositive { what: "number of a lost packet (the first is 1)" })
                }
                None => Ok(()),
            },
        }
    }
}

impl Reordering {
    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Places { share: s, places, .. } => {
                share("share of reordered packets", *s)?;
                if *places == 0 { Err(ConfigError::NotPositive { what: "number of places back" }) } else { Ok(()) }
            }
            Self::Late { share: s, least, most } => {
                share("share of late packets", *s)?;
                if least <= most {
                    return Ok(());
                }
                Err(ConfigError::NotBelow { low: "minimum extra delay", high: "maximum extra delay" })
            }
        }
    }
}

impl QueueConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        match self.limit {
            Limit::Packets(0) => return Err(ConfigError::QueueZero { what: "packets" }),
            Limit::Bytes(0) => return Err(ConfigError::QueueZero { what: "bytes" }),
            _ => {}
        }
        match &self.discipline {
            Discipline::CoDel(config) => {
                positive("CoDel target", config.target).and(positive("CoDel interval", config.interval))
            }
            Discipline::Red(config) => config.validate(),
            Discipline::Pie(config) => config.validate(),
            Discipline::DualPi2(config) => config.validate(),
            Discipline::DropTail { .. } | Discipline::DropHead | Discipline::Priority(_) | Discipline::Threshold(_) => {
                Ok(())
            }
        }
    }
}

impl RedConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        share("maximum RED probability", self.max_p)?;
        share("RED weight", self.weight)?;
        // This form rejects NaN.
        if self.min >= 0.0 && self.min < self.max && self.max.is_finite() {
            return Ok(());
        }
        Err(ConfigError::NotBelow { low: "lower RED threshold", high: "upper RED threshold" })
    }
}

impl PieConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        positive("PIE target", self.target)?;
        positive("PIE update interval", self.update)?;
        share("PIE marking limit", self.mark_below)?;
        gain("PIE alpha", self.alpha)?;
        gain("PIE beta", self.beta)
    }
}

impl DualPi2Config {
    fn validate(&self) -> Result<(), ConfigError> {
        positive("DualPI2 target", self.target)?;
        positive("DualPI2 update interval", self.update)?;
        share("share of the Classic queue", self.classic_share)?;
        gain("DualPI2 alpha", self.alpha)?;
        gain("DualPI2 beta", self.beta)?;
        gain("DualPI2 coupling factor", self.coupling)
    }
}

fn rate(what: &'static str, rate: Rate) -> Result<(), ConfigError> {
    if rate == Rate::ZERO { Err(ConfigError::RateZero { what }) } else { Ok(()) }
}

fn share(what: &'static str, value: f64) -> Result<(), ConfigError> {
    up_to(what, value, 1.0)
}

fn up_to(what: &'static str, value: f64, most: f64) -> Result<(), ConfigError> {
    if (0.0..=most).contains(&value) { Ok(()) } else { Err(ConfigError::NotAShare { what, value, most }) }
}

fn positive(what: &'static str, span: Span) -> Result<(), ConfigError> {
    if span.is_zero() { Err(ConfigError::NotPositive { what }) } else { Ok(()) }
}

pub(crate) fn range(what: &'static str, value: f64, allowed: RangeInclusive<f64>) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { what, value, least: *allowed.start(), most: *allowed.end() })
}

pub(crate) fn span_range(what: &'static str, value: Span, allowed: RangeInclusive<Span>) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::TimeOutOfRange { what, value, least: *allowed.start(), most: *allowed.end() })
}

fn gain(what: &'static str, value: f64) -> Result<(), ConfigError> {
    if value > 0.0 && value.is_finite() { Ok(()) } else { Err(ConfigError::NotPositive { what }) }
}

#[cfg(test)]
mod tests;
