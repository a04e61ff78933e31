//! Options given for one direction, or for both.

use std::sync::Arc;

use longhaul_units::{Rate, Span, Time};

use super::router::router;
use super::value::{self, ValueError};
use super::{Direction, SpecError};
use crate::config::{
    Bleaching, Corruption, GilbertElliott, LinkConfig, LinkRate, Loss, Mtu, Outage, OutageKind, Policer, Reordering,
    Step,
};
use crate::overhead::Overhead;
use crate::queue::{Classes, Discipline, Limit, RedConfig, Threshold};
use crate::router::RouterConfig;
use crate::trace::Trace;

/// Default for the longest time that a reordered packet is held back.
const PATIENCE: Span = Span::from_millis(100);

/// The least MTU of an IP link (RFC 791).
const LEAST_MTU: u32 = 68;

/// Maximum queue limit in bandwidth-delay products, far above any useful one.
const MOST_BDP: f64 = 1e6;

/// An option's value, with the name of the option that set it.
type Said<V> = Option<(String, V)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    rate: Said<RateSpec>,
    delay: Said<Span>,
    limit: Said<LimitSpec>,
    discipline: Said<Discipline>,
    ecn: Said<()>,
    loss: Said<Loss>,
    reordering: Said<Reordering>,
    duplication: Said<f64>,
    corruption: Said<Corruption>,
    jitter: Said<Span>,
    overhead: Said<Overhead>,
    policer: Said<Policer>,
    mtu: Said<Mtu>,
    bleaching: Said<Bleaching>,
    router: Said<Option<RouterConfig>>,
    outages: Vec<Outage>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum RateSpec {
    Constant(Rate),
    Trace(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LimitSpec {
    Limit(Limit),
    /// A multiple of the bandwidth-delay product.
    Bdp(f64),
}

impl Side {
    /// Sets an option. `plain` is its name without the direction, `name` the name as given.
    pub(super) fn set(&mut self, plain: &str, name: &str, text: &str) -> Result<(), SpecError> {
        let wrong = |error| SpecError::value(name, error);
        match plain {
            "rate" => say(&mut self.rate, name, RateSpec::Constant(value::rate(text).map_err(wrong)?)),
            "trace" => say(&mut self.rate, name, RateSpec::Trace(text.into())),
            "rtt" => say(&mut self.delay, name, value::span(text).map_err(wrong)? / 2),
            "delay" => say(&mut self.delay, name, value::span(text).map_err(wrong)?),
            "queue" => say(&mut self.limit, name, limit(text).map_err(wrong)?),
            "aqm" => say(&mut self.discipline, name, discipline(text).map_err(wrong)?),
            "ecn" => say(&mut self.ecn, name, ()),
            "loss" => say(&mut self.loss, name, Loss::Uniform(value::share(text).map_err(wrong)?)),
            "loss-ge" => say(&mut self.loss, name, gilbert_elliott(text).map_err(wrong)?),
            "ber" => say(&mut self.loss, name, Loss::BitErrors(value::share(text).map_err(wrong)?)),
            "loss-list" => say(&mut self.loss, name, list(text).map_err(wrong)?),
            "reorder" => say(&mut self.reordering, name, places(text).map_err(wrong)?),
            "late" => say(&mut self.reordering, name, late(text).map_err(wrong)?),
            "duplicate" => say(&mut self.duplication, name, value::share(text).map_err(wrong)?),
            "corrupt" => say(&mut self.corruption, name, corruption(text).map_err(wrong)?),
            "jitter" => say(&mut self.jitter, name, value::span(text).map_err(wrong)?),
            "overhead" => say(&mut self.overhead, name, overhead(text).map_err(wrong)?),
            "policer" => say(&mut self.policer, name, policer(text).map_err(wrong)?),
            "mtu" => say(&mut self.mtu, name, mtu(text).map_err(wrong)?),
            "bleach" => say(&mut self.bleaching, name, bleaching(text).map_err(wrong)?),
            "router" => say(&mut self.router, name, router(text).map_err(wrong)?),
            "outage" => {
                self.outages.push(outage(text).map_err(wrong)?);
                Ok(())
            }
            "step" => {
                self.steps.push(step(text).map_err(wrong)?);
                Ok(())
            }
            _ => Err(SpecError::UnknownOption(name.into())),
        }
    }

    /// Combines options: those set here take precedence over those of `other`.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            rate: self.rate.or_else(|| other.rate.clone()),
            delay: self.delay.or_else(|| other.delay.clone()),
            limit: self.limit.or_else(|| other.limit.clone()),
            discipline: self.discipline.or_else(|| other.discipline.clone()),
            ecn: self.ecn.or_else(|| other.ecn.clone()),
            loss: self.loss.or_else(|| other.loss.clone()),
            reordering: self.reordering.or_else(|| other.reordering.clone()),
            duplication: self.duplication.or_else(|| other.duplication.clone()),
            corruption: self.corruption.or_else(|| other.corruption.clone()),
            jitter: self.jitter.or_else(|| other.jitter.clone()),
            overhead: self.overhead.or_else(|| other.overhead.clone()),
            policer: self.policer.or_else(|| other.policer.clone()),
            mtu: self.mtu.or_else(|| other.mtu.clone()),
            bleaching: self.bleaching.or_else(|| other.bleaching.clone()),
            router: self.router.or_else(|| other.router.clone()),
            outages: if self.outages.is_empty() { other.outages.clone() } else { self.outages },
            steps: if self.steps.is_empty() { other.steps.clone() } else { self.steps },
        }
    }

    /// Applies the options to a link, except for the limit of its queue.
    pub(super) fn apply(
        &self,
        direction: Direction,
        mut link: LinkConfig,
        trace: &mut impl FnMut(&str) -> Result<Arc<Trace>, SpecError>,
    ) -> Result<LinkConfig, SpecError> {
        match &self.rate {
            Some((_, RateSpec::Constant(rate))) => link.rate = (*rate).into(),
            Some((_, RateSpec::Trace(file))) => link.rate = LinkRate::Trace(trace(file)?),
            None => {}
        }
        // An option replaces the scenario's value and all its later changes.
        for step in &mut link.steps {
            step.rate = step.rate.filter(|_| self.rate.is_none());
            step.delay = step.delay.filter(|_| self.delay.is_none());
        }
        link.steps.retain(|step| step.rate.is_some() || step.delay.is_some());
        // Every other option replaces the scenario's value.
        put(&mut link.delay, &self.delay);
        put(&mut link.queue.discipline, &self.discipline);
        put(&mut link.loss, &self.loss);
        put(&mut link.duplication, &self.duplication);
        put(&mut link.corruption, &self.corruption);
        put(&mut link.jitter, &self.jitter);
        put(&mut link.overhead, &self.overhead);
        put(&mut link.bleaching, &self.bleaching);
        put(&mut link.router, &self.router);
        link.reordering = self.reordering.as_ref().map(|(_, said)| *said).or(link.reordering);
        link.policer = self.policer.as_ref().map(|(_, said)| *said).or(link.policer);
        link.mtu = self.mtu.as_ref().map(|(_, said)| *said).or(link.mtu);
        if !self.outages.is_empty() {
            link.outages.clone_from(&self.outages);
        }
        if !self.steps.is_empty() {
            link.steps.clone_from(&self.steps);
        }
        // ECN requires a queue that can mark.
        if let Some((option, ())) = &self.ecn {
            let marks = matches!(
                link.queue.discipline,
                Discipline::CoDel(_) | Discipline::Red(_) | Discipline::Pie(_) | Discipline::DualPi2(_)
            );
            if !marks {
                let needs = "a queue that marks: --aqm codel, red, pie or dualpi2";
                return Err(SpecError::Needs { direction, option: option.clone(), needs });
            }
            link.queue.ecn = true;
        }
        Ok(link)
    }

    /// Applies the limit of the queue; `rtt` is needed for a multiple of the bandwidth-delay product.
    pub(super) fn limit(&self, direction: Direction, link: &mut LinkConfig, rtt: Span) -> Result<(), SpecError> {
        let Some((option, limit)) = &self.limit else { return Ok(()) };
        let rate = match (&link.rate, limit) {
            (_, LimitSpec::Limit(Limit::Infinite)) => Rate::MAX,
            (LinkRate::Constant(rate), _) => *rate,
            (LinkRate::Trace(trace), _) => trace.mean_rate(),
            (LinkRate::Unlimited, _) => {
                let needs = "--rate or --trace: without a rate nothing ever waits";
                return Err(SpecError::Needs { direction, option: option.clone(), needs });
            }
        };
        link.queue.limit = match limit {
            LimitSpec::Limit(limit) => *limit,
            LimitSpec::Bdp(times) => Limit::Bytes(rate.bytes_in(rtt).mul_f64(*times).0),
        };
        if matches!(limit, LimitSpec::Bdp(_)) && link.queue.limit == Limit::Bytes(0) {
            let needs = "a delay: --rtt or --delay; the product of rate and RTT is 0";
            return Err(SpecError::Needs { direction, option: option.clone(), needs });
        }
        Ok(())
    }
}

