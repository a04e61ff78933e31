//! Goodput of QUIC stacks under their own controllers and longhaul's over real sockets, through the emulated links of the
//! experiment `quic`.
//!
//! `quic-sockets [LINK...] [STACK/...]` prints a table in Markdown, for the links whose names contain one of these texts,
//! and the senders that contain one of the words with a slash, such as `s2n-quic/own` or `/copa-cubic`. Each value is one
//! run. Runs follow each other, because they are in real time.

mod longhauls;
mod noqs;
mod quinns;
mod s2ns;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use longhaul_link::Cause;
use longhaul_link::spec::{Direction, LinkOptions};
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Options, Running};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::runtime::Builder;

/// Name and options of each link, and the duration of its runs in seconds.
const LINKS: [(&str, &str, u64); 5] = [
    ("155 Mb/s, 65 ms", "--rate 155mbit --rtt 65ms --queue 1bdp", 8),
    ("0.1 % lost", "--rate 155mbit --rtt 65ms --queue 1bdp --loss-up 0.1%", 10),
    ("0.5 %", "--rate 155mbit --rtt 65ms --queue 1bdp --loss-up 0.5%", 10),
    ("100 Mb/s, 133 ms, 150 kB, 0.005 %", "--rate 100mbit --rtt 133ms --queue 150kB --loss-up 0.005%", 12),
    ("20 Mb/s, 500 ms, 0.1 %", "--rate 20mbit --rtt 500ms --queue 1bdp --loss-up 0.1%", 20),
];
const OURS: [&str; 4] = ["cubic", "bbr", "copa", "copa-cubic"];
const THEIRS: [&str; 2] = ["own-cubic", "own-bbr"];
/// Prefix of a stack's own controllers.
const OWN: &str = "own-";
/// Flow-control windows, which must not limit any flow.
const ROOM: u32 = 64 << 20;
/// Number of bytes that the application writes at once.
const WRITE: usize = 64 << 10;
/// 99th percentile of the lateness of packets above which the machine was too busy, in milliseconds.
const LATE: f64 = 2.0;
/// Maximum number of runs per value while the machine is too busy.
const ATTEMPTS: u32 = 2;

/// A self-signed certificate and its key.
struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    pem: [String; 2],
}

impl Identity {
    fn new() -> Result<Self> {
        let key = rcgen::KeyPair::generate()?;
        let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
        let pem = [certificate.pem(), key.serialize_pem()];
        Ok(Self { certificate: certificate.der().clone(), key: key.serialize_der(), pem })
    }

    fn key(&self) -> PrivatePkcs8KeyDer<'static> {
        self.key.clone().into()
    }

    fn roots(&self) -> Result<Arc<rustls::RootCertStore>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(Arc::new(roots))
    }
}

/// A sender: the stack, and a controller.
#[derive(Clone, Copy, Debug)]
struct Sender {
    stack: &'static str,
    congestion: &'static str,
}

fn senders() -> Vec<Sender> {
    let of = |stack, controllers: &[&'static str]| -> Vec<Sender> {
        controllers.iter().map(|congestion| Sender { stack, congestion }).collect()
    };
    let quic =
        ["noq", "quinn", "s2n-quic"].into_iter().flat_map(|stack| [of(stack, &THEIRS), of(stack, &OURS)].concat());
    quic.chain(of("longhaul", &OURS)).filter(|sender| (sender.stack, sender.congestion) != ("quinn", "bbr")).collect()
}

impl Sender {
    /// Starts a receiver that counts the bytes it reads. Returns its address.
    async fn listen(self, identity: &Identity, read: &Arc<AtomicU64>) -> Result<SocketAddr> {
        match self.stack {
            "noq" => noqs::listen(identity, read, self.congestion),
            "quinn" => quinns::listen(identity, read, self.congestion),
            "s2n-quic" => s2ns::listen(identity, read),
            _ => longhauls::listen(read).await,
        }
    }

    /// Sends without end.
    async fn send(self, identity: &Identity, to: SocketAddr) -> Result<()> {
        match self.stack {
            "noq" => noqs::send(identity, to, self.congestion).await,
            "quinn" => quinns::send(identity, to, self.congestion).await,
            "s2n-quic" => s2ns::send(identity, to, self.congestion).await,
            _ => longhauls::send(to, self.congestion).await,
        }
    }
}

/// Result of a run.
struct Outcome {
    /// Goodput in Mb/s.
    goodput: f64,
    /// Percentage of packets that found the queue full.
    full: f64,
    /// 99th percentile of the lateness in milliseconds.
    late: f64,
}

fn run(sender: Sender, options: &str, seconds: u64, identity: &Identity) -> Result<Outcome> {
    let words: Vec<&str> = options.split_whitespace().collect();
    let mut link = LinkOptions::new();
    link.read(&words)?;
    let path = link.build(|file| Err(format!("{file}: no files are read")))?;
    let read = Arc::new(AtomicU64::new(0));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let relay = runtime.block_on(async {
        let to = sender.listen(identity, &read).await?;
        let relay = Running::start(&Options::new((Ipv4Addr::LOCALHOST, 0).into(), to), &path, Logs::default())?;
        match tokio::time::timeout(Duration::from_secs(seconds), sender.send(identity, relay.local_addr())).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) => anyhow::bail!("the sender has ended"),
            Err(_) => Ok(relay),
        }
    })?;
    let goodput = read.load(Ordering::Relaxed) as f64 * 8e-6 / seconds as f64;
    runtime.shutdown_timeout(Duration::from_secs(1));
    let (engine, _) = relay.stop()?;
    let all = engine.stats(Direction::Up).all();
    let full = 100.0 * all.dropped(Cause::QueueFull) as f64 / all.offered.max(1) as f64;
    Ok(Outcome { goodput, full, late: engine.lateness().quantile(0.99).as_secs_f64() * 1e3 })
}

/// Returns the text of a cell, for the least late of up to [`ATTEMPTS`] runs.
fn cell(sender: Sender, options: &str, seconds: u64, identity: &Identity) -> Result<String> {
    let mut best = run(sender, options, seconds, identity)?;
    for _ in 1..ATTEMPTS {
        if best.late <= LATE {
            break;
        }
        let again = run(sender, options, seconds, identity)?;
        if again.late < best.late {
            best = again;
        }
    }
    let full = if best.full >= 0.05 { format!(" ({:.1})", best.full) } else { String::new() };
    let late = if best.late > LATE { " late" } else { "" };
    Ok(format!("{:.1}{full}{late}", best.goodput))
}

fn main() -> Result<()> {
    let (only, asked): (Vec<String>, _) =
        std::env::args().skip(1).partition(|text| text.contains('/') && !text.contains(' '));
    let is_asked = |texts: &[String], name: &str| texts.is_empty() || texts.iter().any(|text| name.contains(text));
    let links: Vec<_> = LINKS.into_iter().filter(|(name, ..)| is_asked(&asked, name)).collect();
    let identity = Identity::new()?;
    println!("|  | {} |", links.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "--:|".repeat(links.len()));
    for sender in senders() {
        if !is_asked(&only, &format!("{}/{}", sender.stack, sender.congestion)) {
            continue;
        }
        let whose = match sender.congestion.strip_prefix(OWN) {
            Some(own) => format!("its `{own}`"),
            None => format!("`{}`", sender.congestion),
        };
        let cells = links.iter().map(|(_, options, seconds)| {
            cell(sender, options, *seconds, &identity).unwrap_or_else(|error| format!("{error:#}"))
        });
        println!("| {}, {whose} | {} |", sender.stack, cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}
