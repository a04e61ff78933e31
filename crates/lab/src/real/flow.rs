//! Connections over the relay: sender, receiver, and their state.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use longhaul::{TcpInfo, TcpSocket, TcpState};
use longhaul_tcp::{Config, PathCache};
use longhaul_units::Span;
use rustix::net::sockopt::set_tcp_congestion;
use tokio::io::{self as tokio_io, AsyncRead, AsyncReadExt, AsyncWrite, Join, Sink};
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::network::Network;
use super::picoquic::Demo;
use crate::experiment::Foreign;
use crate::stopwatch::Stopwatch;
use crate::world::{FlowSample, FlowState};

/// Polling interval of a sender that waits for the last ACK.
const OFTEN: Duration = Duration::from_millis(10);
/// Interval in seconds between queries for drops at the receiver's socket.
const SELDOM: f64 = 0.1;
/// States in which the peer has acknowledged our FIN, and with it all data. In CLOSING and LAST-ACK it has only sent its
/// own FIN, so data may still be retransmitted (RFC 9293, section 3.6).
const ENDED: [TcpState; 3] = [TcpState::FinWait2, TcpState::TimeWait, TcpState::Closed];
/// Payload of a single write.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The two hosts of a flow, with the configurations of sender and receiver. Each has its own path cache.
#[derive(Clone, Default)]
pub(super) struct Hosts {
    sender: Arc<Config>,
    receiver: Arc<Config>,
}

impl Hosts {
    /// Creates hosts with empty path caches.
    pub(super) fn new(config: &Arc<Config>) -> Self {
        let host = || {
            let mut own = Arc::clone(config);
            if own.path_cache.is_some() {
                Arc::make_mut(&mut own).path_cache = Some(PathCache::default());
            }
            own
        };
        Self { sender: host(), receiver: host() }
    }
}

#[derive(Default)]
pub(super) struct Plan {
    pub(super) hosts: Hosts,
    pub(super) foreign: Option<Foreign>,
    pub(super) bytes: u64,
    pub(super) messages: Option<(u64, Span)>,
    pub(super) start: Span,
    pub(super) reads_after: Span,
    pub(super) after: Option<Range<usize>>,
}

impl Plan {
    fn kernel(&self) -> Option<&str> {
        match &self.foreign {
            Some(Foreign::Kernel(congestion)) => Some(congestion),
            _ => None,
        }
    }
}

/// A connection, with the last known state of its sender.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) plan: Plan,
    /// Time of the connect, in seconds.
    pub(super) opened: Cell<Option<f64>>,
    /// Bytes that the receiving application has read, the time of the last read, and whether the end of the stream
    /// was reached.
    pub(super) read: Cell<u64>,
    read_at: Cell<f64>,
    /// When the first message was due, in seconds, and the delays of those that were read.
    messages_from: Cell<f64>,
    pub(super) message_delays: RefCell<Vec<f64>>,
    pub(super) has_ended: Cell<bool>,
    /// Whether the sender has finished.
    is_done: Cell<bool>,
    stream: RefCell<Option<Stream>>,
    /// Both ends of a picoquic flow.
    demo: OnceCell<Demo>,
    known: Cell<FlowSample>,
    state: RefCell<Option<FlowState>>,
    /// Datagrams dropped at the sender's and the receiver's socket.
    lost: [Cell<u64>; 2],
    /// Seconds for which the sender had data to send but was not scheduled.
    pub(super) starved: Cell<f64>,
    pub(super) failure: RefCell<Option<String>>,
}

impl Flow {
    pub(super) fn new(plan: Plan) -> Self {
        Self { plan, ..Self::default() }
    }

    pub(super) fn listen(&self, address: IpAddr) -> io::Result<Listener> {
        if let Some(Foreign::Picoquic(congestion)) = &self.plan.foreign {
            let (demo, pipe) = Demo::new(congestion, self.plan.bytes)?;
            let _ = self.demo.set(demo);
            return Ok(Listener::Picoquic(Cell::new(Some(pipe)), (address, 0).into()));
        }
        Socket::new(&self.plan.hosts.receiver, self.plan.kernel())?.listen(address)
    }