fn say<V>(place: &mut Said<V>, name: &str, value: V) -> Result<(), SpecError> {
    match place.replace((name.into(), value)) {
        None => Ok(()),
        Some((other, _)) if other == name => Err(SpecError::Twice(other)),
        Some((other, _)) => Err(SpecError::Contradiction { one: other, other: name.into() }),
    }
}

fn put<V: Clone>(place: &mut V, said: &Said<V>) {
    if let Some((_, value)) = said {
        place.clone_from(value);
    }
}

fn parts<'a>(
    text: &'a str,
    counts: core::ops::RangeInclusive<usize>,
    form: &'static str,
) -> Result<Vec<&'a str>, ValueError> {
    let parts: Vec<_> = text.split(',').map(str::trim).collect();
    if counts.contains(&parts.len()) { Ok(parts) } else { Err(ValueError::Parts { text: text.into(), form }) }
}

fn limit(text: &str) -> Result<LimitSpec, ValueError> {
    const EXAMPLE: &str = "write it as 1000p, 150kB, 1bdp or infinite";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let not_a_limit = || ValueError::NotANumber { text: text.into(), what: "queue limit", example: EXAMPLE };
    match text.strip_prefix(digits).unwrap_or("") {
        "infinite" if digits.is_empty() => Ok(LimitSpec::Limit(Limit::Infinite)),
        "p" => digits.parse().map(|packets| LimitSpec::Limit(Limit::Packets(packets))).map_err(|_| not_a_limit()),
        "bdp" => match digits.parse::<f64>() {
            Ok(times) if times > MOST_BDP && times.is_finite() => {
                Err(ValueError::TooLarge { text: text.into(), most: "a million bdp; write infinite" })
            }
            Ok(times) if times > 0.0 && times.is_finite() => Ok(LimitSpec::Bdp(times)),
            _ => Err(not_a_limit()),
        },
        "" if !digits.is_empty() => Err(ValueError::NoUnit { text: text.into(), example: EXAMPLE }),
        _ => value::size(text).map(|bytes| LimitSpec::Limit(Limit::Bytes(bytes))).map_err(|_| not_a_limit()),
    }
}

