//! Relay between longhaul's datagrams and a kernel's TCP, over a TUN device.
//!
//! The two forms of a segment differ only in the order of a few words, so the relay keeps no connection state: it
//! only remembers the addresses of datagrams.
//!
//! ```text
//! longhaul client --UDP--> door ----> TUN --TCP--> kernel's listener (`Routes::kernel`)
//! longhaul server <--UDP-- a socket for each flow <---- TUN <--TCP-- kernel's client
//! ```
//!
//! A client's packets appear to come from [`Routes::stranger`], with the client's own port. A kernel's client may
//! connect to any address behind the TUN device and reaches [`Routes::server`].

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_netns::Tun;
use longhaul_sys::linux::{Meta, RecvBatch, Transmit, UdpSocket};
use longhaul_sys::pool::RecvPool;
use longhaul_wire::shim::{FromTcp, IpFields, MAX_GROWTH, tcp_from_udp, udp_from_tcp};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Time without a datagram from the server after which a flow's socket is closed. RFC 4787, REQ-5, recommends this
/// value for NATs.
const FLOW_TIMEOUT: Duration = Duration::from_secs(300);
/// Buffer size in bytes, larger than any packet of a TUN device.
const PACKET: usize = 65_536;
/// Size of socket buffers in bytes, which holds a whole window that arrives in one burst.
const SOCKET_BUFFER: usize = 4 << 20;
const MESSAGES: usize = 4;

/// Addresses that determine where packets are relayed.
#[derive(Clone, Copy, Debug)]
pub struct Routes {
    /// The kernel's listener, which receives the datagrams that arrive at the door.
    pub kernel: SocketAddr,
    /// Source address, behind the TUN device, of the packets to `kernel`.
    pub stranger: IpAddr,
    /// The longhaul listener, which receives the connections of the kernel's clients.
    pub server: Option<SocketAddr>,
}

/// Impairments that the relay applies to packets in each direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairment {
    /// Probability that a packet is dropped, 0 to 1.
    pub loss: f64,
    /// Probability that a packet is held back for 1 to 4 ms, so that later packets overtake it.
    pub reorder: f64,
    /// Seed of the random decisions.
    pub seed: u64,
}

/// Counters of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments relayed to the kernel.
    pub to_kernel: u64,
    /// Segments relayed from the kernel.
    pub from_kernel: u64,
    /// Segments dropped on purpose.
    pub lost: u64,
    /// Segments held back on purpose.
    pub reordered: u64,
}

/// A running relay. It stops when dropped.
#[derive(Debug)]
pub struct Shim {
    joint: Arc<Joint>,
    tasks: JoinSet<io::Result<()>>,
}

impl Shim {
    /// Starts to relay packets between `tun`, which must be up, and UDP sockets: `door` for longhaul clients, and one
    /// socket per flow of a kernel's client. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns the system's error if a socket or the device cannot be registered with the runtime.
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

    /// Cuts the path (`true`), or restores it.
    pub fn cut(&self, cut: bool) {
        self.joint.cut.store(cut, Ordering::Relaxed);
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counts = self.joint.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [to_kernel, from_kernel, lost, reordered] = counts;
        Stats { to_kernel, from_kernel, lost, reordered }
    }

    /// Waits until the relay fails.
    ///
    /// # Errors
    /// Returns the error that ended the relay.
    pub async fn failed(&mut self) -> io::Result<()> {
        match self.tasks.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Ok(()),
        }
    }
}

/// Direction of a packet; the number is its index in the counters.
#[derive(Clone, Copy, Debug)]
enum Direction {
    ToKernel = 0,
    FromKernel = 1,
}

/// Flow of a kernel's client: the client's address, and the address that it connected to.
type Flow = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Joint {
    tun: AsyncFd<Tun>,
    door: AsyncFd<UdpSocket>,
    routes: Routes,
    pool: RecvPool,
    /// Longhaul clients by port. The kernel cannot tell two clients with the same port apart: the newer one replaces
    /// the older one.
    clients: Mutex<HashMap<u16, SocketAddr>>,
    flows: Mutex<HashMap<Flow, Arc<AsyncFd<UdpSocket>>>>,
    fates: [Mutex<Fates>; 2],
    cut: AtomicBool,
    /// Counters in the order of [`Stats`]' fields.
    counts: [AtomicU64; 4],
}

impl Joint {
    async fn read_tun(self: Arc<Self>) -> io::Result<()> {
        let mut packet = vec![0; PACKET];
        loop {
            let mut guard = self.tun.readable().await?;
            let Ok(read) = guard.try_io(|tun| tun.get_ref().read(&mut packet)) else { continue };
            let mut datagram = vec![0; PACKET];
            // The kernel also sends packets other than TCP (neighbour discovery, multicast, ping), which are ignored.
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

    /// Returns the socket that represents a kernel's client towards the longhaul listener.
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
            // If this ends because of a timeout or an error, the next packet creates another socket.
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
        // Datagrams that are not segments, such as NAT keep-alives, are dropped.
        let Ok(len) = tcp_from_udp(datagram, source, destination, ip, &mut packet) else { return };
        packet.truncate(len);
        let joint = Arc::clone(self);
        self.deliver(Direction::ToKernel, move || {
            // A packet that the device refuses counts as lost.
            let _ = joint.tun.get_ref().write(&packet);
        });
    }

    /// Calls `pass` now, later, or never, as the impairment decides.
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

/// Random decisions about the packets of one direction, one after the other.
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
fn async_fd<T: std::os::fd::AsRawFd>(inner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(inner)
}

async fn receive(socket: &AsyncFd<UdpSocket>, batch: &mut RecvBatch) -> io::Result<()> {
    loop {
        let mut guard = socket.readable().await?;
        match guard.try_io(|socket| socket.get_ref().recv(batch)) {
            // The destination port is closed at present; a listener may be opened later.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Ok(received) => return received.map(drop),
            Err(_would_block) => {}
        }
    }
}

fn send(socket: &UdpSocket, destination: Option<SocketAddr>, tos: u8, datagram: &[u8]) {
    let slices = [IoSlice::new(datagram)];
    let transmit = Transmit { destination, tos, src_ip: None, segment_size: None, slices: &slices };
    // A datagram that the socket refuses counts as lost.
    let _ = socket.send(&transmit);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The map or generator is consistent even if a thread panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
