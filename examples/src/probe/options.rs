//! The command line of `probe`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use clap::builder::PossibleValue;
use clap::{Parser, ValueEnum};
use longhaul::units::Span;
use longhaul_probe::MethodKind;

/// Time limit of everything but the methods that need a reflector.
const USUAL: Span = Span::from_secs(60);

/// What `--help` ends with.
const MORE: &str = "\
tcpprobe needs a plain `receive` there, the other methods one with --reflect; `all` makes do with what there is. tcpprobe
sends a file that it breaks off: the receiver keeps nothing of it, and says that it was interrupted.

--json: \"address\"; \"largest_packet\" in bytes (null if tcpprobe was the only method); \"direction\" (\"there\": whose rates these
are); \"doubts\" (sentences: what speaks against the findings); what all packets together say of
the path; \"methods\", each with \"method\", \"capacity_bps\" and \"available_bps\" (\"low\", \"value\", \"high\"),
\"delivery_bps\" and \"arrival_times\" (tcpprobe's: what it delivered, and whether the peer told when), \"converged\",
\"converged_after_s\", \"seconds\", \"confidence\" (0 to 1), and what its own packets say of the path; \"hops\" with
--hops: \"queue_at\" (the TTL, null if nowhere), \"loaded\", \"hops\", each with \"ttl\", \"address\", \"sent\",
\"answered\", \"base_rtt_us\", \"queueing_us\". The path is \"base_rtt_us\", \"queueing_us\", \"buffer_delay_us\",
\"buffer_bytes\", \"random_loss\" (0 to 1), \"lost\", \"packets\", \"bytes\". null is unknown.

The exit code is 0 if a method found a rate or --hops a hop.";

/// Measures a path to `receive`: capacity, available bandwidth, round trip, buffer and loss.
///
/// Rates count IP packets, and are those of the way to the receiver. Progress goes to standard error. A method has converged
/// if its own criterion is met and its confidence is a half or more. Where findings exclude each other, or this machine was
/// too busy to send in time, the report says so and the confidence is less than that.
#[derive(Clone, Debug, Parser)]
#[command(name = "probe", version, after_help = MORE)]
pub struct Options {
    /// The receiver: HOST:PORT
    #[arg(value_name = "ADDR")]
    pub address: String,
    /// How to measure
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = Choice::One(MethodKind::CapProbe))]
    pub method: Choice,
    /// Look for the hop where packets queue, by packets of rising TTL: during tcpprobe's transfer, else for 15 s after the
    /// other methods, while something else loads the path (Linux)
    #[arg(long)]
    pub hops: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Seconds that a method may take; what it knows by then is reported. tcpprobe takes 10 at most [default: 60, pathrate 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub time: Option<u32>,
}

/// The argument of `--method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A method that needs a reflector.
    One(MethodKind),
    /// A transfer.
    TcpProbe,
    /// All methods, one after the other.
    All,
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        static CHOICES: LazyLock<Vec<Choice>> = LazyLock::new(|| {
            let methods = MethodKind::ALL.iter().map(|kind| Choice::One(*kind));
            methods.chain([Choice::TcpProbe, Choice::All]).collect()
        });
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::One(kind) => (kind.name(), kind.summary()),
            Self::TcpProbe => ("tcpprobe", "Capacity, from pairs of segments of a transfer of a few seconds"),
            Self::All => ("all", "One after the other"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl Choice {
    /// Whether TCPProbe's transfer is asked for.
    #[must_use]
    pub fn transfers(self) -> bool {
        matches!(self, Self::TcpProbe | Self::All)
    }
}

impl Options {
    /// The first address that the name has.
    ///
    /// # Errors
    /// If it is no address or has none.
    pub fn resolve(&self) -> Result<SocketAddr> {
        let address = &self.address;
        let mut addresses =
            address.to_socket_addrs().with_context(|| format!("{address:?} is not an address (HOST:PORT)"))?;
        addresses.next().with_context(|| format!("{address} has no address"))
    }

    /// Time limit of everything but the methods that need a reflector.
    #[must_use]
    pub fn time(&self) -> Span {
        self.time.map_or(USUAL, |seconds| Span::from_secs(seconds.into()))
    }

    /// Time limit of a method.
    #[must_use]
    pub fn time_of(&self, kind: MethodKind) -> Span {
        self.time.map_or(kind.usual_time(), |seconds| Span::from_secs(seconds.into()))
    }

    /// The chosen methods that need a reflector.
    #[must_use]
    pub fn methods(&self) -> Vec<MethodKind> {
        match self.method {
            Choice::One(kind) => vec![kind],
            Choice::TcpProbe => Vec::new(),
            Choice::All => MethodKind::ALL.to_vec(),
        }
    }
}