fn discipline(text: &str) -> Result<Discipline, ValueError> {
    if let Some(thresholds) = text.strip_prefix("red:") {
        let parts = parts(thresholds, 2..=2, "two thresholds of RED in packets, as in red:5,15")?;
        let packets = |part| value::whole::<u32>(part, "number of packets").map(f64::from);
        let (min, max) = (packets(parts[0])?, packets(parts[1])?);
        return Ok(Discipline::Red(RedConfig { min, max, ..RedConfig::default() }));
    }
    Ok(match text {
        "droptail" => Discipline::default(),
        "drophead" => Discipline::DropHead,
        "priority" => Discipline::Priority(Classes::default()),
        "rc3" => Discipline::Priority(Classes::rc3()),
        "peach" => Discipline::Threshold(Threshold::Packets(1)),
        "codel" => Discipline::CoDel(Default::default()),
        "red" => Discipline::Red(Default::default()),
        "pie" => Discipline::Pie(Default::default()),
        "dualpi2" => Discipline::DualPi2(Default::default()),
        _ => {
            let words = "droptail, drophead, priority, rc3, peach, codel, red or red:MIN,MAX, pie and dualpi2";
            return Err(ValueError::UnknownWord { text: text.into(), words });
        }
    })
}

fn gilbert_elliott(text: &str) -> Result<Loss, ValueError> {
    let form =
        "the probabilities of good to bad and bad to good, and optionally the loss in bad and good, as in 0.1%,25%";
    let parts = parts(text, 2..=4, form)?;
    let share = |index: usize, default| parts.get(index).map_or(Ok(default), |part| value::share(part));
    let (p, r) = (share(0, 0.0)?, share(1, 0.0)?);
    Ok(Loss::GilbertElliott(GilbertElliott { p, r, loss_bad: share(2, 1.0)?, loss_good: share(3, 0.0)? }))
}

