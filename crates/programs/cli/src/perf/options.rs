//! Command line, with iperf3's option letters.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::limits::Limits;
use super::protocol::{Direction, Params, Protocol};
use super::units::{Scale, parse_rate, parse_scale, parse_size};
use crate::address;
use crate::transport::TransportArgs;

/// Default block length over TCP in bytes, as in iperf3.
const TCP_LENGTH: u64 = 128 << 10;
/// Default UDP datagram length in bytes: the payload of an Ethernet frame after the IPv6 and UDP headers, with a
/// margin for options and tunnels. iperf3's default, 1460, would need fragmentation with IPv6.
const UDP_LENGTH: u64 = 1400;
/// Default UDP rate in bit/s, as in iperf3.
const UDP_RATE: u64 = 1_000_000;

/// Measures the throughput of a path, over longhaul or as plain UDP, with iperf3's options and report.
///
/// One end is the server and the other the client, which determines the test. Both ends must be this program: it does
/// not interoperate with iperf3.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "perf",
    version,
    disable_version_flag = true,
    after_help = "Examples:
  longhaul perf -s
  longhaul perf -c 192.0.2.7 -t 30 -C bbr
  longhaul perf -c 192.0.2.7 -R -J"
)]
pub struct Options {
    /// Run as the server
    #[arg(short, long, conflicts_with = "client")]
    pub(crate) server: bool,
    /// Run as the client of the server at HOST
    #[arg(short, long, value_name = "HOST")]
    pub(crate) client: Option<String>,
    /// The server's port; with 0 the server chooses one
    #[arg(short, long, default_value_t = 5201)]
    pub(crate) port: u16,
    /// The server's port for streams that cannot use the first: UDP, and TCP if the client requests other settings on
    /// the server's side. With several UDP streams, the first of a range of ports [default: any]
    #[arg(long, value_name = "PORT", conflicts_with = "client")]
    pub(crate) data_port: Option<u16>,
    /// Units of the report: Kbits, Mbits, Gbits, Tbits; capitals for bytes
    #[arg(short, long, value_name = "kmgtKMGT", value_parser = parse_scale)]
    pub(crate) format: Option<Scale>,
    /// Seconds between reports; 0 reports only at the end [default: 1; on a server, the client's]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds(0.1..=60.0))]
    pub(crate) interval: Option<f64>,
    /// Local address
    #[arg(short = 'B', long, value_name = "ADDRESS", value_parser = address::parse_host)]
    pub(crate) bind: Option<SocketAddr>,
    /// Also report processor use, congestion control and start-up scheme
    #[arg(short = 'V')]
    pub(crate) details: bool,
    /// Report in JSON
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
    /// Report in JSON, one object per line for each event
    #[arg(long, conflicts_with = "json")]
    pub(crate) json_stream: bool,
    /// Append the report to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) logfile: Option<PathBuf>,
    /// Fail if nothing arrives for this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 120_000, value_parser = clap::value_parser!(u64).range(100..=86_400_000))]
    pub(crate) rcv_timeout: u64,
    /// Run in the background
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub(crate) daemon: bool,
    /// Serve one client and exit, with an exit code for that test's outcome
    #[arg(short = '1', long, conflicts_with = "client")]
    pub(crate) one_off: bool,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6")]
    pub(crate) version4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    pub(crate) version6: bool,
    /// The server's limits.
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Stop trying to connect after this many milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "server", help_heading = "Of the client only",
        value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub(crate) connect_timeout: Option<u64>,
    #[command(flatten)]
    test: TestOptions,
    /// Options of every program that opens connections.
    #[command(flatten)]
    pub(crate) transport: TransportArgs,
}

