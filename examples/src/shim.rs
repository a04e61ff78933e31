//! Joins longhaul's datagrams to a kernel's TCP, over a TUN device.
//!
//! The two forms of a segment differ in the order of a few words, so this keeps no state of connections: it only
//! remembers where datagrams come from and go to.
//!
//! ```text
//! longhaul client --UDP--> door ----> TUN --TCP--> kernel's listener (`Routes::kernel`)
//! longhaul server <--UDP-- a socket for each flow <---- TUN <--TCP-- kernel's client
//! ```
//!
//! A client's packets appear to come from [`Routes::stranger`], with the client's own port. A kernel's client may
//! connect to any address behind the TUN device: it reaches [`Routes::server`].

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_sys::linux::{Meta, RecvBatch, Transmit, Tun, UdpSocket};
use longhaul_sys::pool::RecvPool;
use longhaul_wire::shim::{FromTcp, IpFields, MAX_GROWTH, tcp_from_udp, udp_from_tcp};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long a flow's socket is kept without a datagram from the server: what RFC 4787, REQ-5, recommends for NATs.
const FLOW_TIMEOUT: Duration = Duration::from_secs(300);
/// Longer than any packet of a TUN device.
const PACKET: usize = 65_536;
/// Bytes of socket buffers: a window's worth in one burst.
const SOCKET_BUFFER: usize = 4 << 20;
/// Messages of one receive call.
const MESSAGES: usize = 4;

/// Who talks to whom.
#[derive(Clone, Copy, Debug)]
pub struct Routes {
    /// The kernel's listener, to which datagrams that come to the door go.
    pub kernel: SocketAddr,
    /// The address from which the kernel sees them come: one behind the TUN device.
    pub stranger: IpAddr,
    /// Our listener, to which connections of the kernel's clients go.
    pub server: Option<SocketAddr>,
}

/// What the shim does to packets, in each direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairment {
    /// Share of packets to lose, 0 to 1.
    pub loss: f64,
    /// Share of packets to hold back for 1 to 4 ms, so that later ones overtake them.
    pub reorder: f64,
    /// Seed of both.
    pub seed: u64,
}

/// What the shim did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments passed to the kernel.
    pub to_kernel: u64,
    /// Segments passed from the kernel.
    pub from_kernel: u64,
    /// Segments lost on purpose.
    pub lost: u64,
    /// Segments held back on purpose.
    pub reordered: u64,
}

/// A running shim. It stops when dropped.
#[derive(Debug)]
pub struct Shim {
    joint: Arc<Joint>,
    tasks: JoinSet<io::Result<()>>,
}

impl Shim {
    /// Starts to pass packets between `tun`, which must be up, and UDP sockets: `door` for our clients, and others as
    /// needed. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn start(tun: Tun, door: std::net::UdpSocket, routes: Routes, impairment: Impairment) -> io::Result<Self> {
        let joint = Arc::new(Joint {
            tun: async_fd(tun)?,
            door: open(door)?,
            routes,
            pool: RecvPool::new(16, 0),
            clients: Mutex::default(),
            flows: Mutex::default(),
            fates: [0, 1].map(|direction| Mutex::new(Fates::new(impairment, direction))),
            cut: AtomicBool::new(false),
            counts: Default::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&joint).read_tun());
        tasks.spawn(Arc::clone(&joint).read_door());
        Ok(Self { joint, tasks })
    }

    /// Cuts the path, or joins it again.
    pub fn cut(&self, cut: bool) {
        self.joint.cut.store(cut, Ordering::Relaxed);
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counts = self.joint.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [to_kernel, from_kernel, lost, reordered] = counts;
        Stats { to_kernel, from_kernel, lost, reordered }
    }

    /// Waits until it fails.
    ///
    /// # Errors
    /// Why it did.
    pub async fn failed(&mut self) -> io::Result<()> {
        match self.tasks.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Ok(()),
        }
    }
}

