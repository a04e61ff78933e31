//! Throughput of one encrypted stream over loopback: `longhaul-tls` compared with s2n-quic, quinn, longhaul without
//! encryption, and AES-128-GCM alone.
//!
//! Procedure and measures are those of the bench `loopback` (`benches/loopback.rs`). s2n-quic has its defaults (CUBIC,
//! packets of up to 1500 bytes) and windows of 32 MiB, like quinn. AES-128-GCM by ring encrypts and decrypts 1 GiB in
//! records of 16 KiB, the maximum of TLS.
//!
//! ```text
//! cargo run --release --manifest-path benches/encrypted/Cargo.toml             # prints the table
//! cargo run --release --manifest-path benches/encrypted/Cargo.toml -- --write  # and writes it: docs/costs.md
//! ```
//!
//! **Settings** by environment: `LONGHAUL_BENCH_MIB` (2048), `LONGHAUL_BENCH_RUNS` (9).

mod s2n;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use longhaul_benches::contest::{self, CONTENDED, Chosen, Run};
use longhaul_benches::generated::{Page, Task, docs, processor, section, table};
use longhaul_benches::meter::{Meter, Usage};
use longhaul_benches::report::{Spread, setting};
use longhaul_benches::transport::{Connector, Listener, Stream, Transport, longhaul_socket};
use longhaul_benches::{bulk, worker};
use longhaul_tls::{Fingerprint, Identity, SecureConnector, SecureListener};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

const COMMAND: &str = "cargo run --release --manifest-path benches/encrypted/Cargo.toml -- --write";
const TITLE: &str = "Encryption";
/// Number of data bytes in a TLS record of maximum length.
const RECORD: usize = 16 << 10;
/// Number of records that AES-128-GCM encrypts and decrypts.
const RECORDS: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Rival {
    Tls,
    S2n,
    Other(Transport),
}

const RIVALS: [Rival; 4] = [Rival::Tls, Rival::Other(Transport::Longhaul), Rival::S2n, Rival::Other(Transport::Quinn)];

impl Rival {
    const fn name(self) -> &'static str {
        match self {
            Self::Tls => "longhaul-tls",
            Self::S2n => "s2n-quic",
            Self::Other(transport) => transport.name(),
        }
    }
}

/// Job of a worker: one side of a transfer.
#[derive(Debug, Serialize, Deserialize)]
enum Job {
    /// Reports its [`Address`], and then its [`Usage`].
    Receive { rival: Rival, bytes: u64 },
    /// Reports its [`Usage`].
    Send { rival: Rival, to: Address, bytes: u64 },
}

/// Address of a receiver, and how a sender authenticates it: by the fingerprint of its key, or by its certificate.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Address {
    addr: SocketAddr,
    identity: String,
}

/// Medians over the runs of a transport.
#[derive(Clone, Copy, Debug)]
struct Row {
    gbps: Spread,
    cpu_s_per_gb: f64,
}

fn main() -> Result<()> {
    if let Some(job) = worker::job()? {
        return worker::run(work(job));
    }
    let task = Task::from_args()?;
    let mib: u64 = setting("LONGHAUL_BENCH_MIB", 2048)?;
    let runs = setting("LONGHAUL_BENCH_RUNS", 9)?.max(1);
    let workers = worker::Workers::new()?;
    let mut aes = Vec::new();
    let chosen = contest::hold(&RIVALS, runs, CONTENDED, |rival| {
        if rival == Rival::Tls {
            // AES takes turns with the transports, because the speed of the machine varies over time.
            aes.push(aes_s_per_gb()?);
        }
        transfer(&workers, rival, mib << 20).with_context(|| rival.name())
    })?;
    let rows: Vec<_> = chosen.iter().map(|chosen| Row::of(chosen, mib)).collect();
    let text = text(&rows, Spread::of(aes).median, mib, runs);
    println!("{text}");
    for Chosen { rival, contended, dropped, .. } in chosen {
        println!("{}: {contended} contended runs count, {dropped} runs dropped", rival.name());
    }
    let path = docs("costs.md");
    let text = section(&path, TITLE, &text)?;
    Page { path, text }.settle(task)
}

/// Measures the CPU time in which AES-128-GCM encrypts and decrypts 10^9 bytes.
fn aes_s_per_gb() -> Result<f64> {
    let unbound = UnboundKey::new(&AES_128_GCM, &[7; 16]).ok().context("a key of AES-128-GCM")?;
    let key = LessSafeKey::new(unbound);
    let mut record = vec![7; RECORD];
    let meter = Meter::start()?;
    for number in 0..RECORDS {
        let nonce = || {
            let mut nonce = [0; NONCE_LEN];
            nonce[..8].copy_from_slice(&(number as u64).to_be_bytes());
            Nonce::assume_unique_for_key(nonce)
        };
        // TLS authenticates the five bytes of a record's header as additional data (RFC 8446, section 5.2).
        let aad = Aad::from([7; 5]);
        key.seal_in_place_append_tag(nonce(), aad, &mut record).ok().context("encryption")?;
        key.open_in_place(nonce(), aad, &mut record).ok().context("decryption")?;
        record.truncate(RECORD);
    }
    Ok(meter.stop()?.cpu_s / (RECORDS * RECORD) as f64 * 1e9)
}