/// Parameters of the test, which the client determines.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Of the client only")]
struct TestOptions {
    /// Use plain UDP instead of longhaul
    #[arg(short, long, conflicts_with_all = ["server", "congestion"])]
    udp: bool,
    /// Bits per second of each stream, with a suffix K, M, G [default: 1M for UDP, otherwise 0]
    ///
    /// 0 is unlimited. After a slash, the number of blocks sent as one burst. Suffixes are powers of 1000.
    #[arg(short, long, value_name = "RATE[/BURST]", conflicts_with = "server", value_parser = parse_bitrate)]
    bitrate: Option<(u64, u32)>,
    /// Send datagrams at exponentially distributed intervals instead of equal ones
    #[arg(long, conflicts_with = "server", requires = "udp")]
    poisson: bool,
    /// Seed of the random intervals
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "server", requires = "poisson")]
    seed: u64,
    /// Seconds to send, possibly with a fraction; 0 is until Ctrl-C
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10.0, conflicts_with_all = ["server", "bytes"],
        value_parser = seconds(0.01..=86_400.0))]
    time: f64,
    /// Bytes to send in each direction, over all streams, with a suffix K, M, G (of 1024), instead of a duration
    #[arg(short = 'n', long, value_name = "BYTES", conflicts_with = "server", value_parser = parse_bytes)]
    bytes: Option<u64>,
    /// Block length in bytes [default: 128K, or 1400 for UDP]
    #[arg(short, long, value_name = "BYTES", conflicts_with = "server", value_parser = parse_size)]
    length: Option<u64>,
    /// Number of parallel streams
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, conflicts_with = "server",
        value_parser = clap::value_parser!(u16).range(1..=128))]
    parallel: u16,
    /// The server sends the data
    #[arg(short = 'R', long, conflicts_with_all = ["server", "bidir"])]
    reverse: bool,
    /// Both ends send data
    #[arg(long, conflicts_with = "server")]
    bidir: bool,
    /// Bytes of the send buffer and of the receive window, which disables their automatic tuning
    #[arg(short, long, value_name = "BYTES", conflicts_with = "server", value_parser = parse_window)]
    window: Option<u32>,
    /// Seconds at the start that are excluded from the results; -t does not include them
    #[arg(short = 'O', long, value_name = "SECONDS", default_value_t = 0, conflicts_with = "server",
        value_parser = clap::value_parser!(u32).range(0..=600))]
    omit: u32,
    /// Maximum payload of a segment of the sender, including TCP options
    #[arg(short = 'M', long, value_name = "BYTES", conflicts_with_all = ["server", "udp"],
        value_parser = clap::value_parser!(u16).range(88..=9216))]
    set_mss: Option<u16>,
    /// The sender's IP type of service, as a decimal, octal (0..) or hexadecimal (0x..) number; the two ECN bits are
    /// set by the transport
    #[arg(short = 'S', long, value_name = "N", conflicts_with = "server", value_parser = parse_tos)]
    tos: Option<u8>,
    /// The sender's DSCP: a number from 0 to 63, or a name such as af11, cs1, ef, le
    #[arg(long, value_name = "DSCP", conflicts_with_all = ["server", "tos"], value_parser = parse_dscp)]
    dscp: Option<u8>,
    /// Also print the server's report
    #[arg(long, conflicts_with = "server")]
    get_server_output: bool,
    /// Disable the Nagle algorithm; it is always disabled
    #[arg(short = 'N', long, conflicts_with = "server")]
    no_delay: bool,
    /// Send without copying; always the case
    #[arg(short = 'Z', long, conflicts_with = "server")]
    zerocopy: bool,
}

/// Returns a parser of 0 or a number of seconds in this range.
fn seconds(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| match text.parse() {
        Ok(seconds) if seconds == 0.0 || range.contains(&seconds) => Ok(seconds),
        _ => Err(format!("it must be 0, or from {} to {}", range.start(), range.end())),
    }
}

