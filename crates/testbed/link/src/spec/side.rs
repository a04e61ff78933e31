//! Options given for one direction, or for both.

use std::sync::Arc;

use longhaul_units::{Rate, Span, Time};

use super::router::router;
use super::value::{self, ValueError};
use super::{Direction, SpecError};
use crate::config::{
    Bleaching, Corruption, GilbertElliott, LinkConfig, LinkRate, Loss, Mtu, Outage, OutageKind, Phase, Policer,
    Reordering, Step,
};
use crate::overhead::Overhead;
use crate::queue::{Classes, Discipline, Limit, RedConfig};
use crate::trace::Trace;

/// Default for the longest time that a reordered packet is held back.
const PATIENCE: Span = Span::from_millis(100);

/// Minimum MTU of an IP link (RFC 791).
const LEAST_MTU: u32 = 68;

/// Maximum queue limit in bandwidth-delay products, far above any useful one.
const MOST_BDP: f64 = 1e6;

/// Declares the options. Each has a name, a placeholder for the value, a help text, the setting if it differs from the
/// name, and code that parses the value into the configuration of a link.
macro_rules! options {
    (|$text:ident, $link:ident| $($name:literal, $value:literal, $help:literal $(, sets $sets:literal)? => $read:expr;)+) => {
        /// All options of a link: name, placeholder of the value, and help text.
        pub const OPTIONS: &[(&str, &str, &str)] = &[$(($name, $value, $help)),+];

        /// Reads the text of an option into the configuration of a link. The file of a trace, and the limit of the queue,
        /// are checked here and set later.
        fn read(plain: &str, $text: &str, $link: &mut LinkConfig) -> Result<(), ValueError> {
            match plain {
                $($name => $read,)+
                _ => {}
            }
            Ok(())
        }

        /// Returns the setting of an option. Options with the same setting exclude each other.
        fn setting(plain: &str) -> &str {
            match plain {
                $($($name => $sets,)?)+
                other => other,
            }
        }
    };
}

options! { |text, link|
    "rate", "RATE", "constant rate: 20mbit" => link.rate = value::rate(text)?.into();
    "trace", "FILE", "delivery opportunities in mahimahi's format, instead of a rate", sets "rate" => {};
    "rtt", "TIME", "round-trip propagation time, half of it each way: 500ms", sets "delay" => link.delay = value::span(text)? / 2;
    "delay", "TIME", "one-way propagation time, instead of --rtt" => link.delay = value::span(text)?;
    "queue", "LIMIT", "queue limit: 1000p, 150kB, 1bdp (of this direction's rate) or infinite" => drop(limit(text)?);
    "aqm", "NAME", "droptail, drophead, priority, rc3, peach, codel, red or red:MIN,MAX (packets), pie or dualpi2"
        => link.queue.discipline = discipline(text)?;
    "ecn", "", "let codel, red and pie mark ECN-capable packets instead of dropping them" => link.queue.ecn = true;
    "loss", "SHARE", "lose packets independently: 0.1%" => link.loss = Loss::Uniform(value::share(text)?);
    "loss-ge", "P,R[,BAD[,GOOD]]",
        "lose in bursts (Gilbert-Elliott): P of good to bad, R of bad to good, loss in bad (100%) and good (0%)",
        sets "loss" => link.loss = gilbert_elliott(text)?;
    "ber", "SHARE", "bit error rate; packets with a wrong bit are lost: 1e-7", sets "loss"
        => link.loss = Loss::BitErrors(value::share(text)?);
    "loss-list", "N,...", "lose the packets with these numbers, counted from 1", sets "loss" => link.loss = list(text)?;
    "reorder", "SHARE,PLACES[,TIME]",
        "hold packets until this many others have passed, for at most a time (100ms; use more on slow links)"
        => link.reordering = Some(places(text)?);
    "late", "SHARE,TIME,TIME", "delay packets by an extra time between these two", sets "reorder"
        => link.reordering = Some(late(text)?);
    "duplicate", "SHARE", "deliver packets twice" => link.duplication = value::share(text)?;
    "corrupt", "SHARE[,SHARE]", "flip a bit; the second share of these packets is delivered (0%)"
        => link.corruption = corruption(text)?;
    "jitter", "TIME", "add up to this much delay, without reordering" => link.jitter = value::span(text)?;
    "overhead", "SIZE|ethernet|aal5", "bytes added to each packet on the link: 18B, ethernet, aal5 or none"
        => link.overhead = overhead(text)?;
    "policer", "RATE,SIZE", "token bucket before the queue: rate and burst" => link.policer = Some(policer(text)?);
    "outage", "TIME,TIME[,hold]",
        "start and duration of an outage that loses all packets, or holds them; may be repeated"
        => link.outages.push(outage(text)?);
    "step", "TIME,RATE,RTT", "change rate and RTT at a time; - leaves one unchanged; may be repeated"
        => link.steps.push(step(text)?);
    "cycle", "TIME,DELAY[,SHARE[,TIME]]/...",
        "phases that repeat: duration, extra delay, loss, interval at which packets arrive together"
        => link.cycle = text.split('/').map(phase).collect::<Result<_, _>>()?;
    "mtu", "SIZE[,TIME]", "drop larger IP packets silently, from a time on" => link.mtu = Some(mtu(text)?);
    "bleach", "FIELDS", "clear fields of the IP header: ecn, dscp or both" => link.bleaching = bleaching(text)?;
    "router", "NAME[(OPTION=VALUE,...)]",
        "answer requests in segments: quick-start, rcp, xcp or none; rcp(gamma=0.95,beta=1)"
        => link.router = router(text)?;
    "scenario", "NAME", "start from a named link, which the other options change" => {};
    "swap", "", "exchange up and down of the named link" => {};
    "seed", "N", "seed of all random numbers (1)" => {};
}