    /// Creates the sender's socket, or starts picoquic's server instead.
    pub(super) fn socket(&self, network: &Network) -> io::Result<Option<Socket>> {
        if let Some(demo) = self.demo.get() {
            return demo.serve(network).map(|()| None);
        }
        let (config, kernel) = (&self.plan.hosts.sender, self.plan.kernel());
        network.inside(|| Socket::new(config, kernel)).map(Some)
    }

    pub(super) fn is_over(&self) -> bool {
        self.failure.borrow().is_some() || (self.is_done.get() && self.has_ended.get())
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.iter().map(Cell::get).sum()
    }

    pub(super) fn fail(&self, error: &io::Error) {
        self.failure.borrow_mut().get_or_insert_with(|| error.to_string());
    }

    /// Sends all data from the start time on, relative to `from`, and waits until it is acknowledged.
    pub(super) async fn send(
        &self,
        clock: Stopwatch,
        from: f64,
        socket: Option<Socket>,
        to: SocketAddr,
    ) -> io::Result<()> {
        sleep_until(clock, from + self.plan.start.as_secs_f64()).await;
        self.opened.set(Some(clock.seconds()));
        let Some(socket) = socket else { return self.fetch().await };
        let stream = socket.connect(to).await?;
        self.stream.replace(Some(stream));
        let mut left = self.plan.bytes;
        if let Some((bytes, every)) = self.plan.messages {
            self.write_messages(clock, bytes, every).await?;
            left = 0;
        }
        while left > 0 {
            let chunk = usize::try_from(left).ok().and_then(|left| ZEROS.get(..left)).unwrap_or(&ZEROS);
            let written = self.with_stream(|stream, cx| stream.poll_write(cx, chunk)).await?;
            left -= written as u64;
        }
        self.with_stream(|stream, cx| stream.poll_shutdown(cx)).await?;
        while !self.look() {
            sleep(OFTEN).await;
        }
        self.is_done.set(true);
        Ok(())
    }

    /// Makes picoquic's client fetch all data.
    async fn fetch(&self) -> io::Result<()> {
        let Some(demo) = self.demo.get() else { return Ok(()) };
        demo.fetch()?;
        while !self.has_ended.get() {
            demo.check(self.read.get())?;
            sleep(OFTEN).await;
        }
        self.is_done.set(true);
        Ok(())
    }

    /// Writes messages, each at its time, up to the number of bytes in the plan.
    async fn write_messages(&self, clock: Stopwatch, bytes: u64, every: Span) -> io::Result<()> {
        let begun = clock.seconds();
        self.messages_from.set(begun);
        for number in 0..self.plan.bytes / bytes {
            sleep_until(clock, begun + number as f64 * every.as_secs_f64()).await;
            let mut left = bytes;
            while left > 0 {
                let chunk = &ZEROS[..usize::try_from(left).map_or(ZEROS.len(), |left| left.min(ZEROS.len()))];
                left -= self.with_stream(|stream, cx| stream.poll_write(cx, chunk)).await? as u64;
            }
        }
        Ok(())
    }

    /// Records the delays of the messages of which the last byte has been read.
    fn note_messages(&self, now: f64) {
        let Some((bytes, every)) = self.plan.messages else { return };
        let mut delays = self.message_delays.borrow_mut();
        while (delays.len() as u64 + 1) * bytes <= self.read.get() {
            let due = self.messages_from.get() + delays.len() as f64 * every.as_secs_f64();
            delays.push(now - due);
        }
    }