fn parse_bitrate(text: &str) -> Result<(u64, u32), String> {
    let (rate, burst) = text.split_once('/').unwrap_or((text, "1"));
    let burst = burst.parse().ok().filter(|burst| (1..=1000).contains(burst));
    Ok((parse_rate(rate)?, burst.ok_or("a burst must be from 1 to 1000")?))
}

/// Bits of the type of service without ECN (RFC 3168, section 5).
const NOT_ECN: u8 = 0xfc;

fn parse_tos(text: &str) -> Result<u8, String> {
    let digits = |prefix| text.strip_prefix(prefix).filter(|digits| !digits.is_empty());
    let number = match (digits("0x"), digits("0")) {
        (Some(hex), _) => u8::from_str_radix(hex, 16),
        (None, Some(octal)) => u8::from_str_radix(octal, 8),
        (None, None) => text.parse(),
    };
    number.map(|tos| tos & NOT_ECN).map_err(|_| "it must be from 0 to 255".to_owned())
}

/// Parses a codepoint of IANA's registry of DSCPs.
fn parse_dscp(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_lowercase();
    let digit = |prefix: &str, at: usize| {
        let digits = name.strip_prefix(prefix)?;
        digits.as_bytes().get(at).map(|digit| digit.wrapping_sub(b'0'))
    };
    let number = match name.as_str() {
        "be" | "default" => Some(0),
        "le" => Some(1),
        "ef" => Some(46),
        "va" | "voice-admit" => Some(44),
        _ if name.len() == 3 && name.starts_with("cs") => {
            digit("cs", 0).filter(|class| *class < 8).map(|class| class * 8)
        }
        _ if name.len() == 4 && name.starts_with("af") => digit("af", 0)
            .zip(digit("af", 1))
            .filter(|(class, drop)| (1..=4).contains(class) && (1..=3).contains(drop))
            .map(|(class, drop)| class * 8 + drop * 2),
        number => number.parse().ok().filter(|number| *number < 64),
    };
    number
        .map(|dscp| dscp << 2)
        .ok_or_else(|| "it must be from 0 to 63, or a name such as af11, cs1, ef, le".to_owned())
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size(text).and_then(|bytes| if bytes == 0 { Err("nothing is sent then".to_owned()) } else { Ok(bytes) })
}

