//! The bench `shards`: clients, servers, tables and the JSON file. `benches/shards.rs` describes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_sys::linux::monotonic_now;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Barrier;
use tokio::time::{sleep, timeout};

use crate::meter::seconds_since;
use crate::report::{Spread, setting, write_json};
use crate::rpc;
use crate::transport::{Connector, Duplex, Listener, Stream, Transport};
use crate::worker::{self, Workers};

/// Number of client processes, with one thread each.
const CLIENTS: usize = 2;
/// Maximum time until all streams of a client are connected.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between the start of the load and the start of the measurement.
const WARM_UP: Duration = Duration::from_millis(300);
/// Number of bytes of a request and of its response.
const MESSAGE: usize = 64;
/// Number of bytes per write of the server and per read of its client, in a download.
const BLOCK: usize = 64 << 10;
/// Number of blocks per download. The client requests the next download when it has read all blocks, so that the
/// buffers of all streams together stay small.
const BLOCKS: usize = 16;
const SERVER_IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// First byte that a client sends, which the server returns. The next byte tells the server which load to serve.
const HELLO: u8 = b'h';
const ECHO: u8 = b'e';
const SEND: u8 = b's';

/// Load that the clients generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Each stream sends the next request when it has received the response to the previous one.
    Requests,
    /// Each task connects, exchanges one message and drops the stream.
    Connections,
    /// Each stream requests one download after the other.
    Goodput,
}

impl Load {
    const ALL: [Self; 3] = [Self::Requests, Self::Connections, Self::Goodput];

