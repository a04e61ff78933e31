//! Routers described as text: `rcp(gamma=0.95,interval=5ms)`.

use super::value::ValueError;
use crate::parameters::TextForm;
use crate::router::RouterConfig;

const FORM: &str = "options as in rcp(gamma=0.95,interval=5ms), each of them once";

/// Parses a router; returns `None` for the text `none`.
pub(super) fn router(text: &str) -> Result<Option<RouterConfig>, ValueError> {
    let (name, options) = match text.split_once('(') {
        None => (text, ""),
        Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(|| ValueError::parts(text, FORM))?),
    };
    Ok(Some(match name {
        "none" if options.is_empty() => return Ok(None),
        "quick-start" => RouterConfig::QuickStart(read(options)?),
        "rcp" => RouterConfig::Rcp(read(options)?),
        "xcp" => RouterConfig::Xcp(read(options)?),
        _ => return Err(ValueError::unknown(name, "quick-start, rcp, xcp and none")),
    }))
}

fn read<C: TextForm>(options: &str) -> Result<C, ValueError> {
    let mut config = C::default();
    let known = C::names();
    let mut given = Vec::new();
    for option in options.split(',').map(str::trim).filter(|_| !options.is_empty()) {
        let wrong = || ValueError::parts(option, FORM);
        let (name, value) = option.split_once('=').ok_or_else(wrong)?;
        if given.contains(&name) {
            return Err(wrong());
        }
        if !known.iter().any(|known| known == name) {
            let (last, others) = known.split_last().ok_or_else(wrong)?;
            return Err(ValueError::unknown(name, &format!("{} and {last}", others.join(", "))));
        }
        given.push(name);
        config.set(name, value)?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use longhaul_units::Span;

    use super::*;
    use crate::router::{QuickStartConfig, RcpConfig, XcpConfig};

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
