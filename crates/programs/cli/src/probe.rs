//! Command line of `probe`, and the transfer that it starts. The crate `longhaul-probe` does the measuring.

use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValue;
use clap::{Parser, ValueEnum};
use longhaul::TcpStream;
use longhaul_probe::MethodKind;
use longhaul_probe::sockets::{Application, Error, Measurement, Note, Prober, Report, TCP_PROBE};
use longhaul_units::Span;

use crate::progress::{Detail, Screen};
use crate::protocol::{self, FileHeader, Kind, Reply, Target, Timestamp};
use crate::{address, output, report};
use tokio::io::AsyncReadExt as _;

fn more() -> String {
    format!(
        "\
Examples:
  longhaul probe 192.0.2.7:7000
  longhaul probe 192.0.2.7:7000 --method all
  longhaul probe 192.0.2.7:7000 --method tcpprobe --hops

tcpprobe needs `longhaul receive --plaintext` there, the other methods `longhaul receive --reflect`; `all` makes do with
what there is. tcpprobe sends a file that it breaks off: the receiver keeps nothing of it, and says that it was interrupted.

--json: {}

The exit code is 0 if a method found a rate or --hops a hop.",
        Report::JSON
    )
}

/// Measures a path to `longhaul receive`: capacity, available bandwidth, round trip, buffer and loss.
///
/// A sentence states the result, and -v adds the results of each method. Rates count IP packets and are those of the
/// direction to the receiver. A method has converged if its own criterion is met and its confidence is a half or more.
/// If results contradict each other, or this machine was too busy to send in time, the sentence states this instead of
/// a rate.
#[derive(Clone, Debug, Parser)]
#[command(name = "probe", version, after_help = more())]
pub(crate) struct Options {
    /// The receiver: HOST:PORT
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,
    /// Measurement method
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = Choice::One(MethodKind::CapProbe))]
    pub(crate) method: Choice,
    /// Find the hop at which packets queue (Linux)
    ///
    /// Packets with increasing TTL are sent during tcpprobe's transfer, or for 15 s after the other methods, while
    /// other traffic loads the path.
    #[arg(long)]
    pub(crate) hops: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds that a method may take [default: 60, pathrate 300]
    ///
    /// The results up to this time are reported. tcpprobe takes at most 10.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) time: Option<u32>,
}

/// Argument of `--method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// One method that needs a reflector.
    One(MethodKind),
    /// TCPProbe.
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
            Self::TcpProbe => (TCP_PROBE, "Capacity, from pairs of segments of a transfer of a few seconds"),
            Self::All => ("all", "One after the other"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl Options {
    fn measurement(&self, address: SocketAddr) -> Measurement {
        let mut measurement = Measurement::new(address);
        measurement.methods = match self.method {
            Choice::One(kind) => vec![kind],
            Choice::TcpProbe => Vec::new(),
            Choice::All => MethodKind::ALL.to_vec(),
        };
        measurement.transfer = matches!(self.method, Choice::TcpProbe | Choice::All);
        measurement.hops = self.hops;
        measurement.time = self.time.map(|seconds| Span::from_secs(seconds.into()));
        measurement
    }

    async fn resolve(&self) -> Result<SocketAddr> {
        let text = &self.address;
        let Some((host, Some(port))) = address::split(text) else { bail!("{text:?} is not an address (HOST:PORT)") };
        let found = address::lookup(host, port).await.with_context(|| format!("cannot find {host}"))?;
        Ok(first_that_answers(found).await)
    }
}

/// Returns the first of `addresses` at which longhaul answers, whether or not it reflects probes. Returns the first
/// address if none answers. A single address is not probed.
pub(crate) async fn first_that_answers(addresses: Vec<SocketAddr>) -> SocketAddr {
    let first = addresses.first().copied().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
    if addresses.len() == 1 {
        return first;
    }
    let ask = |address| async move {
        let asked = tokio::task::spawn_blocking(move || Prober::connect(address, &|_, _| {}).map(drop));
        match asked.await.map_err(io::Error::other)? {
            Ok(()) | Err(Error::NoReflector(_)) => Ok(address),
            Err(error) => Err(error),
        }
    };
    longhaul::race(addresses, ask).await.unwrap_or(first)
}

/// Transfer of an endless file between `send` and `receive`.
struct EndlessFile;

impl Application for EndlessFile {
    fn preamble(&self) -> io::Result<Vec<u8>> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(format!("no random number: {error}")))?;
        let name = format!("longhaul-probe-{:016x}", u64::from_ne_bytes(random));
        let modified = Timestamp::default();
        // If the receiver knew a size, it would check whether there is space for it.
        let (kind, size) = (Kind::File, None);
        let (mode, name) = (0o600, name.as_str().into());
        let header =
            FileHeader { kind, name, size, modified, mode, keeps: false, asks: false, data: None, target: Target::Any };
        let header = protocol::encode_header(&header).map_err(io::Error::other)?;
        Ok([&protocol::MAGIC[..], &header].concat())
    }

    fn body(&self) -> Vec<u8> {
        let mut chunk = protocol::chunk_start(protocol::MAX_CHUNK as u32).to_vec();
        chunk.resize(chunk.len() + protocol::MAX_CHUNK, 0);
        chunk
    }

    async fn refusal(&self, first: u8, stream: &mut TcpStream) -> Option<String> {
        let mut bytes = vec![first];
        loop {
            match protocol::take_reply(&mut bytes) {
                Ok(Some((_, Reply::Refused(reason) | Reply::Declined(reason)))) => return Some(reason),
                Ok(None) => bytes.push(stream.read_u8().await.ok()?),
                Ok(Some(_)) | Err(_) => return None,
            }
        }
    }
}

/// Runs the requested measurements, and prints the results. Fails if the address is unknown, no part of the measurement
/// succeeded, or no rate was found.
pub(crate) fn run(options: &Options, screen: &Screen) -> Result<()> {
    let line = screen.line();
    line.show(&[format!("Connecting to {}", options.address)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let address = runtime.block_on(options.resolve())?;
    // Probes to addresses that have not answered yet are still in progress.
    runtime.shutdown_background();
    let progress = |note: Note, text: &str| match note {
        Note::Progress if screen.shows(Detail::Files) => screen.say(text),
        Note::Progress => line.show(&[text.to_owned()]),
        _ => screen.warn(text),
    };
    let report = options.measurement(address).run(&EndlessFile, &progress)?;
    drop(line);
    screen.flush();
    let hops = report.hops.as_ref().map(ToString::to_string).unwrap_or_default();
    let text = match () {
        () if options.json => report::json_line(&report) + "\n",
        () if screen.shows(Detail::Files) => format!("{}\n\n{report}", report.verdict()),
        () => format!("{}\n{hops}", report.verdict()),
    };
    output::print(&text)?;
    if !report.found_anything() {
        bail!("no method has found a rate: --time gives them longer, --method names another");
    }
    Ok(())
}
