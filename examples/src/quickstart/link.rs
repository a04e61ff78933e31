//! `--link`: the network between the two ends.

use std::time::Duration;

use longhaul_link::spec::{LinkOptions, Path};
use longhaul_link::topology::Duplex;
use longhaul_link::{Link, LinkConfig, LinkRate, Packet, scenario};
use longhaul_units::{Span, Time};

/// Payload of a full segment in bytes, and the size of its IP packet, with timestamps over UDP and IPv4.
const PAYLOAD: u64 = 1448;
const PACKET: u32 = PAYLOAD as u32 + 24 + 28;

/// Time that the default amount of data takes at the link's full rate, in quarters of a second.
const QUARTERS: u64 = 16;
/// Minimum and maximum of the default amount of data, in bytes.
const SIZES: [u64; 2] = [64 << 10, 256 << 20];

/// Value of `--link`.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Print the names of the scenarios.
    List,
    /// No link: the loopback interface alone.
    Loopback,
    /// An emulated link.
    Emulated(Box<Emulated>),
}

/// An emulated link over which the data is sent.
#[derive(Clone, Debug)]
pub struct Emulated {
    /// The option's text.
    pub text: String,
    /// Link with its directions exchanged: the sender is the client of the relay, so `there` is the direction that the
    /// options call down.
    pub(super) path: Path,
}

/// Parses the name of a scenario, options of a link, or a name followed by options; also `none` and `list`.
///
/// # Errors
/// Returns a sentence that says what is invalid, and what to write instead.
pub fn parse(text: &str) -> Result<Choice, String> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words.as_slice() {
        [] => {
            Err("it is empty; write a scenario such as geo, options such as --rate 20mbit --rtt 500ms, or none".into())
        }
        ["list"] => Ok(Choice::List),
        ["none"] => Ok(Choice::Loopback),
        words => {
            let path = read(words)?;
            let link = Duplex { there: path.link.back, back: path.link.there };
            Ok(Choice::Emulated(Box::new(Emulated { text: words.join(" "), path: Path { link, ..path } })))
        }
    }
}

fn read(words: &[&str]) -> Result<Path, String> {
    let mut options = LinkOptions::new();
    let (name, rest) = match words {
        [name, rest @ ..] if !name.starts_with("--") => (Some(*name), rest),
        rest => (None, rest),
    };
    let told = |error: longhaul_link::spec::SpecError| error.to_string();
    if let Some(name) = name {
        options.set("scenario", Some(name)).map_err(told)?;
    }
    let count = options.read(rest).map_err(told)?;
    if let Some(word) = rest.get(count) {
        return Err(match word.strip_prefix("--") {
            // `set` fails if the option is unknown or incomplete. If it succeeds, the option is valid but in the wrong
            // place.
            Some(name) => options.set(name, None).err().map_or_else(|| format!("{word} is misplaced"), told),
            None => format!("{word:?} does not belong to any option; write a name, and then options with their values"),
        });
    }
    options.build(|file| std::fs::read_to_string(file).map_err(|error| error.to_string())).map_err(told)
}

/// Returns the names of the scenarios with their titles, one per line.
#[must_use]
pub fn list() -> String {
    let width = scenario::all().iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    scenario::all().iter().map(|scenario| format!("{:width$}  {}\n", scenario.name, scenario.title)).collect()
}

impl Emulated {
    /// Returns the size in bytes of data that takes about four seconds at the link's initial rate.
    #[must_use]
    pub fn size(&self) -> u64 {
        let [least, most] = SIZES;
        let rate = match &self.path.link.there.rate {
            LinkRate::Unlimited => return most,
            LinkRate::Constant(rate) => rate.as_bytes_per_sec(),
            LinkRate::Trace(_) => {
                let second = self.least_time(SIZES[0]).sending.as_secs_f64();
                (SIZES[0] as f64 / second.max(1e-3)) as u64
            }
        };
        (rate / 4).saturating_mul(QUARTERS).clamp(least, most)
    }

