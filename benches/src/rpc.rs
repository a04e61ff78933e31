//! The bench `rpc`: clients, servers, tables and the JSON file. `benches/rpc.rs` describes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_link::statistics::percentile;
use longhaul_sys::linux::monotonic_now;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::meter::{resident, seconds_since};
use crate::report::{Spread, setting, write_json};
use crate::transport::{Connector, Listener, Stream, Transport};
use crate::worker::{self, Worker, Workers};

/// Number of bytes of a request and of its response.
const MESSAGE: usize = 64;
/// Number of exchanges before the timed ones.
const WARM_UP: usize = 1000;
/// Number of client processes for idle connections. A single process would need too many open files.
const IDLE_CLIENTS: usize = 4;
/// Time for which connections are idle before the server's memory is measured.
const REST: Duration = Duration::from_secs(5);
const SERVER_IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug, Serialize, Deserialize)]
enum Job {
    /// Reports its address, and echoes data on any number of connections.
    Echo { transport: Transport },
    /// Reports the [`Latency`] of a run.
    Exchange { transport: Transport, to: SocketAddr, exchanges: usize },
    /// Opens connections one after the other, and reports the seconds that all of them took.
    Connect { transport: Transport, to: SocketAddr, connections: usize },
    /// Reports its address, and then the growth of its resident memory in bytes with this number of idle connections.
    IdleServer { transport: Transport, connections: usize },
    /// Keeps connections open.
    IdleClient { transport: Transport, to: SocketAddr, connections: usize },
}

/// Duration of the exchanges of a run, in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Latency {
    p50_us: f64,
    p99_us: f64,
}

struct Bench {
    workers: Workers,
    runs: usize,
    exchanges: usize,
    connects: usize,
    idle: usize,
}

/// Contents of `bench/latency.json`.
#[derive(Debug, Default, Serialize)]
struct Results {
    latency_64_bytes: BTreeMap<&'static str, LatencyRow>,
    connections_per_s: BTreeMap<&'static str, Spread>,
    idle_connections: BTreeMap<&'static str, IdleRow>,
}

#[derive(Debug, Serialize)]
struct LatencyRow {
    p50_us: Spread,
    p99_us: Spread,
    runs: usize,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct IdleRow {
    connections: usize,
    server_bytes_each: f64,
}

/// Runs the bench, or a client or server if this process is a worker. [`write_json`] describes `target_tmpdir`.
///
/// # Errors
/// Returns an error if a connection failed.
pub fn main(target_tmpdir: &str) -> Result<()> {
    if let Some(job) = worker::job()? {
        return worker::run(work(job));
    }
    let bench = Bench {
        workers: Workers::new()?,
        runs: setting("LONGHAUL_BENCH_RUNS", 5)?.max(1),
        exchanges: setting("LONGHAUL_BENCH_EXCHANGES", 20_000)?,
        connects: setting("LONGHAUL_BENCH_CONNECTS", 2000)?,
        idle: setting("LONGHAUL_BENCH_IDLE", 10_000)?,
    };
    let results = Results {
        latency_64_bytes: bench.latency()?,
        connections_per_s: bench.connections()?,
        idle_connections: bench.idle(),
    };
    write_json(target_tmpdir, "latency.json", &results)
}

async fn work(job: Job) -> Result<()> {
    match job {
        Job::Echo { transport } => serve(transport).await,
        Job::Exchange { transport, to, exchanges } => worker::say(&exchange(transport, to, exchanges).await?),
        Job::Connect { transport, to, connections } => worker::say(&connect(transport, to, connections).await?),
        Job::IdleServer { transport, connections } => serve_idle(transport, connections).await,
        Job::IdleClient { transport, to, connections } => hold(transport, to, connections).await,
    }
}

async fn serve(transport: Transport) -> Result<()> {
    let listener = Listener::bind(transport, SERVER_IP).await?;
    worker::say(&listener.local_addr()?)?;
    loop {
        let stream = listener.accept().await?;
        // The client reports errors of the connection.
        tokio::spawn(async move { echo(stream).await.ok() });
    }
}

/// Sends all data back to the peer.
pub(crate) async fn echo(mut stream: Stream) -> Result<()> {
    let mut message = [0; MESSAGE];
    loop {
        let read = stream.read(&mut message).await?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&message[..read]).await?;
        stream.flush().await?;
    }
}

async fn ask(stream: &mut Stream, message: &mut [u8]) -> Result<()> {
    stream.write_all(message).await?;
    stream.flush().await?;
    stream.read_exact(message).await?;
    Ok(())
}

