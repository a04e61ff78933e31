//! Limits that a server imposes on its clients.

use std::time::Duration;

use super::protocol::{Params, Protocol};
use super::units::{Scale, parse_rate, rate};

/// Maximum rate in bit/s of all UDP streams of one direction together, unless `--max-rate` is given.
const UDP_RATE: u64 = 100_000_000;
/// Maximum number of bytes of the windows of all streams in total.
const WINDOWS: u64 = 1 << 30;

/// A server's limits on a test; tests run one at a time.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Of the server only")]
pub(crate) struct Limits {
    /// Refuse tests of more than this many bits per second per direction, over all streams, with a suffix K, M, G (of
    /// 1000); 0 is no limit [default: 100M for UDP, which has no congestion control; none for TCP]
    #[arg(long, visible_alias = "server-bitrate-limit", value_name = "RATE", conflicts_with = "client",
        value_parser = parse_rate)]
    max_rate: Option<u64>,
    /// Refuse tests longer than this many seconds, and end those without a duration after that time; 0 is no limit
    #[arg(
        long,
        visible_alias = "server-max-duration",
        value_name = "SECONDS",
        default_value_t = 3600,
        conflicts_with = "client"
    )]
    max_time: u32,
    /// Refuse tests with more streams than this, over both directions
    #[arg(long, value_name = "N", default_value_t = 128, conflicts_with = "client",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    max_streams: u16,
}

impl Limits {
    /// Returns the maximum duration of a test.
    pub(crate) fn time(&self) -> Option<Duration> {
        (self.max_time > 0).then(|| Duration::from_secs(self.max_time.into()))
    }

    /// Checks that a test is within the limits.
    pub(crate) fn check(&self, params: &Params) -> Result<(), String> {
        let streams = params.client_sends().len();
        if streams > usize::from(self.max_streams) {
            return Err(format!("the server allows {} streams (--max-streams)", self.max_streams));
        }
        let seconds = params.seconds + f64::from(params.omit);
        if self.max_time > 0 && params.bytes.is_none() && seconds > f64::from(self.max_time) {
            return Err(format!("the server allows {} s (--max-time)", self.max_time));
        }
        let most = match (self.max_rate, params.protocol) {
            (Some(most), _) => most,
            (None, Protocol::Udp) => UDP_RATE,
            (None, Protocol::Tcp) => 0,
        };
        let asked = params.rate.saturating_mul(params.streams.into());
        if most > 0 && (asked > most || params.rate == 0) {
            let most = rate(most as f64, Scale::Adaptive);
            return Err(format!("the server allows {} in all: -b (--max-rate)", most.trim()));
        }
        let windows = u64::from(params.window.unwrap_or(0)).saturating_mul(streams as u64);
        if windows > WINDOWS { Err("the server allows windows of 1G in all: -w".to_owned()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::protocol::Direction;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[arg(long)]
        client: bool,
        #[command(flatten)]
        limits: Limits,
    }

    fn refusal(limits: &str, params: Params) -> Option<String> {
        let words = std::iter::once("perf").chain(limits.split_whitespace());
        Line::parse_from(words).limits.check(&params).err()
    }

    #[test]
    fn a_server_has_limits_without_being_told() {
        let tcp = Params::default();
        let udp = Params { protocol: Protocol::Udp, rate: 100_000_000, length: 1400, ..tcp.clone() };
        assert_eq!(refusal("", tcp.clone()), None);
        assert_eq!(refusal("", udp.clone()), None);
        for (params, limit) in [
            (Params { rate: 100_000_001, ..udp.clone() }, "--max-rate"),
            (Params { rate: 60_000_000, streams: 2, ..udp.clone() }, "--max-rate"),
            (Params { rate: 0, ..udp.clone() }, "--max-rate"),
            (Params { seconds: 3600.5, ..tcp.clone() }, "--max-time"),
            (Params { seconds: 3600.0, omit: 1, ..tcp.clone() }, "--max-time"),
            (Params { streams: 65, direction: Direction::Both, ..tcp.clone() }, "--max-streams"),
            (Params { streams: 5, window: Some(1 << 28), ..tcp.clone() }, "-w"),
        ] {
            assert!(refusal("", params.clone()).is_some_and(|said| said.contains(limit)), "{params:?}");
        }
        // The server's limit ends a test without a duration.
        assert_eq!(refusal("", Params { seconds: 0.0, ..tcp.clone() }), None);
        assert_eq!(refusal("--max-rate 0 --max-time 0", Params { rate: 0, seconds: 9e4, ..udp.clone() }), None);
        assert!(refusal("--server-bitrate-limit 1M", tcp.clone()).is_some());
        assert_eq!(refusal("--max-rate 1M", Params { rate: 1_000_000, ..tcp }), None);
    }
}