/// A direction, and where it is counted.
#[derive(Clone, Copy, Debug)]
enum Direction {
    ToKernel = 0,
    FromKernel = 1,
}

/// A connection of a kernel's client: its address, and the one it connected to.
type Flow = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Joint {
    tun: AsyncFd<Tun>,
    door: AsyncFd<UdpSocket>,
    routes: Routes,
    pool: RecvPool,
    /// Our clients by port. Two of one port would be one to the kernel: the newer takes its place.
    clients: Mutex<HashMap<u16, SocketAddr>>,
    flows: Mutex<HashMap<Flow, Arc<AsyncFd<UdpSocket>>>>,
    fates: [Mutex<Fates>; 2],
    cut: AtomicBool,
    /// In the order of [`Stats`].
    counts: [AtomicU64; 4],
}

impl Joint {
    async fn read_tun(self: Arc<Self>) -> io::Result<()> {
        let mut packet = vec![0; PACKET];
        loop {
            let mut guard = self.tun.readable().await?;
            let Ok(read) = guard.try_io(|tun| tun.get_ref().read(&mut packet)) else { continue };
            let mut datagram = vec![0; PACKET];
            // What is no TCP is not for us: neighbour discovery, multicast, a ping.
            if let Ok(from) = udp_from_tcp(packet.get(..read?).unwrap_or_default(), &mut datagram) {
                datagram.truncate(from.len);
                self.from_kernel(from, datagram);
            }
        }
    }

    fn from_kernel(self: &Arc<Self>, from: FromTcp, datagram: Vec<u8>) {
        let client = lock(&self.clients).get(&from.destination.port()).copied();
        let to_client = from.source == self.routes.kernel && from.destination.ip() == self.routes.stranger;
        let joint = Arc::clone(self);
        match client.filter(|_| to_client) {
            Some(client) => self.deliver(Direction::FromKernel, move || {
                send(joint.door.get_ref(), Some(client), from.ip.tos, &datagram);
            }),
            None => {
                let Some(socket) = self.flow((from.source, from.destination)) else { return };
                self.deliver(Direction::FromKernel, move || send(socket.get_ref(), None, from.ip.tos, &datagram));
            }
        }
    }

    /// The socket that stands for a kernel's client.
    fn flow(self: &Arc<Self>, flow: Flow) -> Option<Arc<AsyncFd<UdpSocket>>> {
        let server = self.routes.server?;
        let mut flows = lock(&self.flows);
        if let Some(socket) = flows.get(&flow) {
            return Some(Arc::clone(socket));
        }
        let unspecified: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = std::net::UdpSocket::bind((unspecified, 0)).ok()?;
        socket.connect(server).ok()?;
        let socket = Arc::new(open(socket).ok()?);
        flows.insert(flow, Arc::clone(&socket));
        let (joint, reader) = (Arc::clone(self), Arc::clone(&socket));
        tokio::spawn(async move {
            // Its end, by silence or by a fault, only means that the next packet makes another.
            let _ = joint.read_flow(flow, &reader).await;
            lock(&joint.flows).remove(&flow);
        });
        Some(socket)
    }

    async fn read_flow(self: &Arc<Self>, (client, server): Flow, socket: &AsyncFd<UdpSocket>) -> io::Result<()> {
        let mut batch = RecvBatch::new(&self.pool, MESSAGES);
        while let Ok(received) = timeout(FLOW_TIMEOUT, receive(socket, &mut batch)).await {
            received?;
            for message in batch.messages() {
                message.datagrams().for_each(|datagram| self.to_kernel(server, client, message.meta, datagram));
            }
        }
        Ok(())
    }

    async fn read_door(self: Arc<Self>) -> io::Result<()> {
        let mut batch = RecvBatch::new(&self.pool, MESSAGES);
        loop {
            receive(&self.door, &mut batch).await?;
            for message in batch.messages() {
                let client = message.meta.addr;
                lock(&self.clients).insert(client.port(), client);
                let source = SocketAddr::new(self.routes.stranger, client.port());
                let kernel = self.routes.kernel;
                message.datagrams().for_each(|datagram| self.to_kernel(source, kernel, message.meta, datagram));
            }
        }
    }