    /// Returns the minimum time in which any transport can deliver `size` bytes.
    #[must_use]
    pub fn least_time(&self, size: u64) -> Least {
        let Duplex { there, back } = &self.path.link;
        let handshake = there.delay + back.delay;
        let done = ideal(there, Time::ZERO + handshake, size);
        let sending = done.map_or(Span::ZERO, |done| done.since(Time::ZERO) - handshake - there.delay);
        let all = handshake + there.delay + sending;
        Least { all: Duration::from_nanos(all.as_nanos()), sending: Duration::from_nanos(sending.as_nanos()) }
    }
}

/// Physical lower bound of a transfer's duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Total time: handshake, transmission, and one-way delay.
    pub all: Duration,
    /// Time from sending the first bit to sending the last; zero if the rate is unlimited.
    pub sending: Duration,
}

/// Returns when the last of `size` bytes arrives, if all of them are offered at `at` to a lossless link of the same
/// rate and delay.
fn ideal(link: &LinkConfig, at: Time, size: u64) -> Option<Time> {
    let ideal = LinkConfig {
        rate: link.rate.clone(),
        delay: link.delay,
        overhead: link.overhead,
        steps: link.steps.clone(),
        ..LinkConfig::default()
    };
    let mut link = Link::new(ideal, 0, 0).ok()?;
    let headers = PACKET - PAYLOAD as u32;
    let full = (0..size / PAYLOAD).map(|_| PACKET);
    let last = Some((size % PAYLOAD) as u32).filter(|rest| *rest > 0).map(|rest| rest + headers);
    for packet in full.chain(last) {
        // The queue of this link is unlimited, so `offer` drops nothing.
        let _ = link.offer(at, Packet::new(packet, 0));
    }
    std::iter::from_fn(|| link.poll(Time::MAX)).last().map(|(arrived, _)| arrived)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulated(text: &str) -> Emulated {
        match parse(text).unwrap() {
            Choice::Emulated(link) => *link,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_data_comes_down_a_link_of_a_name_and_options() {
        let link = emulated("geo --loss-down 0.1% --seed 7");
        let geo = scenario::find("geo").unwrap().link();
        assert_eq!(link.path.link.there, geo.back.loss(longhaul_link::Loss::Uniform(0.001)));
        assert_eq!((&link.path.link.back, link.path.seed), (&geo.there, 7));
        // 40 Mbit/s for 4 s.
        assert_eq!(link.size(), 20_000_000);
        assert!(matches!(parse("none"), Ok(Choice::Loopback)) && matches!(parse("list"), Ok(Choice::List)));
        assert_eq!(emulated("--rtt 1s").size(), SIZES[1]);
        assert_eq!(emulated("--rate 8kbit").size(), SIZES[0]);
    }

    #[test]
    fn invalid_links_are_reported() {
        for (text, told) in [
            ("moon", "there is no scenario \"moon\"; the scenarios are nasa-20mbit-500ms"),
            ("geo 5", "\"5\" does not belong to any option"),
            ("geo --speed 5", "there is no option --speed"),
            ("--rate", "--rate needs a value"),
            ("--rate 0mbit", "the rate is 0"),
            ("--trace /no/such/file", "/no/such/file"),
            (" ", "it is empty"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    /// The lower bound is the sum of handshake, one-way delay, and size divided by the rate.
    #[test]
    fn the_limit_is_that_of_physics() {
        // 1000 full packets of 1500 bytes take 300 us each at 40 Mbit/s. The last packet, of 10 + 52 bytes, takes 12.4
        // us.
        let least = emulated("geo").least_time(1_448_010);
        assert_eq!(least.sending, Duration::from_nanos(300_012_400));
        assert_eq!(least.all, Duration::from_millis(900) + least.sending);
        assert_eq!(emulated("--rtt 1s").least_time(1 << 20).all, Duration::from_millis(1500));
        // The rate is halved at 2 s. Half of the data was sent by then, and the rest takes twice as long.
        let slower = emulated("--rate 12mbit --rtt 1s --step 2s,6mbit,-");
        assert_eq!(slower.least_time(2000 * 1448).sending, Duration::from_secs(3));
    }
}
