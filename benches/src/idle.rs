//! The bench `idle`: processes, measurements and the table. `benches/idle.rs` describes it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul::TcpConnector;
use longhaul_link::statistics::{jain, percentile, sorted};
use longhaul_sys::linux::monotonic_now;
use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::generated::{Page, Task, docs, processor, section, table};
use crate::meter::{cpu_of, resident_of, seconds_since};
use crate::report::setting;
use crate::shards::{download, greet, greeted, serve};
use crate::transport::{Connector, Duplex, Transport, kernel_tcp, longhaul_socket};
use crate::worker::{self, Worker, Workers};

const COMMAND: &str = "cargo bench --bench idle -- --write";
const TITLE: &str = "Idle connections";
const RIVALS: [Transport; 2] = [Transport::Longhaul, Transport::Tcp];
/// Number of loopback addresses of the idle connections. A UDP socket of longhaul has at most one connection to each.
const ADDRESSES: usize = 400;
/// Number of concurrent handshakes.
const PARALLEL: usize = 64;
/// Maximum time until all active streams are connected.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between the start of the load and the start of the measurement, in which all streams leave slow start.
const WARM_UP: Duration = Duration::from_secs(5);
/// Time after the last idle connection was opened, in which the timers of its handshake expire.
const SETTLING: Duration = Duration::from_secs(5);
/// Interval between new connections.
const NEWCOMERS: Duration = Duration::from_millis(10);

/// Job of a worker. Clients know the server's port.
#[derive(Debug, Serialize, Deserialize)]
enum Job {
    /// Reports its address, and serves any number of clients.
    Serve { transport: Transport },
    /// Opens `count` connections, reports the seconds that this took, and keeps them.
    Idle { transport: Transport, port: u16, count: usize },
    /// Reports the goodput of each of `count` streams in bytes per second.
    Active { transport: Transport, port: u16, count: usize, millis: u64 },
    /// Opens one connection after the other, and reports the seconds that each took, in ascending order.
    Newcomers { transport: Transport, port: u16, millis: u64 },
}

/// Measurements with or without idle connections.
#[derive(Clone, Debug, Default)]
struct Service {
    goodputs: Vec<f64>,
    /// Seconds that each new connection took while the streams were active. `quiet` is the same without the streams.
    busy: Vec<f64>,
    quiet: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Row {
    idle: usize,
    before: Service,
    beside: Service,
    connects_per_s: f64,
    bytes_each: f64,
    /// CPU time of the server per second while all connections are idle.
    idle_cpu: f64,
}

/// Runs the bench, or a process of it.
///
/// # Errors
/// Returns an error if a connection failed.
pub fn main() -> Result<()> {
    if let Some(job) = worker::job()? {
        return worker::run(work(job));
    }
    let task = Task::from_args()?;
    let idle: usize = setting("LONGHAUL_BENCH_IDLE", 100_000)?.max(1);
    let active: usize = setting("LONGHAUL_BENCH_ACTIVE", 1000)?.max(1);
    let millis: u64 = setting("LONGHAUL_BENCH_MS", 5000)?;
    let bench = Bench { workers: Workers::new()?, idle, active, millis };
    let rows = RIVALS.map(|rival| bench.run(rival).with_context(|| rival.name().to_owned()));
    let text = bench.text(&rows.into_iter().collect::<Result<Vec<_>>>()?);
    println!("{text}");
    let path = docs("costs.md");
    let text = section(&path, TITLE, &text)?;
    Page { path, text }.settle(task)
}

struct Bench {
    workers: Workers,
    idle: usize,
    active: usize,
    millis: u64,
}

impl Bench {
    fn run(&self, transport: Transport) -> Result<Row> {
        // A connection of kernel TCP is an open file, whose number is limited.
        let idle = match transport {
            Transport::Tcp => self.idle.min(open_files()?.saturating_sub(2 * self.active)),
            _ => self.idle,
        };
        let serve = || -> Result<(Worker, u16)> {
            let mut server = self.workers.spawn(&Job::Serve { transport }, None)?;
            let port = server.hear::<SocketAddr>().context("the server")?.port();
            Ok((server, port))
        };
        let (server, port) = serve()?;
        let before = self.measure(transport, port)?;
        server.finish()?;
        // The idle connections get a new server, because they would otherwise reuse memory that the streams have freed.
        let (server, port) = serve()?;
        let memory = resident_of(&server.process())?;
        let mut clients = self.workers.spawn(&Job::Idle { transport, port, count: idle }, None)?;
        let seconds: f64 = clients.hear().context("the idle connections")?;
        let bytes = resident_of(&server.process())?.saturating_sub(memory);
        std::thread::sleep(SETTLING);
        let cpu = cpu_of(&server.process())?;
        std::thread::sleep(Duration::from_millis(self.millis));
        let idle_cpu = (cpu_of(&server.process())? - cpu) * 1000.0 / self.millis as f64;
        let beside = self.measure(transport, port)?;
        let each = |total: f64| total / idle as f64;
        Ok(Row { idle, before, beside, connects_per_s: 1.0 / each(seconds), bytes_each: each(bytes as f64), idle_cpu })
    }

