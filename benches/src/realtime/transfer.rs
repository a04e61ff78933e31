//! Transfer between longhaul's sockets over a relay in real time.

use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul::{Config, TcpListener, TcpStream};
use longhaul_link::Histogram;
use longhaul_link::spec::{Direction, Path};
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Counts, Options, Running};
use longhaul_sys::linux::{monotonic_now, run_first};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::meter::seconds_since;

/// Maximum duration of a transfer.
const PATIENCE: Duration = Duration::from_secs(600);
/// 99th percentile of the lateness in seconds above which the relay was too slow.
pub(super) const TOO_LATE: f64 = 0.001;
/// Maximum lateness of a packet, as a fraction of the completion time.
const DISTURBANCE: f64 = 0.01;
/// Maximum mean time in seconds for which client and server may wait for a processor. Packets in the relay wait for
/// each other about as long.
const WAIT: f64 = 0.0001;

/// Data of a single write.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Seconds from connect to the last byte at the receiving application.
    pub(super) seconds: f64,
    pub(super) lateness: Histogram,
    /// Packets that the link dropped in the direction of the data.
    pub(super) dropped: u64,
    /// Counters of the relay outside the link.
    pub(super) counts: Counts,
    /// Mean time that client and server waited for a processor.
    waited: f64,
}

impl Run {
    /// Returns the number of datagrams lost at the relay's sockets.
    pub(super) fn lost_beside_the_link(&self) -> u64 {
        self.counts.missed + self.counts.unsent + self.counts.refused
    }

    /// Returns whether the machine was fast enough for a valid run.
    pub(super) fn kept_up(&self) -> bool {
        self.lost_beside_the_link() == 0
            && self.waited < WAIT
            && self.lateness.quantile(0.99).as_secs_f64() < TOO_LATE
            && self.lateness.max().as_secs_f64() < DISTURBANCE * self.seconds
    }
}

/// Starts a relay to a server on this host.
pub(super) fn relay(path: &Path, server: SocketAddr) -> Result<Running> {
    Running::start(&Options::new((Ipv4Addr::LOCALHOST, 0).into(), server), path, Logs::default())
}

/// Sends `size` bytes upward. Client and server share a thread, which has real-time priority if permitted, like that of
/// the relay.
pub(super) fn transfer(path: &Path, config: &longhaul_tcp::Config, size: u64) -> Result<Run> {
    let config = &Config::from_engine(config.clone());
    let work = || {
        // Without permission, the thread competes with all others for a processor, and `waited` shows the effect.
        let _ = run_first();
        transfer_here(path, config, size)
    };
    thread::scope(|scope| scope.spawn(work).join()).ok().context("client or server failed")?
}

fn transfer_here(path: &Path, config: &Config, size: u64) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = runtime.block_on(async {
        let listener = TcpListener::bind_with((Ipv4Addr::LOCALHOST, 0), config).await?;
        let relay = relay(path, listener.local_addr()?)?;
        let to = relay.local_addr();
        let (began, before) = (monotonic_now(), waits()?);
        let both = async {
            tokio::select! {
                received = receive(&listener, size) => received.map(|()| seconds_since(began)),
                sent = send(to, config.clone(), size) => sent.map(|never| match never {}),
            }
        };
        let seconds = timeout(PATIENCE, both).await.context("the transfer takes too long")??;
        let after = waits()?;
        let waited = (after.0 - before.0) / (after.1 - before.1).max(1.0);
        let (engine, counts) = relay.stop()?;
        let dropped = engine.stats(Direction::Up).all().dropped_total();
        Ok(Run { seconds, lateness: engine.lateness().clone(), dropped, counts, waited })
    });
    // The runtime does not wait for tasks that still send, because their receiver has ended.
    runtime.shutdown_background();
    run
}

/// Drives the sender until it is dropped. Only the receiver knows when all data has arrived.
async fn send(to: SocketAddr, config: Config, size: u64) -> Result<Infallible> {
    let mut stream = TcpStream::connect_with(to, &config).await?;
    let mut left = size;
    while left > 0 {
        let chunk = ZEROS.get(..left as usize).unwrap_or(&ZEROS);
        left -= stream.write(chunk).await? as u64;
    }
    stream.shutdown().await?;
    std::future::pending().await
}

async fn receive(listener: &TcpListener, size: u64) -> Result<()> {
    let (mut stream, _) = listener.accept().await?;
    let (mut buffer, mut received) = (vec![0; 1 << 20], 0);
    while received < size {
        let read = stream.read(&mut buffer).await?;
        anyhow::ensure!(read > 0, "the stream ended after {received} bytes of {size}");
        received += read as u64;
    }
    Ok(())
}

/// Returns the seconds for which this thread was ready to run but had no processor, and how many times it was scheduled
/// (proc(5)).
fn waits() -> Result<(f64, f64)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("reading /proc/thread-self/schedstat")?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [_, waited_ns, slices] = fields[..] else { anyhow::bail!("unknown format of schedstat: {text}") };
    Ok((waited_ns as f64 / 1e9, slices as f64))
}
