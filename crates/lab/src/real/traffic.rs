//! Cross traffic: a UDP socket on either side of the link, which sends on schedule and ignores congestion.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_link::Histogram;
use longhaul_link::source::Source;
use longhaul_sys::linux::{self, Transmit, run_first};
use longhaul_units::{Rate, Span, Time};

use crate::experiment::{CellSetup, TrafficSetup};
use crate::stopwatch::Stopwatch;
use crate::world::build::TRAFFIC_STREAMS;

/// Bytes of the IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Maximum UDP payload in bytes.
const MOST: usize = 65_507;
/// Interval of the datagrams that open the reverse path through the relay.
const OPENINGS: Duration = Duration::from_secs(1);
/// Maximum duration of one sleep, in seconds.
const LONG: f64 = 3600.0;
static ZEROS: [u8; MOST] = [0; MOST];

/// Cross traffic of one name with a rate above 0.
pub(super) struct CrossTraffic {
    setup: TrafficSetup,
    /// The first of the two random streams.
    stream: u64,
    left: UdpSocket,
    right: UdpSocket,
}

pub(super) fn all(setup: &CellSetup) -> io::Result<Vec<CrossTraffic>> {
    let there_is = (0u64..).zip(&setup.traffic).filter(|(_, traffic)| traffic.rate != Rate::ZERO);
    there_is.map(|(number, setup)| CrossTraffic::new(setup, TRAFFIC_STREAMS + 2 * number)).collect()
}

impl CrossTraffic {
    fn new(setup: &TrafficSetup, stream: u64) -> io::Result<Self> {
        let socket = || UdpSocket::bind(("127.0.0.1", 0));
        Ok(Self { setup: setup.clone(), stream, left: socket()?, right: socket()? })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.right.local_addr()
    }

    fn tos(&self) -> u8 {
        self.setup.dscp << 2 | self.setup.ecn.bits()
    }

    /// Returns the sources in both directions, each if it exists, with the random streams of virtual time.
    fn sources(&self, seed: u64) -> [Option<Source>; 2] {
        let source = |way: usize| self.setup.source(seed, self.stream + way as u64);
        [0, 1].map(|way| self.setup.ways[way].then(|| source(way)))
    }
}

/// Result of a source: lateness, and packets that the system rejected.
#[derive(Default)]
struct Sent {
    lateness: Histogram,
    unsent: u64,
}

/// Running cross traffic, with one thread per direction.
#[derive(Default)]
pub(super) struct Running {
    stops: Vec<Sender<()>>,
    threads: Vec<JoinHandle<io::Result<Sent>>>,
}

impl Running {
    /// Starts all cross traffic. `relay` contains the relay's address for each.
    pub(super) fn start(all: Vec<CrossTraffic>, relay: &[SocketAddr], clock: Stopwatch, seed: u64) -> Result<Self> {
        let mut running = Self::default();
        for (traffic, relay) in all.into_iter().zip(relay.iter().copied()) {
            let (tos, stop) = (traffic.tos(), Time::ZERO + traffic.setup.stop);
            let [there, back] = traffic.sources(seed);
            let (left, right) = (traffic.left, traffic.right);
            let sockets = [left.try_clone()?, right.try_clone()?];
            if let Some(source) = there {
                let due = Due { source, until: stop, clock };
                running.spawn(move |stopped| {
                    let sent = due.send(&linux::UdpSocket::new(left)?, relay, tos, &stopped);
                    // Keep the receiving socket open to the end.
                    drop(right);
                    Ok(sent)
                })?;
            }
            if let Some(source) = back {
                let due = Due { source, until: stop, clock };
                running.spawn(move |stopped| {
                    let [left, right] = sockets;
                    let Some(client) = show_way(&left, &right, relay, &stopped)? else { return Ok(Sent::default()) };
                    Ok(due.without_past().send(&linux::UdpSocket::new(right)?, client, tos, &stopped))
                })?;
            }
        }
        Ok(running)
    }

    fn spawn(&mut self, work: impl FnOnce(Receiver<()>) -> io::Result<Sent> + Send + 'static) -> io::Result<()> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let _ = run_first();
            work(stopped)
        };
        self.threads.push(thread::Builder::new().name("traffic".to_owned()).spawn(run)?);
        self.stops.push(stop);
        Ok(())
    }

    /// Stops all cross traffic. Returns the largest 99th percentile of lateness in seconds, and the number of packets
    /// that the system rejected.
    pub(super) fn stop(self) -> Result<(f64, u64)> {
        drop(self.stops);
        let (mut lateness, mut unsent) = (0.0_f64, 0);
        for thread in self.threads {
            let sent = thread.join().ok().context("a thread of cross traffic failed")?.context("cross traffic")?;
            lateness = lateness.max(sent.lateness.quantile(0.99).as_secs_f64());
            unsent += sent.unsent;
        }
        Ok((lateness, unsent))
    }
}

/// Sends empty datagrams until one has crossed the relay, so that the relay knows the left address. Returns the
/// relay's address as seen on the right, or `None` if stopped before.
fn show_way(
    left: &UdpSocket,
    right: &UdpSocket,
    relay: SocketAddr,
    stopped: &Receiver<()>,
) -> io::Result<Option<SocketAddr>> {
    right.set_read_timeout(Some(OPENINGS))?;
    while !is_stopped(stopped) {
        left.send_to(&[], relay)?;
        match right.recv_from(&mut [0]) {
            Ok((_, client)) => return Ok(Some(client)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn is_stopped(stopped: &Receiver<()>) -> bool {
    stopped.try_recv() == Err(mpsc::TryRecvError::Disconnected)
}

/// Packets to send at their times since the start of the run.
struct Due {
    source: Source,
    until: Time,
    clock: Stopwatch,
}

impl Due {
    /// Skips packets whose time has passed.
    fn without_past(mut self) -> Self {
        let now = self.now();
        let mut rest = self.source.clone();
        while rest.next().is_some_and(|(at, _)| at < now.min(self.until)) {
            self.source = rest.clone();
        }
        self
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from_secs_f64(self.clock.seconds())
    }

    fn send(mut self, socket: &linux::UdpSocket, to: SocketAddr, tos: u8, stopped: &Receiver<()>) -> Sent {
        let mut sent = Sent::default();
        while let Some((at, size)) = self.source.next().filter(|(at, _)| *at < self.until) {
            if !self.sleep_until(at, stopped) {
                break;
            }
            let payload = ZEROS.get(..(size as usize).saturating_sub(HEADERS)).unwrap_or(&ZEROS);
            let slices = &[IoSlice::new(payload)];
            let transmit = Transmit { destination: Some(to), tos, src_ip: None, segment_size: None, slices };
            sent.unsent += u64::from(socket.send(&transmit).is_err());
            sent.lateness.add(self.now().since(at));
        }
        sent
    }

    /// Sleeps until `at`. Returns false if stopped before.
    fn sleep_until(&self, at: Time, stopped: &Receiver<()>) -> bool {
        loop {
            let left = at.since(self.now()).as_secs_f64().min(LONG);
            if left <= 0.0 {
                return !is_stopped(stopped);
            }
            if stopped.recv_timeout(Duration::from_secs_f64(left)) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
        }
    }
}