fn parse_window(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(parse_size(text)?).ok().filter(|bytes| (4096..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| "it must be from 4K to 1G".to_owned())
}

impl Options {
    /// Returns the test that a client requests.
    /// Returns a sentence if the options contradict each other, or if neither end is chosen.
    pub fn params(&self) -> Result<Params, String> {
        let test = &self.test;
        if !self.server && self.client.is_none() {
            return Err("either -s (server) or -c HOST (client) is required".to_owned());
        }
        if self.client.is_some() && self.port == 0 {
            return Err("a client needs the server's port: -p".to_owned());
        }
        let family = |ip: SocketAddr| if ip.is_ipv4() { !self.version6 } else { !self.version4 };
        if self.bind.is_some_and(|ip| !family(ip)) {
            return Err("-B names an address of the other family than -4 or -6".to_owned());
        }
        let params = Params {
            protocol: if test.udp { Protocol::Udp } else { Protocol::Tcp },
            streams: test.parallel,
            direction: match (test.reverse, test.bidir) {
                (true, _) => Direction::Reverse,
                (false, true) => Direction::Both,
                (false, false) => Direction::Forward,
            },
            seconds: test.time,
            bytes: test.bytes,
            omit: test.omit,
            length: test.length.unwrap_or(if test.udp { UDP_LENGTH } else { TCP_LENGTH }),
            rate: test.bitrate.map_or(if test.udp { UDP_RATE } else { 0 }, |(rate, _)| rate),
            burst: test.bitrate.map_or(1, |(_, burst)| burst),
            poisson: test.poisson,
            seed: test.seed,
            interval: self.interval.unwrap_or(1.0),
            congestion: self.transport.congestion_name(),
            window: test.window,
            mss: test.set_mss,
            tos: test.tos.or(test.dscp).unwrap_or(0),
            server_output: test.get_server_output,
        };
        if params.poisson && params.burst > 1 {
            return Err("--poisson has no bursts".to_owned());
        }
        params.check().map(|()| params)
    }

    /// Returns the maximum time that a receiver waits for data.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(self.rcv_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Params, String> {
        let words = std::iter::once("perf").chain(line.split_whitespace());
        Options::try_parse_from(words).map_err(|error| error.to_string())?.params()
    }

    #[test]
    fn defaults_are_those_of_iperf3() {
        let tcp = parse("-c host").unwrap();
        assert_eq!((tcp.seconds, tcp.streams, tcp.length, tcp.rate, tcp.omit), (10.0, 1, 131_072, 0, 0));
        assert_eq!((tcp.interval, tcp.direction, tcp.bytes), (1.0, Direction::Forward, None));
        let udp = parse("-c host -u").unwrap();
        assert_eq!((udp.protocol, udp.rate), (Protocol::Udp, 1_000_000));
        let all = parse("-c host -C new-reno -P 3 --bidir -n 10M -O 2 -l 8K -w 1M -i 0.5 -b 1G").unwrap();
        assert_eq!((all.bytes, all.rate, all.window), (Some(10 << 20), 1_000_000_000, Some(1 << 20)));
        assert_eq!(all.congestion.as_deref(), Some("new-reno"));
    }

    #[test]
    fn options_of_iperf3_are_accepted() {
        let params = parse("-c host -t 0 -b 10M/8 -N -Z -M 1400 --get-server-output").unwrap();
        assert_eq!((params.seconds, params.rate, params.burst, params.mss), (0.0, 10_000_000, 8, Some(1400)));
        assert!(params.server_output);
        assert_eq!(parse("-c host -t 0.5").unwrap().seconds, 0.5);
        assert!(parse("-s -D --logfile x --max-time 0").is_ok());
        assert!(parse("-c host --json-stream --connect-timeout 500 --rcv-timeout 1000").is_ok());
    }

    /// iperf3's examples of `--tos`, and codepoints of IANA's registry.
    #[test]
    fn services_have_names_and_numbers() {
        for (option, tos) in [
            ("-S 32", 32),
            ("-S 0x20", 32),
            ("-S 040", 32),
            ("-S 0", 0),
            ("-S 0xff", 0xfc),
            ("--dscp ef", 0xb8),
            ("--dscp AF11", 0x28),
            ("--dscp af43", 0x98),
            ("--dscp cs1", 0x20),
            ("--dscp le", 0x04),
            ("--dscp 46", 0xb8),
        ] {
            assert_eq!(parse(&format!("-c host {option}")).unwrap().tos, tos, "{option}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "",
            "-s -c host",
            "-s -t 5",
            "-s -R",
            "-s -u",
            "-c host -1",
            "-c host -p 0",
            "-c host -t 5 -n 1M",
            "-c host -R --bidir",
            "-c host --poisson",
            "-c host -u --poisson -b 0",
            "-c host -u -C cubic",
            "-c host -u -l 8",
            "-c host -u -l 100K",
            "-c host -l 0",
            "-c host -4 -6",
            "-c host -4 -B ::1",
            "-c host -n 0",
            "-c host -t 0.001",
            "-c host -t -1",
            "-c host -t nan",
            "-c host -b 1M/0",
            "-c host -b 1M/x",
            "-c host -u -b 1M/2 --poisson",
            "-c host -S 256",
            "-c host --dscp cs8",
            "-c host --dscp af14",
            "-c host -S 8 --dscp ef",
            "-c host -M 10",
            "-c host -D",
            "-c host --max-rate 1M",
            "-s --connect-timeout 5",
            "-s -J --json-stream",
            "-c host -P 0",
            "-c host -i 0.01",
            "-c host -w 1",
            "-c host -C nonsense",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }
}
