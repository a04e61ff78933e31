//! The emulated links: those of the experiment `peers`, and a LAN similar to Wi-Fi.

use longhaul_link::{Limit, LinkConfig, Loss, Phase};
use longhaul_units::{Rate, Span};

/// A link in both directions, and the duration of a flow on it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) up: LinkConfig,
    pub(crate) down: LinkConfig,
    pub(crate) lasts: Span,
}

impl Place {
    pub(crate) fn new(name: &'static str, megabits: u64, rtt: u64, queue: Option<u64>, loss: f64, secs: u64) -> Self {
        let (rate, rtt) = (Rate::from_bits_per_sec(megabits * 1_000_000), Span::from_millis(rtt));
        let limit = Limit::Bytes(queue.unwrap_or(rate.bytes_in(rtt).0));
        let down = LinkConfig::new(rate, rtt / 2).queue(limit);
        let up = if loss > 0.0 { down.clone().loss(Loss::Uniform(loss)) } else { down.clone() };
        Self { name, up, down, lasts: Span::from_secs(secs) }
    }

    /// 600 Mb/s and 3 ms. Frames, including those with ACKs, are sent in bursts every 2 to 8 ms.
    fn wifi() -> Self {
        let mut place = Self::new("600 Mb/s, 3 ms, Wi-Fi", 600, 3, Some(2_000_000), 0.0, 10);
        let phase = |lasts, interval| {
            let (lasts, interval) = (Span::from_millis(lasts), Span::from_millis(interval));
            Phase { lasts, interval, delay: Span::ZERO, loss: 0.0 }
        };
        place.up.cycle = vec![phase(40, 2), phase(24, 8), phase(60, 4), phase(42, 6)];
        place.down.cycle = vec![phase(60, 4), phase(40, 2), phase(24, 8)];
        place
    }
}

pub(crate) fn all() -> Vec<Place> {
    vec![
        Place::new("155 Mb/s, 65 ms", 155, 65, None, 0.0, 20),
        Place::new("0.1 % lost", 155, 65, None, 0.001, 40),
        Place::new("0.5 %", 155, 65, None, 0.005, 40),
        Place::new("100 Mb/s, 133 ms, 150 kB, 0.005 %", 100, 133, Some(150_000), 0.00005, 30),
        Place::new("20 Mb/s, 500 ms, 0.1 %", 20, 500, None, 0.001, 60),
        Place::wifi(),
    ]
}