fn transfer(workers: &worker::Workers, rival: Rival, bytes: u64) -> Result<Run> {
    let mut receiver = workers.spawn(&Job::Receive { rival, bytes }, None)?;
    let to = receiver.hear()?;
    let mut sender = workers.spawn(&Job::Send { rival, to, bytes }, None)?;
    let rx: Usage = receiver.hear().context("the receiver")?;
    let tx = sender.hear().context("the sender")?;
    Ok(Run { tx, rx })
}

async fn work(job: Job) -> Result<()> {
    match job {
        Job::Receive { rival, bytes } => {
            let mut stream = accept(rival).await?;
            worker::say(&bulk::receive(&mut stream, bytes).await?)?;
            worker::until_ended().await
        }
        Job::Send { rival, to, bytes } => {
            let mut stream = connect(rival, to).await?;
            worker::say(&bulk::send(&mut stream, bytes).await?)
        }
    }
}

/// Reports an [`Address`] to the bench, and accepts a connection at this address.
async fn accept(rival: Rival) -> Result<Stream> {
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    match rival {
        Rival::Tls => {
            let socket = longhaul_socket(Transport::Longhaul)?;
            socket.bind((ip, 0).into())?;
            let listener = socket.listen(1)?;
            let addr = listener.local_addr()?;
            let identity = Identity::generate()?;
            let mut listener = SecureListener::new(listener, &identity, |_| true)?;
            worker::say(&Address { addr, identity: identity.fingerprint().to_string() })?;
            Ok(Box::new(listener.accept().await?.0))
        }
        Rival::S2n => s2n::accept(ip).await,
        Rival::Other(transport) => {
            let listener = Listener::bind(transport, ip).await?;
            worker::say(&Address { addr: listener.local_addr()?, identity: String::new() })?;
            listener.accept().await
        }
    }
}

async fn connect(rival: Rival, Address { addr, identity }: Address) -> Result<Stream> {
    match rival {
        Rival::Tls => {
            let connector = SecureConnector::new(&Identity::generate()?, Some(identity.parse::<Fingerprint>()?))?;
            let stream = longhaul_socket(Transport::Longhaul)?.connect(addr).await?;
            Ok(Box::new(connector.connect(stream).await?))
        }
        Rival::S2n => s2n::connect(addr, &identity).await,
        Rival::Other(transport) => Connector::new(transport)?.connect(addr).await,
    }
}

impl Row {
    fn of(chosen: &Chosen<Rival>, mib: u64) -> Self {
        let gigabytes = (mib << 20) as f64 / 1e9;
        let cpu = Spread::of(chosen.runs.iter().map(|run| (run.tx.cpu_s + run.rx.cpu_s) / gigabytes));
        let gbps = Spread::of(chosen.runs.iter().map(|run| gigabytes * 8.0 / run.tx.seconds));
        Self { gbps, cpu_s_per_gb: cpu.median }
    }
}

fn text(rows: &[Row], aes: f64, mib: u64, runs: usize) -> String {
    let place = processor().map(|name| format!(" on two cores of {name}")).unwrap_or_default();
    let mut text = format!(
        "<!-- generated by {COMMAND} -->\n\n{mib} MiB in one stream over loopback{place}, medians of {runs} runs, in turn. CPU time is \
         that of both ends.\n\n"
    );
    let mut lines = vec![["", "goodput, Gb/s", "range", "CPU time, s/GB"].map(str::to_owned).to_vec()];
    for (rival, Row { gbps, cpu_s_per_gb }) in RIVALS.iter().zip(rows) {
        let range = format!("{:.1} to {:.1}", gbps.min, gbps.max);
        lines.push(vec![rival.name().to_owned(), format!("{:.1}", gbps.median), range, format!("{cpu_s_per_gb:.2}")]);
    }
    lines.push(vec!["AES-128-GCM, both ways".to_owned(), "".to_owned(), "".to_owned(), format!("{aes:.2}")]);
    text += &table(&lines);
    if let [tls, plain, s2n, _] = rows {
        text += &format!(
            "\n`longhaul-tls` has {:.2} times the goodput of s2n-quic, and {:.2} times the CPU time of longhaul without encryption and \
             of AES-128-GCM together.\n",
            tls.gbps.median / s2n.gbps.median,
            tls.cpu_s_per_gb / (plain.cpu_s_per_gb + aes)
        );
    }
    text
}