    fn to_kernel(self: &Arc<Self>, source: SocketAddr, destination: SocketAddr, meta: &Meta, datagram: &[u8]) {
        let default = IpFields::default();
        let ip = IpFields { ttl: meta.ttl.unwrap_or(default.ttl), tos: meta.tos.unwrap_or(0), ..default };
        let mut packet = vec![0; datagram.len() + MAX_GROWTH];
        // What is no segment, such as a keep-alive for a NAT, ends here.
        let Ok(len) = tcp_from_udp(datagram, source, destination, ip, &mut packet) else { return };
        packet.truncate(len);
        let joint = Arc::clone(self);
        self.deliver(Direction::ToKernel, move || {
            // A packet that the device does not take is a packet lost.
            let _ = joint.tun.get_ref().write(&packet);
        });
    }

    /// Lets a packet meet its fate.
    fn deliver(self: &Arc<Self>, direction: Direction, pass: impl FnOnce() + Send + 'static) {
        if self.cut.load(Ordering::Relaxed) {
            return;
        }
        let fate = self.fates.get(direction as usize).map_or(Fate::Pass, |fates| lock(fates).next());
        self.count(match fate {
            Fate::Lose => 2,
            Fate::Hold(_) => 3,
            Fate::Pass => direction as usize,
        });
        match fate {
            Fate::Lose => {}
            Fate::Pass => pass(),
            Fate::Hold(time) => {
                self.count(direction as usize);
                tokio::spawn(async move {
                    sleep(time).await;
                    pass();
                });
            }
        }
    }

    fn count(&self, which: usize) {
        if let Some(count) = self.counts.get(which) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

enum Fate {
    Pass,
    Lose,
    Hold(Duration),
}

/// The fates of one direction's packets, one after the other.
#[derive(Debug)]
struct Fates {
    impairment: Impairment,
    rng: ChaCha8Rng,
}

impl Fates {
    fn new(impairment: Impairment, direction: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(impairment.seed);
        rng.set_stream(direction);
        Self { impairment, rng }
    }

    fn next(&mut self) -> Fate {
        let draw = f64::from(self.rng.next_u32()) / (f64::from(u32::MAX) + 1.0);
        let Impairment { loss, reorder, .. } = self.impairment;
        if draw < loss {
            Fate::Lose
        } else if draw < loss + reorder {
            Fate::Hold(Duration::from_micros(1000 + u64::from(self.rng.next_u32() % 3000)))
        } else {
            Fate::Pass
        }
    }
}

fn open(socket: std::net::UdpSocket) -> io::Result<AsyncFd<UdpSocket>> {
    let socket = UdpSocket::new(socket)?;
    socket.set_send_buffer(SOCKET_BUFFER)?;
    socket.set_recv_buffer(SOCKET_BUFFER)?;
    async_fd(socket)
}

#[allow(deprecated, reason = "from tokio 1.54 on: its successor is unsafe, for types that replace their descriptor")]
pub(crate) fn async_fd<T: std::os::fd::AsRawFd>(inner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(inner)
}

async fn receive(socket: &AsyncFd<UdpSocket>, batch: &mut RecvBatch) -> io::Result<()> {
    loop {
        let mut guard = socket.readable().await?;
        match guard.try_io(|socket| socket.get_ref().recv(batch)) {
            // Nobody listens there now, says the host: later somebody may.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Ok(received) => return received.map(drop),
            Err(_would_block) => {}
        }
    }
}

fn send(socket: &UdpSocket, destination: Option<SocketAddr>, tos: u8, datagram: &[u8]) {
    let slices = [IoSlice::new(datagram)];
    let transmit = Transmit { destination, tos, src_ip: None, segment_size: None, slices: &slices };
    // A datagram that the socket does not take is a datagram lost.
    let _ = socket.send(&transmit);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left a map or a generator behind, whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