    /// Returns the name in results, and the unit of a count divided by `scale`.
    const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_s",
            Self::Connections => "connections_per_s",
            Self::Goodput => "gbit_per_s",
        }
    }

    /// Returns the number of streams or tasks of all clients.
    pub(crate) const fn streams(self) -> usize {
        match self {
            Self::Requests => 64,
            Self::Connections => 32,
            Self::Goodput => 200,
        }
    }

    /// Returns the factor that converts a count per second (of requests, connections or bytes) to the unit of results.
    const fn scale(self) -> f64 {
        match self {
            Self::Requests | Self::Connections => 1.0,
            Self::Goodput => 8e-9,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Reports its address, and serves any number of clients.
    Serve { transport: Transport, shards: usize },
    /// Loads the server at `to`, and reports the count per second.
    Client { transport: Transport, to: SocketAddr, load: Load, streams: usize, millis: u64 },
}

/// Transport, and the number of shards and of threads of its server.
type Rival = (Transport, usize);

/// Results by load, rival and number of shards.
type Results = BTreeMap<&'static str, BTreeMap<String, Spread>>;

/// Runs the bench, or a client or server if this process is a worker. [`write_json`] describes `target_tmpdir`.
///
/// # Errors
/// Returns an error if a connection failed.
pub fn main(target_tmpdir: &str) -> Result<()> {
    if let Some(job) = worker::job()? {
        let threads = if let Job::Serve { shards, .. } = &job { *shards } else { 1 };
        return worker::run_on(threads, work(job));
    }
    let runs: usize = setting("LONGHAUL_BENCH_RUNS", 3)?.max(1);
    let millis: u64 = setting("LONGHAUL_BENCH_MS", 1500)?;
    let most: usize = setting("LONGHAUL_BENCH_SHARDS", 2)?.max(1);
    let pin = setting("LONGHAUL_BENCH_PIN", 0)? != 0;
    let workers = Workers::new()?;
    let rivals: Vec<Rival> = Transport::ALL.into_iter().flat_map(|t| [1, most].map(|shards| (t, shards))).collect();
    println!("{CLIENTS} clients, {millis} ms, {runs} runs each, interleaved: median (min to max)");
    let mut results = Results::new();
    for load in Load::ALL {
        let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for _ in 0..runs {
            for rival in &rivals {
                let rate = run(&workers, *rival, load, (millis, pin))
                    .with_context(|| format!("{} of {rival:?}", load.name()))?;
                rates.entry(name(*rival)).or_default().push(rate);
            }
        }
        println!("\n{}, {} streams", load.name(), load.streams());
        let rows: BTreeMap<_, _> = rates.into_iter().map(|(name, rates)| (name, Spread::of(rates))).collect();
        for (name, Spread { median, min, max }) in &rows {
            println!("{name:>12} | {median:.2} ({min:.2} to {max:.2})");
        }
        results.insert(load.name(), rows);
    }
    write_json(target_tmpdir, "shards.json", &results)
}

fn name((transport, shards): Rival) -> String {
    format!("{} {shards}", transport.name())
}

/// Runs the clients against a new server for some milliseconds, and returns the sum of their rates. With `pin`, each
/// client runs on a core of its own.
fn run(workers: &Workers, (transport, shards): Rival, load: Load, (millis, pin): (u64, bool)) -> Result<f64> {
    let mut server = workers.spawn(&Job::Serve { transport, shards }, None)?;
    let to = server.hear().context("the server")?;
    let streams = load.streams() / CLIENTS;
    let job = Job::Client { transport, to, load, streams, millis };
    let spawn = |core: usize| {
        if !pin {
            return workers.spawn(&job, None);
        }
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", &core.to_string()]);
        workers.spawn_under(taskset, &job)
    };
    let mut clients = (0..CLIENTS).map(spawn).collect::<Result<Vec<_>>>()?;
    let rates = clients.iter_mut().map(|client| client.hear::<f64>().context("a client"));
    Ok(rates.sum::<Result<f64>>()? * load.scale())
}

pub(crate) async fn work(job: Job) -> Result<()> {
    match job {
        Job::Serve { transport, shards } => serve(transport, SERVER_IP, shards).await,
        Job::Client { transport, to, load, streams, millis } => {
            worker::say(&client(transport, to, load, streams, Duration::from_millis(millis)).await?)
        }
    }
}

/// Reports an address with `ip`, and serves any number of clients at this address.
pub(crate) async fn serve(transport: Transport, ip: IpAddr, shards: usize) -> Result<()> {
    let listener = Listener::bind_sharded(transport, ip, shards).await?;
    worker::say(&listener.local_addr()?)?;
    loop {
        let stream = listener.accept().await?;
        // The client reports errors of the connection.
        tokio::spawn(async move { answer(stream).await.ok() });
    }
}

async fn answer(mut stream: Stream) -> Result<()> {
    let hello = stream.read_u8().await?;
    stream.write_u8(hello).await?;
    stream.flush().await?;
    if stream.read_u8().await? == SEND {
        let block = vec![7; BLOCK];
        loop {
            for _ in 0..BLOCKS {
                stream.write_all(&block).await?;
            }
            stream.flush().await?;
            stream.read_u8().await?;
        }
    }
    rpc::echo(stream).await
}

/// Runs `streams` tasks, and returns the sum of their counts per second, measured after all are connected.
async fn client(transport: Transport, to: SocketAddr, load: Load, streams: usize, time: Duration) -> Result<f64> {
    let connector = Arc::new(Connector::new(transport)?);
    let (count, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(streams + 1)));
    let mut tasks = Vec::new();
    for _ in 0..streams {
        let (connector, count, all) = (Arc::clone(&connector), Arc::clone(&count), Arc::clone(&all));
        tasks.push(tokio::spawn(async move {
            let progress = |more| _ = count.fetch_add(more, Ordering::Relaxed);
            let stream = greet(&connector, to).await?;
            all.wait().await;
            match load {
                Load::Requests => exchange(stream, progress).await,
                Load::Connections => connect(&connector, to, progress).await,
                Load::Goodput => download(stream, progress).await,
            }
        }));
    }
    timeout(PATIENCE, all.wait()).await.context("not all streams were connected")?;
    sleep(WARM_UP).await;
    let (start, before) = (monotonic_now(), count.load(Ordering::Relaxed));
    sleep(time).await;
    let rate = count.load(Ordering::Relaxed).saturating_sub(before) as f64 / seconds_since(start);
    for task in tasks {
        if task.is_finished() {
            task.await??;
        }
        // Tasks that still run end with the process.
    }
    Ok(rate)
}

/// Connects, and waits until the server returns the first byte.
pub(crate) async fn greet(connector: &Connector, to: SocketAddr) -> Result<Stream> {
    greeted(connector.connect(to).await?).await
}

/// Waits until the server returns the first byte on a new connection.
pub(crate) async fn greeted<S: Duplex>(mut stream: S) -> Result<S> {
    stream.write_u8(HELLO).await?;
    stream.flush().await?;
    stream.read_u8().await?;
    Ok(stream)
}

async fn exchange(mut stream: Stream, progress: impl Fn(u64)) -> Result<()> {
    stream.write_u8(ECHO).await?;
    let mut message = [7; MESSAGE];
    loop {
        stream.write_all(&message).await?;
        stream.flush().await?;
        stream.read_exact(&mut message).await?;
        progress(1);
    }
}

async fn connect(connector: &Connector, to: SocketAddr, progress: impl Fn(u64)) -> Result<()> {
    loop {
        greet(connector, to).await?;
        progress(1);
    }
}

/// Requests one download after the other, and passes the number of bytes of each read to `progress`.
pub(crate) async fn download(mut stream: Stream, progress: impl Fn(u64)) -> Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        stream.write_u8(SEND).await?;
        stream.flush().await?;
        for _ in 0..BLOCKS {
            progress(stream.read_exact(&mut block).await? as u64);
        }
    }
}
