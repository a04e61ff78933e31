//! A transfer between longhaul's own sockets, over a relay, in real time.

use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul::{Config, TcpListener, TcpSocket};
use longhaul_link::Histogram;
use longhaul_link::spec::{Direction, Path};
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Counts, Options, Running};
use longhaul_sys::linux::{monotonic_now, run_first};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::emulated::seconds;
use crate::meter::seconds_since;

/// The longest that a completion is waited for.
const PATIENCE: Duration = Duration::from_secs(600);
/// Above that at the 99th percentile the relay was too slow.
pub(super) const TOO_LATE: f64 = 0.001;
/// What the relay's latest packet may be of the completion time.
const DISTURBANCE: f64 = 0.01;
/// How long client and server may wait for a processor on average, seconds: about what the relay's packets wait for each
/// other.
const WAIT: f64 = 0.0001;

/// Zeros to write at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What a transfer came to.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// From connecting to the last byte at the receiving application.
    pub(super) seconds: f64,
    /// The relay's.
    pub(super) lateness: Histogram,
    /// Packets on the way of the data that the link dropped.
    pub(super) dropped: u64,
    /// What the relay saw beside the link.
    pub(super) counts: Counts,
    /// How long client and server waited for a processor each time, on average.
    waited: f64,
}

impl Run {
    /// Datagrams that the relay's sockets lost.
    pub(super) fn lost_beside_the_link(&self) -> u64 {
        self.counts.missed + self.counts.unsent + self.counts.refused
    }

    /// Whether the machine was fast enough for the run to mean something.
    pub(super) fn kept_up(&self) -> bool {
        self.lost_beside_the_link() == 0
            && self.waited < WAIT
            && seconds(self.lateness.quantile(0.99)) < TOO_LATE
            && seconds(self.lateness.max()) < DISTURBANCE * self.seconds
    }
}

/// A relay to a server on this host.
pub(super) fn relay(path: &Path, server: SocketAddr) -> Result<Running> {
    Running::start(&Options::new((Ipv4Addr::LOCALHOST, 0).into(), server), path, Logs::default())
}

/// Sends `size` bytes up. Client and server are on a thread of their own, which goes before all others if it may, as the
/// relay's does.
pub(super) fn transfer(path: &Path, config: &Config, size: u64) -> Result<Run> {
    let work = || {
        // Whoever may not shares the processors with everybody else, and is told what that cost.
        let _ = run_first();
        transfer_here(path, config, size)
    };
    thread::scope(|scope| scope.spawn(work).join()).ok().context("client or server failed")?
}

fn transfer_here(path: &Path, config: &Config, size: u64) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = runtime.block_on(async {
        let listener = TcpListener::bind_with((Ipv4Addr::LOCALHOST, 0).into(), config.clone()).await?;
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
    // What is still under way has nobody to arrive at.
    runtime.shutdown_background();
    run
}

/// Goes on until it is dropped: whoever receives knows when all is there.
async fn send(to: SocketAddr, config: Config, size: u64) -> Result<Infallible> {
    let socket = TcpSocket::new_v4()?;
    socket.set_config(config);
    let mut stream = socket.connect(to).await?;
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

/// For how many seconds this thread could have run so far, and had no processor; and how often it got one (proc(5)).
fn waits() -> Result<(f64, f64)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("reading /proc/thread-self/schedstat")?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [_, waited_ns, slices] = fields[..] else { anyhow::bail!("unknown format of schedstat: {text}") };
    Ok((waited_ns as f64 / 1e9, slices as f64))
}