/// Options in the order in which they were given. Their texts are valid.
#[derive(Clone, Debug, Default)]
pub(super) struct Side(Vec<Given>);

#[derive(Clone, Debug)]
struct Given {
    /// Name of the option without the direction.
    plain: &'static str,
    name: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LimitSpec {
    Limit(Limit),
    /// A multiple of the bandwidth-delay product.
    Bdp(f64),
}

impl Side {
    /// Adds an option. `plain` is its name without the direction, `name` the name as given.
    pub(super) fn set(&mut self, plain: &'static str, name: &str, text: &str) -> Result<(), SpecError> {
        read(plain, text, &mut LinkConfig::default()).map_err(|error| SpecError::value(name, &error))?;
        match self.of(setting(plain)) {
            Some(_) if matches!(plain, "outage" | "step") => {}
            Some(Given { name: other, .. }) if other == name => return Err(SpecError::twice(name)),
            Some(Given { name: other, .. }) => {
                return Err(SpecError(format!("--{other} and --{name} exclude each other; leave one of them out")));
            }
            None => {}
        }
        self.0.push(Given { plain, name: name.into(), text: text.into() });
        Ok(())
    }

    /// Returns the first option of a setting.
    fn of(&self, of: &str) -> Option<&Given> {
        self.0.iter().find(|given| setting(given.plain) == of)
    }

    /// Combines options: those given here take precedence over those of `other`.
    pub(super) fn or(self, other: &Self) -> Self {
        let others = other.0.iter().filter(|given| self.of(setting(given.plain)).is_none());
        Self(self.0.iter().chain(others).cloned().collect())
    }

    /// Applies the options to a link, except for the limit of its queue.
    pub(super) fn apply(
        &self,
        direction: Direction,
        mut link: LinkConfig,
        trace: &mut impl FnMut(&str) -> Result<Arc<Trace>, SpecError>,
    ) -> Result<LinkConfig, SpecError> {
        // An option replaces the scenario's value and all its later changes.
        for step in &mut link.steps {
            step.rate = step.rate.filter(|_| self.of("rate").is_none());
            step.delay = step.delay.filter(|_| self.of("delay").is_none());
        }
        link.steps.retain(|step| (step.rate.is_some() || step.delay.is_some()) && self.of("step").is_none());
        link.outages.retain(|_| self.of("outage").is_none());
        for Given { plain, name, text } in &self.0 {
            match *plain {
                "trace" => link.rate = LinkRate::Trace(trace(text)?),
                plain => read(plain, text, &mut link).map_err(|error| SpecError::value(name, &error))?,
            }
        }
        // ECN requires a queue that can mark.
        let marks = matches!(
            link.queue.discipline,
            Discipline::CoDel(_) | Discipline::Red(_) | Discipline::Pie(_) | Discipline::DualPi2(_)
        );
        match self.of("ecn").filter(|_| !marks) {
            Some(ecn) => Err(ecn.needs(direction, "a queue that marks: --aqm codel, red, pie or dualpi2")),
            None => Ok(link),
        }
    }