    /// Polls the stream, which is borrowed only during each poll, because samples are taken in between.
    async fn with_stream<T>(
        &self,
        poll: impl Fn(Pin<&mut dyn Connection>, &mut std::task::Context<'_>) -> std::task::Poll<io::Result<T>>,
    ) -> io::Result<T> {
        poll_fn(|cx| match &mut *self.stream.borrow_mut() {
            Some(stream) => poll(stream.as_mut(), cx),
            None => std::task::Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        })
        .await
    }

    /// Updates the known state of the sender. Returns whether no further change is expected, which for the kernel's TCP
    /// is the case when the receiver has read everything.
    fn look(&self) -> bool {
        let info = self.stream.borrow().as_ref().map(|stream| stream.info());
        let Some(info) = info else { return false };
        let Some(info) = info else { return self.has_ended.get() };
        let Ok(info) = info else { return true };
        let mut known = self.known.get();
        count(&mut known, &info);
        self.known.set(known);
        self.lost[0].set(info.socket.kernel_drops);
        self.starved.set(info.limited_by.cpu.as_secs_f64());
        let has_ended = ENDED.contains(&info.state);
        self.state.replace(Some(state(&info)));
        has_ended
    }

    /// Reads all data from the time on at which the application begins to read. `hear` is called after each read.
    pub(super) async fn receive(&self, clock: Stopwatch, listener: Listener, hear: impl Fn()) -> io::Result<()> {
        let mut stream = listener.accept().await?;
        let from = self.opened.get().unwrap_or_default() + self.plan.reads_after.as_secs_f64();
        sleep_until(clock, from).await;
        let (mut buffer, mut next_look) = (vec![0; 1 << 20], 0.0);
        loop {
            let read = stream.read(&mut buffer).await?;
            let now = clock.seconds();
            if (read == 0 || now >= next_look)
                && let Some(Ok(info)) = stream.info()
            {
                self.lost[1].set(info.socket.kernel_drops);
                next_look = now + SELDOM;
            }
            if read == 0 {
                break;
            }
            self.read.set(self.read.get() + read as u64);
            self.read_at.set(now);
            self.note_messages(now);
            hear();
        }
        // A pipe also ends early if picoquic's connection ends early.
        self.has_ended.set(self.demo.get().is_none() || self.read.get() >= self.plan.bytes);
        Ok(())
    }

    pub(super) fn sample(&self) -> (FlowSample, Option<FlowState>) {
        self.look();
        let ended = self.has_ended.get().then(|| self.read_at.get());
        let completion = ended.zip(self.opened.get()).map(|(ended, opened)| ended - opened);
        let sample = FlowSample { read: self.read.get() as f64, completion, ..self.known.get() };
        (sample, self.state.borrow().clone())
    }
}

/// Sleeps until `at` seconds after the start of the run.
pub(super) async fn sleep_until(clock: Stopwatch, at: f64) {
    let left = at - clock.seconds();
    if left > 0.0 {
        sleep(Duration::from_secs_f64(left)).await;
    }
}

fn count(known: &mut FlowSample, info: &TcpInfo) {
    known.sent_again = info.bytes_retrans as f64;
    known.sent = info.bytes_sent as f64 - known.sent_again;
    known.probes = info.experiments().probes.map_or(0.0, |probes| probes.bytes_sent as f64);
    known.segments = info.data_segs_out as f64;
    known.acks = info.segs_in as f64;
    known.resent = info.total_retrans as f64;
    known.dsacks = info.dsack_dups as f64;
    known.has_sack = info.options.sack;
    known.recoveries = info.recoveries as f64;
    known.undone = info.spurious_recoveries as f64;
    known.timeouts = info.timeouts as f64;
}

fn state(info: &TcpInfo) -> FlowState {
    let rates = [
        ("bandwidth", info.bandwidth_bytes_per_second),
        ("delivery-rate", info.delivery_bytes_per_second),
        ("pacing-rate", info.pacing_bytes_per_second),
        ("capacity", info.experiments().pairs.and_then(|pairs| pairs.capacity_bytes_per_second)),
    ];
    let rates = rates.into_iter().filter_map(|(name, rate)| Some((name, rate? as f64 * 8e-6)));
    let spans = [("srtt", info.rtt), ("latest-rtt", info.latest_rtt), ("min-rtt", info.min_rtt)];
    let spans = spans.into_iter().filter_map(|(name, time)| Some((name, time?.as_secs_f64() * 1e3)));
    FlowState {
        cwnd: info.snd_cwnd_bytes as f64,
        ssthresh: info.snd_ssthresh_bytes.map(|bytes| bytes as f64),
        in_flight: info.in_flight_bytes as f64,
        srtt: info.rtt.map(|rtt| rtt.as_secs_f64()),
        estimates: rates.chain(spans).collect(),
    }
}

pub(super) enum Socket {
    Longhaul(Box<TcpSocket>),
    Kernel(tokio::net::TcpSocket),
}

pub(super) enum Listener {
    Longhaul(longhaul::TcpListener),
    Kernel(tokio::net::TcpListener),
    /// The pipe to which picoquic's client writes, and an unused address.
    Picoquic(Cell<Option<pipe::Receiver>>, SocketAddr),
}

pub(super) type Stream = Pin<Box<dyn Connection>>;

pub(super) trait Connection: AsyncRead + AsyncWrite {
    /// Returns the state of a connection of longhaul.
    fn info(&self) -> Option<io::Result<TcpInfo>>;
}

impl Connection for longhaul::TcpStream {
    fn info(&self) -> Option<io::Result<TcpInfo>> {
        Some(self.info())
    }
}

impl Connection for tokio::net::TcpStream {
    fn info(&self) -> Option<io::Result<TcpInfo>> {
        None
    }
}

impl Connection for Join<pipe::Receiver, Sink> {
    fn info(&self) -> Option<io::Result<TcpInfo>> {
        None
    }
}

impl Socket {
    /// Creates a socket of longhaul with this configuration, or of the kernel's TCP with this congestion control. The
    /// path is not shared with others, so unsafe congestion controllers are allowed.
    pub(super) fn new(config: &Config, kernel: Option<&str>) -> io::Result<Self> {
        let Some(congestion) = kernel else {
            let mut socket = TcpSocket::new_v4()?;
            *socket.config() = longhaul::Config::from_engine(config.clone());
            socket.config().allow_unsafe_congestion(true);
            return Ok(Self::Longhaul(Box::new(socket)));
        };
        let socket = tokio::net::TcpSocket::new_v4()?;
        let told =
            |error| io::Error::other(format!("the kernel's {congestion:?}: {error} (modprobe tcp_{congestion})"));
        set_tcp_congestion(&socket, congestion).map_err(told)?;
        socket.set_nodelay(true)?;
        Ok(Self::Kernel(socket))
    }