fn list(text: &str) -> Result<Loss, ValueError> {
    text.split(',').map(|part| value::whole(part.trim(), "packet number")).collect::<Result<_, _>>().map(Loss::List)
}

fn places(text: &str) -> Result<Reordering, ValueError> {
    let parts = parts(text, 2..=3, "a share, a number of places, and optionally a maximum time, as in 1.3%,3")?;
    let patience = parts.get(2).map_or(Ok(PATIENCE), |part| value::span(part))?;
    Ok(Reordering::Places {
        share: value::share(parts[0])?,
        places: value::whole(parts[1], "number of places")?,
        patience,
    })
}

fn late(text: &str) -> Result<Reordering, ValueError> {
    let parts = parts(text, 3..=3, "a share and two times, as in 5%,10ms,100ms")?;
    Ok(Reordering::Late { share: value::share(parts[0])?, least: value::span(parts[1])?, most: value::span(parts[2])? })
}

fn corruption(text: &str) -> Result<Corruption, ValueError> {
    let parts = parts(text, 1..=2, "a share, and optionally the share of it that is delivered, as in 0.1%,5%")?;
    let unseen = parts.get(1).map_or(Ok(0.0), |part| value::share(part))?;
    Ok(Corruption { share: value::share(parts[0])?, unseen })
}

fn overhead(text: &str) -> Result<Overhead, ValueError> {
    Ok(match text {
        "none" => Overhead::None,
        "ethernet" => Overhead::Ethernet,
        "aal5" => Overhead::Aal5,
        _ => {
            let too_large = ValueError::TooLarge { text: text.into(), most: "the size of any packet" };
            Overhead::Bytes(u32::try_from(value::size(text)?).map_err(|_| too_large)?)
        }
    })
}

fn policer(text: &str) -> Result<Policer, ValueError> {
    let parts = parts(text, 2..=2, "a rate and a burst, as in 10mbit,30kB")?;
    Ok(Policer { rate: value::rate(parts[0])?, burst: value::size(parts[1])? })
}

fn mtu(text: &str) -> Result<Mtu, ValueError> {
    let parts = parts(text, 1..=2, "a size, and optionally a start time, as in 1400B,10s")?;
    let from = parts.get(1).map_or(Ok(Span::ZERO), |part| value::span(part))?;
    let size = u32::try_from(value::size(parts[0])?).unwrap_or(u32::MAX);
    if size < LEAST_MTU {
        return Err(ValueError::TooSmall {
            text: parts[0].into(),
            least: "68B, which every IP link carries (RFC 791)",
        });
    }
    Ok(Mtu { from: Time::ZERO + from, size })
}

fn bleaching(text: &str) -> Result<Bleaching, ValueError> {
    match text {
        "ecn" => Ok(Bleaching { ecn: true, dscp: false }),
        "dscp" => Ok(Bleaching { ecn: false, dscp: true }),
        "both" => Ok(Bleaching { ecn: true, dscp: true }),
        _ => Err(ValueError::UnknownWord { text: text.into(), words: "ecn, dscp and both" }),
    }
}

fn outage(text: &str) -> Result<Outage, ValueError> {
    let parts = parts(text, 2..=3, "a start and a duration, and optionally hold, as in 10s,500ms")?;
    let kind = match parts.get(2) {
        None => OutageKind::Lose,
        Some(&"hold") => OutageKind::Hold,
        Some(word) => return Err(ValueError::UnknownWord { text: (*word).into(), words: "hold" }),
    };
    let from = Time::ZERO + value::span(parts[0])?;
    Ok(Outage { from, until: from + value::span(parts[1])?, kind })
}

fn step(text: &str) -> Result<Step, ValueError> {
    let parts = parts(text, 3..=3, "a time, a rate and an RTT, as in 15s,40mbit,60ms")?;
    let rate = if parts[1] == "-" { None } else { Some(value::rate(parts[1])?) };
    let delay = if parts[2] == "-" { None } else { Some(value::span(parts[2])? / 2) };
    Ok(Step { at: Time::ZERO + value::span(parts[0])?, rate, delay })
}
