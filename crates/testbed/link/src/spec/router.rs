//! Routers described as text: `rcp(gamma=0.95,interval=5ms)`.

use super::value::{self, ValueError};
use crate::router::{QuickStartConfig, RcpConfig, RouterConfig, XcpConfig};

const FORM: &str = "options as in rcp(gamma=0.95,interval=5ms), each of them once";

/// Parses a router; returns `None` for the text `none`.
pub(super) fn router(text: &str) -> Result<Option<RouterConfig>, ValueError> {
    let (name, options) = match text.split_once('(') {
        None => (text, ""),
        Some((name, rest)) => {
            (name, rest.strip_suffix(')').ok_or_else(|| ValueError::Parts { text: text.into(), form: FORM })?)
        }
    };
    Ok(Some(match name {
        "none" if options.is_empty() => return Ok(None),
        "quick-start" => RouterConfig::QuickStart(read(options, set_quick_start)?),
        "rcp" => RouterConfig::Rcp(read(options, set_rcp)?),
        "xcp" => RouterConfig::Xcp(read(options, set_xcp)?),
        _ => return Err(ValueError::UnknownWord { text: name.into(), words: "quick-start, rcp, xcp and none" }),
    }))
}

fn read<C: Default>(
    options: &str,
    mut set: impl FnMut(&mut C, &str, &str) -> Result<(), ValueError>,
) -> Result<C, ValueError> {
    let mut config = C::default();
    let mut names = Vec::new();
    for option in options.split(',').map(str::trim).filter(|_| !options.is_empty()) {
        let wrong = || ValueError::Parts { text: option.into(), form: FORM };
        let (name, value) = option.split_once('=').ok_or_else(wrong)?;
        if names.contains(&name) {
            return Err(wrong());
        }
        names.push(name);
        set(&mut config, name, value)?;
    }
    Ok(config)
}

fn set_quick_start(config: &mut QuickStartConfig, name: &str, value: &str) -> Result<(), ValueError> {
    match name {
        "threshold" => config.threshold = value::share(value)?,
        "slot" => config.slot = value::span(value)?,
        "slots" => config.slots = value::whole(value, "number of slots")?,
        "interval" => config.interval = value::span(value)?,
        "intervals" => config.intervals = value::whole(value, "number of intervals")?,
        _ => return Err(unknown(name, "threshold, slot, slots, interval and intervals")),
    }
    Ok(())
}

fn set_rcp(config: &mut RcpConfig, name: &str, value: &str) -> Result<(), ValueError> {
    match name {
        "alpha" => config.alpha = value::number(value)?,
        "beta" => config.beta = value::number(value)?,
        "gamma" => config.gamma = value::number(value)?,
        "interval" => config.interval = value::span(value)?,
        "first-rate" => config.first_rate = value::share(value)?,
        "first-rtt" => config.first_rtt = value::span(value)?,
        "least" => config.least = value::number(value)?,
        "rtt-max" => config.rtt_max = value::span(value)?,
        _ => return Err(unknown(name, "alpha, beta, gamma, interval, first-rate, first-rtt, least and rtt-max")),
    }
    Ok(())
}

fn set_xcp(config: &mut XcpConfig, name: &str, value: &str) -> Result<(), ValueError> {
    match name {
        "alpha" => config.alpha = value::number(value)?,
        "beta" => config.beta = value::number(value)?,
        "shuffle" => config.shuffle = value::share(value)?,
        "first-interval" => config.first_interval = value::span(value)?,
        "least-interval" => config.least_interval = value::span(value)?,
        "least-queue-interval" => config.least_queue_interval = value::span(value)?,
        "rtt-max" => config.rtt_max = value::span(value)?,
        _ => {
            let words = "alpha, beta, shuffle, first-interval, least-interval, least-queue-interval and rtt-max";
            return Err(unknown(name, words));
        }
    }
    Ok(())
}

fn unknown(name: &str, words: &'static str) -> ValueError {
    ValueError::UnknownWord { text: name.into(), words }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Span;

    use super::*;

    #[test]
    fn routers_have_names_and_options() {
        assert_eq!(router("none"), Ok(None));
        assert_eq!(router("quick-start"), Ok(Some(RouterConfig::QuickStart(QuickStartConfig::default()))));
        assert_eq!(router("xcp()"), Ok(Some(RouterConfig::Xcp(XcpConfig::default()))));
        let rcp = RcpConfig { gamma: 0.95, interval: Span::from_millis(5), ..RcpConfig::default() };
        assert_eq!(router("rcp(gamma=0.95, interval=5ms)"), Ok(Some(RouterConfig::Rcp(rcp))));
    }

    #[test]
    fn every_option_is_read_into_its_own_place() {
        let ms = Span::from_millis;
        let quick_start = QuickStartConfig { threshold: 0.5, slot: ms(1), slots: 2, interval: ms(3), intervals: 4 };
        assert_eq!(
            router("quick-start(threshold=50%,slot=1ms,slots=2,interval=3ms,intervals=4)"),
            Ok(Some(RouterConfig::QuickStart(quick_start)))
        );
        let rcp = RcpConfig {
            alpha: 0.1,
            beta: 0.2,
            gamma: 0.3,
            interval: ms(4),
            first_rate: 0.5,
            first_rtt: ms(6),
            least: 0.7,
            rtt_max: ms(8),
        };
        assert_eq!(
            router("rcp(alpha=0.1,beta=0.2,gamma=0.3,interval=4ms,first-rate=50%,first-rtt=6ms,least=0.7,rtt-max=8ms)"),
            Ok(Some(RouterConfig::Rcp(rcp)))
        );
        let xcp = XcpConfig {
            alpha: 0.1,
            beta: 0.2,
            shuffle: 0.3,
            first_interval: ms(4),
            least_interval: ms(5),
            least_queue_interval: ms(6),
            rtt_max: ms(7),
        };
        let text = "xcp(alpha=0.1,beta=0.2,shuffle=30%,first-interval=4ms,least-interval=5ms,\
                    least-queue-interval=6ms,rtt-max=7ms)";
        assert_eq!(router(text), Ok(Some(RouterConfig::Xcp(xcp))));
    }

    #[test]
    fn faults_are_told_with_the_remedy() {
        let told = |text: &str| router(text).unwrap_err().to_string();
        assert_eq!(told("ospf"), "\"ospf\" is unknown; valid choices are quick-start, rcp, xcp and none");
        assert!(told("none(x=1)").contains("is unknown"));
        assert!(told("xcp(gamma=1)").starts_with("\"gamma\" is unknown; valid choices are alpha, beta, shuffle,"));
        assert!(
            told("rcp(delta=1)").contains("valid choices are alpha")
                && told("quick-start(n=1)").contains("valid choices are thr")
        );
        for text in ["rcp(gamma=1", "rcp(gamma)", "rcp(gamma=1,)", "rcp(gamma=1,gamma=1)"] {
            assert!(told(text).contains("should be options as in rcp(gamma=0.95,interval=5ms)"), "{text}");
        }
        assert!(
            told("rcp(gamma=much)").contains("\"much\" is not a number")
                && told("xcp(alpha=NaN)").contains("not a number")
        );
        assert!(told("quick-start(slots=-1)").contains("whole number"));
        assert!(told("rcp(interval=5)").contains("no unit"));
    }
}