    pub(super) fn listen(self, address: IpAddr) -> io::Result<Listener> {
        let address = SocketAddr::new(address, 0);
        match self {
            Self::Longhaul(socket) => {
                socket.bind(address)?;
                socket.listen(1).map(Listener::Longhaul)
            }
            Self::Kernel(socket) => {
                socket.bind(address)?;
                socket.listen(1).map(Listener::Kernel)
            }
        }
    }

    pub(super) async fn connect(self, to: SocketAddr) -> io::Result<Stream> {
        match self {
            Self::Longhaul(socket) => Ok(Box::pin(socket.connect(to).await?)),
            Self::Kernel(socket) => Ok(Box::pin(socket.connect(to).await?)),
        }
    }
}

impl Listener {
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Longhaul(listener) => listener.local_addr(),
            Self::Kernel(listener) => listener.local_addr(),
            Self::Picoquic(_, address) => Ok(*address),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Longhaul(listener) => Ok(Box::pin(listener.accept().await?.0)),
            Self::Kernel(listener) => Ok(Box::pin(listener.accept().await?.0)),
            Self::Picoquic(pipe, _) => {
                let pipe = pipe.take().ok_or(io::ErrorKind::NotConnected)?;
                Ok(Box::pin(tokio_io::join(pipe, tokio_io::sink())))
            }
        }
    }
}