async fn exchange(transport: Transport, to: SocketAddr, exchanges: usize) -> Result<Latency> {
    let connector = Connector::new(transport)?;
    let mut stream = connector.connect(to).await?;
    let mut message = [7; MESSAGE];
    for _ in 0..WARM_UP {
        ask(&mut stream, &mut message).await?;
    }
    let mut micros = Vec::with_capacity(exchanges);
    for _ in 0..exchanges {
        let start = monotonic_now();
        ask(&mut stream, &mut message).await?;
        micros.push(seconds_since(start) * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    let of = |percent| percentile(&micros, percent).context("no exchanges");
    Ok(Latency { p50_us: of(50)?, p99_us: of(99)? })
}

async fn connect(transport: Transport, to: SocketAddr, connections: usize) -> Result<f64> {
    let connector = Connector::new(transport)?;
    let start = monotonic_now();
    for _ in 0..connections {
        let mut stream = connector.connect(to).await?;
        ask(&mut stream, &mut [7]).await?;
    }
    Ok(seconds_since(start))
}

async fn serve_idle(transport: Transport, connections: usize) -> Result<()> {
    let listener = Listener::bind(transport, SERVER_IP).await?;
    // The vector is allocated first, because its memory must not count as that of connections.
    let mut streams = Vec::with_capacity(connections);
    let before = resident()?;
    worker::say(&listener.local_addr()?)?;
    while streams.len() < connections {
        let mut stream = listener.accept().await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        stream.write_all(&byte).await?;
        stream.flush().await?;
        streams.push(stream);
    }
    sleep(REST).await;
    worker::say(&resident()?.saturating_sub(before))?;
    worker::until_ended().await
}

async fn hold(transport: Transport, to: SocketAddr, connections: usize) -> Result<()> {
    let connector = Connector::new(transport)?;
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = connector.connect(to).await?;
        ask(&mut stream, &mut [7]).await?;
        streams.push(stream);
    }
    worker::until_ended().await
}

impl Bench {
    fn server(&self, job: &Job) -> Result<(Worker, SocketAddr)> {
        let mut server = self.workers.spawn(job, None)?;
        let addr = server.hear().context("the server")?;
        Ok((server, addr))
    }

    /// Runs a client of each transport in turn, each with a new server.
    fn interleaved<T: serde::de::DeserializeOwned>(
        &self,
        job: impl Fn(Transport, SocketAddr) -> Job,
    ) -> Result<Vec<(Transport, Vec<T>)>> {
        let mut all: Vec<_> = Transport::ALL.map(|transport| (transport, Vec::new())).into();
        for _ in 0..self.runs {
            for (transport, runs) in &mut all {
                let (_server, addr) = self.server(&Job::Echo { transport: *transport })?;
                let mut client = self.workers.spawn(&job(*transport, addr), None)?;
                runs.push(client.hear().with_context(|| format!("the client of {}", transport.name()))?);
            }
        }
        Ok(all)
    }

    fn latency(&self) -> Result<BTreeMap<&'static str, LatencyRow>> {
        let exchanges = self.exchanges;
        let all = self.interleaved::<Latency>(|transport, to| Job::Exchange { transport, to, exchanges })?;
        println!("64 bytes there and back, {exchanges} times, {} runs: median (min to max) in us", self.runs);
        let mut rows = BTreeMap::new();
        for (transport, runs) in all {
            let p50_us = Spread::of(runs.iter().map(|run| run.p50_us));
            let p99_us = Spread::of(runs.iter().map(|run| run.p99_us));
            println!("{:>10} | p50 {} | p99 {}", transport.name(), text(p50_us, 1), text(p99_us, 1));
            rows.insert(transport.name(), LatencyRow { p50_us, p99_us, runs: runs.len() });
        }
        Ok(rows)
    }

    fn connections(&self) -> Result<BTreeMap<&'static str, Spread>> {
        let connections = self.connects;
        let all = self.interleaved::<f64>(|transport, to| Job::Connect { transport, to, connections })?;
        println!("\nconnections a second, one after the other, {connections} each, {} runs", self.runs);
        let mut rows = BTreeMap::new();
        for (transport, runs) in all {
            let rate = Spread::of(runs.iter().map(|seconds| connections as f64 / seconds));
            println!("{:>10} | {}", transport.name(), text(rate, 0));
            rows.insert(transport.name(), rate);
        }
        Ok(rows)
    }

    /// Measures idle connections. If the system does not allow a transport that many connections, prints the reason and
    /// omits the transport.
    fn idle(&self) -> BTreeMap<&'static str, IdleRow> {
        let connections = self.idle / IDLE_CLIENTS * IDLE_CLIENTS;
        println!("\nresident memory of a server, bytes for each of {connections} idle connections");
        let mut rows = BTreeMap::new();
        for transport in Transport::ALL {
            match self.idle_memory(transport, connections) {
                Ok(grown) => {
                    let server_bytes_each = grown as f64 / connections as f64;
                    println!("{:>10} | {server_bytes_each:.0}", transport.name());
                    rows.insert(transport.name(), IdleRow { connections, server_bytes_each });
                }
                Err(error) => println!("{:>10} | not measured: {error:#}", transport.name()),
            }
        }
        rows
    }

    /// Returns the growth of a server's resident memory in bytes.
    fn idle_memory(&self, transport: Transport, connections: usize) -> Result<u64> {
        let (mut server, to) = self.server(&Job::IdleServer { transport, connections })?;
        let job = Job::IdleClient { transport, to, connections: connections / IDLE_CLIENTS };
        let _clients = (0..IDLE_CLIENTS).map(|_| self.workers.spawn(&job, None)).collect::<Result<Vec<_>>>()?;
        server.hear().context("the server")
    }
}

fn text(spread: Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
}
