//! Named links.

use std::fmt::Write;

use crate::spec::LinkOptions;
use crate::topology::Duplex;

/// A named link.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub title: &'static str,
    /// Options of the link.
    options: &'static str,
    /// Whether the link alternates between the satellites of [`LEO`] every 15 s.
    alternates: bool,
}

/// Number of LEO handovers in the schedule, which lasts one hour.
const LEO_HANDOVERS: usize = 240;
/// Rate and RTT up and down, over a near and a far satellite.
const LEO: [[&str; 2]; 2] = [["20mbit,20ms", "100mbit,20ms"], ["8mbit,60ms", "40mbit,60ms"]];

/// Options of the testbed of NASA TM-2004-212938 in addition to rate and RTT. Packets are Ethernet frames, because the
/// report's packet pairs are 1538 bytes apart.
macro_rules! nasa {
    ($rate:literal, $rtt:literal, $title:literal) => {
        row(
            concat!("nasa-", $rate, "-", $rtt),
            concat!("NASA's testbed, ", $title),
            concat!("--rate ", $rate, " --rtt ", $rtt, " --overhead ethernet --queue 1000p"),
        )
    };
}

const ALL: [Scenario; 11] = [
    nasa!("20mbit", "500ms", "20 Mb/s, RTT 500 ms"),
    nasa!("20mbit", "100ms", "20 Mb/s, RTT 100 ms"),
    nasa!("5mbit", "500ms", "5 Mb/s, RTT 500 ms"),
    nasa!("5mbit", "100ms", "5 Mb/s, RTT 100 ms"),
    nasa!("500kbit", "500ms", "0.5 Mb/s, RTT 500 ms"),
    nasa!("500kbit", "100ms", "0.5 Mb/s, RTT 100 ms"),
    row("oc3", "155 Mb/s, RTT 65 ms, queue of one BDP (1.26 MB)", "--rate 155mbit --rtt 65ms --queue 1259375B"),
    row(
        "shallow",
        "80 Mb/s, RTT 133 ms, queue of 150 kB: a ninth of the BDP",
        "--rate 80mbit --rtt 133ms --queue 150kB",
    ),
    // draft-irtf-iccrg-tcpeval-01, section 4. 100 ms at 40 Mb/s and 1 s at 4 Mb/s are both 500 kB.
    row(
        "geo",
        "GEO satellite, 40 Mb/s down, 4 Mb/s up, RTT 600 ms",
        "--rate-up 4mbit --rate-down 40mbit --rtt 600ms --queue 500kB",
    ),
    row("transoceanic", "1 Gb/s, RTT 130 ms, queue of 100 ms (12.5 MB)", "--rate 1gbit --rtt 130ms --queue 12500kB"),
    // The queue holds 100 ms at the near satellite's rate.
    Scenario {
        alternates: true,
        ..row(
            "leo",
            "LEO satellite, each 15 s between 100/20 Mb/s at RTT 20 ms and 40/8 Mb/s at RTT 60 ms",
            "--rate-up 20mbit --rate-down 100mbit --rtt 20ms --queue-up 250kB --queue-down 1250kB",
        )
    },
];

const fn row(name: &'static str, title: &'static str, options: &'static str) -> Scenario {
    Scenario { name, title, options, alternates: false }
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
        let mut text = self.options.to_owned();
        for number in 1..=if self.alternates { LEO_HANDOVERS } else { 0 } {
            let (at, satellite) = (15 * number, LEO[number % 2]);
            let _ = write!(text, " --step-up {at}s,{} --step-down {at}s,{}", satellite[0], satellite[1]);
        }
        let mut options = LinkOptions::new();
        let words: Vec<&str> = text.split(' ').collect();
        let built = options.read(&words).and_then(|_| options.build(|file| Err(file.to_owned())));
        built.map(|path| path.link).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Rate, Span, Time};

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