    fn measure(&self, transport: Transport, port: u16) -> Result<Service> {
        let quiet = self.newcomers(transport, port)?.hear().context("new connections")?;
        let job = Job::Active { transport, port, count: self.active, millis: self.millis };
        let mut streams = self.workers.spawn(&job, None)?;
        // This report means that the streams are connected.
        streams.hear::<()>().context("active streams")?;
        std::thread::sleep(WARM_UP);
        let mut newcomers = self.newcomers(transport, port)?;
        let goodputs = streams.hear().context("active streams")?;
        // The process must end in order: connections of a killed process would remain on the server for a while.
        streams.done()?;
        Ok(Service { goodputs, quiet, busy: newcomers.hear().context("new connections")? })
    }

    fn newcomers(&self, transport: Transport, port: u16) -> Result<Worker> {
        self.workers.spawn(&Job::Newcomers { transport, port, millis: self.millis }, None)
    }

    fn text(&self, rows: &[Row]) -> String {
        let Self { idle, active, millis, .. } = self;
        let place = processor().map(|name| format!(", on two cores of {name}")).unwrap_or_default();
        let seconds = *millis as f64 / 1000.0;
        let mut text = format!("<!-- generated by {COMMAND} -->\n\n");
        text += &format!(
            "A listener with {idle} idle connections (of kernel TCP as many as the limit of open files permits) over \
             loopback, and {active} streams\nthat download at the same time{place}. One run of {seconds:.0} s per value, \
             which begins\n{} s after the streams where there are any. Server and clients have one thread each, and share the cores, so \
             that a new connection beside\nthe streams waits for its turn. Memory is that of the server's process, with a task \
             per connection; the kernel's own is not in it.\n\n",
            WARM_UP.as_secs()
        );
        let head: Vec<_> = [String::new()].into_iter().chain(RIVALS.map(|rival| rival.name().to_owned())).collect();
        let line = |name: &str, value: &dyn Fn(&Row) -> String| {
            [name.to_owned()].into_iter().chain(rows.iter().map(value)).collect::<Vec<_>>()
        };
        let mut lines = vec![head];
        lines.push(line("idle connections", &|row| row.idle.to_string()));
        lines.push(line("idle connections opened, /s", &|row| format!("{:.0}", row.connects_per_s)));
        lines.push(line("memory of the server for each, bytes", &|row| format!("{:.0}", row.bytes_each)));
        lines
            .push(line("CPU time of the server while all are idle, ms/s", &|row| format!("{:.0}", row.idle_cpu * 1e3)));
        for (when, of) in [("without", Row::before as fn(&Row) -> &Service), ("beside", Row::beside)] {
            let value = |name: &str, value: fn(&Service) -> String| {
                line(&format!("{name}, {when} idle connections"), &|row| value(of(row)))
            };
            lines.push(value("goodput of all streams, Gb/s", |at| {
                format!("{:.2}", at.goodputs.iter().sum::<f64>() * 8e-9)
            }));
            lines.push(value("Jain's index of their goodputs", |at| {
                format!("{:.4}", jain(&at.goodputs).unwrap_or(f64::NAN))
            }));
            lines.push(value("new connection, median and 99th percentile, ms", |at| latency(&at.quiet)));
            lines.push(value("new connection beside the streams, ms", |at| latency(&at.busy)));
        }
        text + &table(&lines)
    }
}

impl Row {
    const fn before(&self) -> &Service {
        &self.before
    }

    const fn beside(&self) -> &Service {
        &self.beside
    }
}

/// Returns the hard limit of the number of files that a process may open.
fn open_files() -> Result<usize> {
    let limits = fs::read_to_string("/proc/self/limits").context("reading the limits of a process")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).context("no limit of open files")?;
    // The second number is the hard limit, to which the worker raises the soft limit.
    Ok(line.split_whitespace().nth(1).context("no hard limit")?.parse().unwrap_or(usize::MAX))
}

