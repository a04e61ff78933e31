//! Named links.

use longhaul_units::{Rate, Span, Time};

use crate::config::{LinkConfig, Step};
use crate::overhead::Overhead;
use crate::queue::Limit;
use crate::topology::Duplex;

/// A named link.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub title: &'static str,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The testbed of NASA TM-2004-212938: rate in bit/s, RTT in ms. Packets are Ethernet frames, because the
    /// report's packet pairs are 1538 bytes apart. The queue is deep.
    Nasa(u64, u64),
    /// A link that is the same in both directions: rate in bit/s, RTT in ms, queue in bytes.
    Even(u64, u64, u64),
    /// GEO satellite of draft-irtf-iccrg-tcpeval-01, section 4: 40 Mb/s down, 4 Mb/s up, 300 ms one way, and buffers
    /// of 100 ms down and 1000 ms up.
    Geo,
    /// A LEO satellite link that alternates every 15 s between a near and a far satellite.
    Leo,
}

/// Number of LEO handovers: one hour of them.
const LEO_HANDOVERS: u64 = 240;

const ALL: [Scenario; 11] = [
    row("nasa-20mbit-500ms", "NASA's testbed, 20 Mb/s, RTT 500 ms", Shape::Nasa(20_000_000, 500)),
    row("nasa-20mbit-100ms", "NASA's testbed, 20 Mb/s, RTT 100 ms", Shape::Nasa(20_000_000, 100)),
    row("nasa-5mbit-500ms", "NASA's testbed, 5 Mb/s, RTT 500 ms", Shape::Nasa(5_000_000, 500)),
    row("nasa-5mbit-100ms", "NASA's testbed, 5 Mb/s, RTT 100 ms", Shape::Nasa(5_000_000, 100)),
    row("nasa-500kbit-500ms", "NASA's testbed, 0.5 Mb/s, RTT 500 ms", Shape::Nasa(500_000, 500)),
    row("nasa-500kbit-100ms", "NASA's testbed, 0.5 Mb/s, RTT 100 ms", Shape::Nasa(500_000, 100)),
    row("oc3", "155 Mb/s, RTT 65 ms, queue of one BDP (1.26 MB)", Shape::Even(155_000_000, 65, 1_259_375)),
    row("shallow", "80 Mb/s, RTT 133 ms, queue of 150 kB: a ninth of the BDP", Shape::Even(80_000_000, 133, 150_000)),
    row("geo", "GEO satellite, 40 Mb/s down, 4 Mb/s up, RTT 600 ms", Shape::Geo),
    row("transoceanic", "1 Gb/s, RTT 130 ms, queue of 100 ms (12.5 MB)", Shape::Even(1_000_000_000, 130, 12_500_000)),
    row("leo", "LEO satellite, each 15 s between 100/20 Mb/s at RTT 20 ms and 40/8 Mb/s at RTT 60 ms", Shape::Leo),
];

const fn row(name: &'static str, title: &'static str, shape: Shape) -> Scenario {
    Scenario { name, title, shape }
}

/// Returns all scenarios.
pub const fn all() -> &'static [Scenario] {
    &ALL
}

/// Returns the scenario with this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Returns the link: `there` is the uplink from the user, `back` the downlink.
    pub fn link(&self) -> Duplex {
        match self.shape {
            Shape::Nasa(bits, rtt_millis) => {
                let link = link(bits, rtt_millis).overhead(Overhead::Ethernet).queue(Limit::Packets(1000));
                Duplex::symmetric(link)
            }
            Shape::Even(bits, rtt_millis, queue) => {
                Duplex::symmetric(link(bits, rtt_millis).queue(Limit::Bytes(queue)))
            }
            // 100 ms at 40 Mb/s and 1 s at 4 Mb/s are both 500 kB.
            Shape::Geo => Duplex {
                there: link(4_000_000, 600).queue(Limit::Bytes(500_000)),
                back: link(40_000_000, 600).queue(Limit::Bytes(500_000)),
            },
            Shape::Leo => Duplex { there: leo([20_000_000, 8_000_000]), back: leo([100_000_000, 40_000_000]) },
        }
    }
}

fn link(bits: u64, rtt_millis: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_sec(bits), Span::from_micros(rtt_millis * 500))
}

/// Alternates between the near and the far satellite, with RTTs of 20 ms and 60 ms. The queue holds 100 ms at the
/// near rate.
fn leo(bits: [u64; 2]) -> LinkConfig {
    let place = |number: u64| [(bits[0], 20), (bits[1], 60)][number as usize % 2];
    let step = |number: u64| {
        let (bits, rtt_millis) = place(number);
        let next = link(bits, rtt_millis);
        let at = Time::ZERO + Span::from_secs(15 * number);
        Step { at, rate: Some(Rate::from_bits_per_sec(bits)), delay: Some(next.delay) }
    };
    let first = link(bits[0], 20).queue(Limit::Bytes(bits[0] / 80));
    LinkConfig { steps: (1..=LEO_HANDOVERS).map(step).collect(), ..first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LinkRate;
    use crate::link::Link;

    #[test]
    fn scenarios_are_valid_and_have_unique_names() {
        for scenario in all() {
            let Duplex { there, back } = scenario.link();
            for direction in [there, back] {
                assert_eq!(direction.validate(), Ok(()), "{}", scenario.name);
            }
            assert_eq!(find(scenario.name).map(|found| found.title), Some(scenario.title));
        }
        assert!(find("moon").is_none());
    }

    #[test]
    fn nasas_packets_are_as_far_apart_as_it_measured() {
        // Two packets of 1538 bytes take 1.230, 4.922 and 49.216 ms at 20, 5 and 0.5 Mb/s.
        for (name, micros) in
            [("nasa-20mbit-500ms", 1_230), ("nasa-5mbit-100ms", 4_921), ("nasa-500kbit-500ms", 49_216)]
        {
            let mut link = Link::new(find(name).unwrap().link().there, 1, 0).unwrap();
            (0..3).for_each(|n| assert!(link.offer(Time::ZERO, crate::Packet::new(1500, n))));
            let times: Vec<_> = (0..3).map(|_| link.poll(Time::MAX).unwrap().0).collect();
            assert_eq!((times[2] - times[0]).as_micros(), micros);
        }
    }

    #[test]
    fn the_low_orbit_hands_over_each_quarter_of_a_minute() {
        let Duplex { there, back } = find("leo").unwrap().link();
        assert_eq!(back.rate, LinkRate::Constant(Rate::from_bits_per_sec(100_000_000)));
        let [first, second] = [back.steps[0], back.steps[1]];
        assert_eq!((first.at, first.delay), (Time::ZERO + Span::from_secs(15), Some(Span::from_millis(30))));
        assert_eq!((second.at, second.delay), (Time::ZERO + Span::from_secs(30), Some(Span::from_millis(10))));
        assert_eq!(there.steps[238].rate, Some(Rate::from_bits_per_sec(8_000_000)));
    }
}