    /// Applies the limit of the queue; `rtt` is needed for a multiple of the bandwidth-delay product.
    pub(super) fn limit(&self, direction: Direction, link: &mut LinkConfig, rtt: Span) -> Result<(), SpecError> {
        let Some(given) = self.of("queue") else { return Ok(()) };
        let limit = limit(&given.text).map_err(|error| SpecError::value(&given.name, &error))?;
        let rate = match &link.rate {
            LinkRate::Constant(rate) => *rate,
            LinkRate::Trace(trace) => trace.mean_rate(),
            LinkRate::Unlimited if limit == LimitSpec::Limit(Limit::Infinite) => Rate::MAX,
            LinkRate::Unlimited => {
                return Err(given.needs(direction, "--rate or --trace: without a rate nothing ever waits"));
            }
        };
        link.queue.limit = match limit {
            LimitSpec::Limit(limit) => limit,
            LimitSpec::Bdp(times) => match rate.bytes_in(rtt).mul_f64(times).0 {
                0 => return Err(given.needs(direction, "a delay: --rtt or --delay; the product of rate and RTT is 0")),
                bytes => Limit::Bytes(bytes),
            },
        };
        Ok(())
    }
}

impl Given {
    fn needs(&self, direction: Direction, needs: &str) -> SpecError {
        SpecError(format!("{}: --{} needs {needs}", direction.name(), self.name))
    }
}

fn parts<'a>(
    text: &'a str,
    counts: core::ops::RangeInclusive<usize>,
    form: &'static str,
) -> Result<Vec<&'a str>, ValueError> {
    let parts: Vec<_> = text.split(',').map(str::trim).collect();
    if counts.contains(&parts.len()) { Ok(parts) } else { Err(ValueError::parts(text, form)) }
}

fn limit(text: &str) -> Result<LimitSpec, ValueError> {
    const EXAMPLE: &str = "write it as 1000p, 150kB, 1bdp or infinite";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let not_a_limit = || ValueError::not_a("queue limit", text, EXAMPLE);
    match text.strip_prefix(digits).unwrap_or("") {
        "infinite" if digits.is_empty() => Ok(LimitSpec::Limit(Limit::Infinite)),
        "p" => digits.parse().map(|packets| LimitSpec::Limit(Limit::Packets(packets))).map_err(|_| not_a_limit()),
        "bdp" => match digits.parse::<f64>() {
            Ok(times) if times > MOST_BDP && times.is_finite() => {
                Err(ValueError::too_large(text, "a million bdp; write infinite"))
            }
            Ok(times) if times > 0.0 && times.is_finite() => Ok(LimitSpec::Bdp(times)),
            _ => Err(not_a_limit()),
        },
        "" if !digits.is_empty() => Err(ValueError::no_unit(text, EXAMPLE)),
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
        "peach" => Discipline::Threshold(1),
        "codel" => Discipline::CoDel(Default::default()),
        "red" => Discipline::Red(Default::default()),
        "pie" => Discipline::Pie(Default::default()),
        "dualpi2" => Discipline::DualPi2(Default::default()),
        _ => {
            let words = "droptail, drophead, priority, rc3, peach, codel, red or red:MIN,MAX, pie and dualpi2";
            return Err(ValueError::unknown(text, words));
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
            let bytes = u32::try_from(value::size(text)?);
            Overhead::Bytes(bytes.map_err(|_| ValueError::too_large(text, "the size of any packet"))?)
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
        return Err(ValueError::too_small(parts[0], "68B, which every IP link carries (RFC 791)"));
    }
    Ok(Mtu { from: Time::ZERO + from, size })
}

fn bleaching(text: &str) -> Result<Bleaching, ValueError> {
    match text {
        "ecn" => Ok(Bleaching { ecn: true, dscp: false }),
        "dscp" => Ok(Bleaching { ecn: false, dscp: true }),
        "both" => Ok(Bleaching { ecn: true, dscp: true }),
        _ => Err(ValueError::unknown(text, "ecn, dscp and both")),
    }
}

fn outage(text: &str) -> Result<Outage, ValueError> {
    let parts = parts(text, 2..=3, "a start and a duration, and optionally hold, as in 10s,500ms")?;
    let kind = match parts.get(2) {
        None => OutageKind::Lose,
        Some(&"hold") => OutageKind::Hold,
        Some(word) => return Err(ValueError::unknown(word, "hold")),
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

fn phase(text: &str) -> Result<Phase, ValueError> {
    let form = "a duration and a delay, and optionally a loss and an interval, as in 80ms,20ms,1%,5ms";
    let parts = parts(text, 2..=4, form)?;
    Ok(Phase {
        lasts: value::span(parts[0])?,
        delay: value::span(parts[1])?,
        loss: parts.get(2).map_or(Ok(0.0), |part| value::share(part))?,
        interval: parts.get(3).map_or(Ok(Span::ZERO), |part| value::span(part))?,
    })
}