/// Formats the median and the 99th percentile of seconds in milliseconds.
fn latency(seconds: &[f64]) -> String {
    let at = |percent| percentile(seconds, percent).map_or(f64::NAN, |value| value * 1e3);
    format!("{:.2}, {:.2}", at(50), at(99))
}

async fn work(job: Job) -> Result<()> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match job {
        Job::Serve { transport } => serve(transport, IpAddr::V4(Ipv4Addr::UNSPECIFIED), 1).await,
        Job::Idle { transport, port, count } => idle(transport, port, count).await,
        Job::Active { transport, port, count, millis } => {
            worker::say(&active(transport, local(port), count, Duration::from_millis(millis)).await?)
        }
        Job::Newcomers { transport, port, millis } => {
            worker::say(&newcomers(transport, local(port), Duration::from_millis(millis)).await?)
        }
    }
}

/// Returns the address of the server for the idle connection `number`.
fn address(number: usize, port: u16) -> SocketAddr {
    let [high, low] = ((number % ADDRESSES) as u16 + 256).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(127, 0, high, low), port))
}

async fn idle(transport: Transport, port: u16, count: usize) -> Result<()> {
    let connectors = match transport {
        Transport::Tcp => Vec::new(),
        _ => (0..count.div_ceil(ADDRESSES))
            .map(|_| Ok(longhaul_socket(transport)?.connector()?))
            .collect::<Result<Vec<TcpConnector>>>()?,
    };
    let (connectors, next, start) = (Arc::new(connectors), Arc::new(AtomicUsize::new(0)), monotonic_now());
    let mut tasks = JoinSet::new();
    for _ in 0..PARALLEL {
        let (connectors, next) = (Arc::clone(&connectors), Arc::clone(&next));
        tasks.spawn(async move {
            let mut streams: Vec<Box<dyn Duplex>> = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(streams);
                }
                let to = address(number, port);
                streams.push(match connectors.get(number / ADDRESSES) {
                    Some(connector) => Box::new(greeted(connector.connect(to).await?).await?),
                    None => Box::new(greeted(kernel_tcp()?.connect(to).await?).await?),
                });
            }
        });
    }
    let mut streams = Vec::new();
    while let Some(done) = tasks.join_next().await {
        streams.push(done??);
    }
    worker::say(&seconds_since(start))?;
    worker::until_ended().await
}

/// Returns the goodputs in bytes per second. Reports once all streams are connected.
async fn active(transport: Transport, to: SocketAddr, count: usize, time: Duration) -> Result<Vec<f64>> {
    let connector = Arc::new(Connector::new(transport)?);
    let all = Arc::new(Barrier::new(count + 1));
    let counters: Vec<_> = (0..count).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut tasks = JoinSet::new();
    for counter in &counters {
        let (connector, counter, all) = (Arc::clone(&connector), Arc::clone(counter), Arc::clone(&all));
        tasks.spawn(async move {
            let stream = greet(&connector, to).await?;
            all.wait().await;
            download(stream, |more| _ = counter.fetch_add(more, Ordering::Relaxed)).await
        });
    }
    let failed = async { tasks.join_next().await.context("no streams")?? };
    tokio::select! {
        connected = timeout(PATIENCE, all.wait()) => {
            connected.context("not all streams were connected")?;
        }
        failed = failed => failed?,
    }
    worker::say(&())?;
    sleep(WARM_UP).await;
    let read = || counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (start, before) = (monotonic_now(), read());
    sleep(time).await;
    let (after, took) = (read(), seconds_since(start));
    tasks.shutdown().await;
    Ok(after.iter().zip(before).map(|(after, before)| (after - before) as f64 / took).collect())
}

/// Returns the seconds that each new connection took until the server's first byte arrived.
async fn newcomers(transport: Transport, to: SocketAddr, time: Duration) -> Result<Vec<f64>> {
    let (connector, begun, mut took) = (Connector::new(transport)?, monotonic_now(), Vec::new());
    let mut next = interval(NEWCOMERS);
    while seconds_since(begun) < time.as_secs_f64() {
        next.tick().await;
        let start = monotonic_now();
        greet(&connector, to).await?;
        took.push(seconds_since(start));
    }
    Ok(sorted(took))
}
