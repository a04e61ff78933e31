//! Socket implementation for Linux: `sendmsg` and `recvmmsg` with segmentation offload in both directions, receive
//! timestamps, and a timerfd with a resolution of some tens of microseconds, whereas tokio's timer has 1 ms.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use longhaul_sys::clock::ClockMap;
use longhaul_sys::linux::{self, PathError, PathErrorKind, RecvBatch, Transmit};
use longhaul_tcp::HostError;
use longhaul_units::Time;
use socket2::{Domain, Type};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use self::timers::SocketTimer;
use super::{Buffers, ErrorClass, Incoming, Outgoing, Role, Writable, clock, pool};
use crate::error::from_host;
use crate::local_path::LocalPath;

mod timers;

#[cfg(shuttle)]
pub use self::timers::model::{a_dropped_timer_does_not_fire_for_its_successor, each_timer_fires_once};

/// Maximum number of messages per receive call. Each may consist of 64 datagrams merged by the kernel.
const RECV_MESSAGES: usize = 4;

thread_local! {
    /// Receive buffers shared by the drivers of this thread: 256 KiB that a socket needs only while it is being read.
    static BATCH: Cell<Option<RecvBatch>> = const { Cell::new(None) };
}

pub(super) struct Socket {
    first: Arc<linux::UdpSocket>,
    /// The socket of the other address family, if the connection has moved there, and whether it is in use.
    other: OnceLock<Arc<linux::UdpSocket>>,
    uses_other: AtomicBool,
    timer: SocketTimer,
    role: Role,
}

#[allow(deprecated, reason = "from tokio 1.54 on: its successor is unsafe, for types that replace their descriptor")]
fn watch<T: AsRawFd>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, interest)
}

type Watched = AsyncFd<Arc<linux::UdpSocket>>;

struct Receiver {
    io: Arc<Socket>,
    socket: Arc<linux::UdpSocket>,
    role: Role,
    clock: ClockMap,
    /// The socket while it is monitored for data and errors.
    watched: Option<Arc<Watched>>,
    /// Whether the socket was found empty, or is new, and is not monitored.
    empty: bool,
    error: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Another descriptor of the socket, while its send buffer is full. Interest in writing is not registered all the
    /// time, because the kernel would then wake the runtime for each packet that leaves the send buffer.
    full: Option<AsyncFd<OwnedFd>>,
}

impl Socket {
    /// Takes over a socket. Must be called within a tokio runtime.
    pub(super) fn new(socket: UdpSocket, role: Role) -> io::Result<Self> {
        let socket = linux::UdpSocket::new(socket)?;
        if role.is_client() {
            // Without this option, a connected socket is notified only of closed ports, and an unconnected one of no
            // errors. This cannot be changed if the system does not support the option.
            let _ = socket.report_path_errors();
        }
        let first = Arc::new(socket);
        Ok(Self { first, other: OnceLock::new(), uses_other: AtomicBool::new(false), timer: SocketTimer::new()?, role })
    }

    /// Returns the socket in use.
    #[inline]
    fn current(&self) -> &Arc<linux::UdpSocket> {
        let other = if self.uses_other.load(Ordering::Acquire) { self.other.get() } else { None };
        other.unwrap_or(&self.first)
    }

    /// Opens a socket like the first one, connected to a peer of the other address family.
    fn open_other(&self, peer: SocketAddr, over: Option<&LocalPath>) -> io::Result<Arc<linux::UdpSocket>> {
        let socket = socket2::Socket::new(Domain::for_address(peer), Type::DGRAM, None)?;
        let (model, options) = (socket2::SockRef::from(&*self.first), socket2::SockRef::from(&socket));
        match (over, model.device()?) {
            (Some(path), _) => path.bind(options, peer)?,
            (None, interface) => options.bind_device(interface.as_deref())?,
        }
        let options = socket2::SockRef::from(&socket);
        if peer.is_ipv6() {
            options.set_unicast_hops_v6(model.ttl_v4()?)?;
        } else {
            options.set_ttl_v4(model.unicast_hops_v6()?)?;
        }
        let socket = UdpSocket::from(socket);
        socket.connect(peer)?;
        let socket = linux::UdpSocket::new(socket)?;
        let _ = socket.report_path_errors();
        socket.set_send_buffer(self.first.send_buffer()?)?;
        socket.set_recv_buffer(self.first.recv_buffer()?)?;
        Ok(Arc::new(socket))
    }
}

impl super::Socket for Socket {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.current().as_fd()
    }

    fn options(&self) -> socket2::SockRef<'_> {
        self.current().as_ref().into()
    }

    fn max_segments(&self) -> usize {
        self.current().max_gso_segments()
    }

    fn set_buffers(&self, wanted: Buffers) -> io::Result<Buffers> {
        let socket = self.current();
        Ok(Buffers { send: socket.set_send_buffer(wanted.send)?, recv: socket.set_recv_buffer(wanted.recv)? })
    }

    fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        self.current().send(&Transmit {
            destination: (self.role != Role::Connected).then_some(outgoing.destination),
            tos: outgoing.tos,
            src_ip: outgoing.src_ip,
            segment_size: outgoing.segment_size,
            slices: outgoing.slices,
        })
    }

    fn reconnects(&self) -> bool {
        self.role == Role::Connected
    }

    fn reconnect(&self, peer: SocketAddr, over: Option<&LocalPath>) -> io::Result<()> {
        let is_first = self.first.has_family_of(peer);
        let known = if is_first { Some(&self.first) } else { self.other.get() };
        if let Some(known) = known {
            let interface = socket2::SockRef::from(&**known).device()?;
            known.reconnect(peer, |socket| match over {
                Some(path) => path.bind((&socket).into(), peer),
                None if interface.is_some() => socket2::SockRef::from(&socket).bind_device(interface.as_deref()),
                None => Ok(()),
            })?;
        } else {
            let _ = self.other.set(self.open_other(peer, over)?);
        }
        self.uses_other.store(!is_first, Ordering::Release);
        Ok(())
    }

    fn take_errors(&self, each: &mut dyn FnMut(Option<SocketAddr>, HostError)) -> bool {
        let mut any = false;
        while let Ok(Some(report)) = self.current().recv_path_error() {
            any = true;
            if let Some(error) = host_error(&report) {
                each(report.destination, error);
            }
        }
        // A pending socket error would make the next call fail.
        if let Ok(Some(error)) = self.options().take_error()
            && !any
        {
            any = true;
            each(None, from_host(&error));
        }
        any
    }

    fn arm(&self, at: Time) {
        self.timer.arm(at);
    }

    fn poll_timer(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll_fired(cx)
    }

    fn class(&self, error: &io::Error) -> ErrorClass {
        ErrorClass::of(error)
    }

    fn receiver(self: Arc<Self>) -> Box<dyn super::Receiver> {
        Box::new(Receiver {
            socket: Arc::clone(self.current()),
            role: self.role,
            io: self,
            clock: ClockMap::new(clock::pair()),
            watched: None,
            // Data that has already arrived is read when the socket is monitored.
            empty: true,
            error: None,
            full: None,
        })
    }
}

impl Receiver {
    /// Switches to the socket in use, which changes when the connection moves to the other address family.
    fn follow_socket(&mut self) {
        let current = self.io.current();
        if !Arc::ptr_eq(current, &self.socket) {
            (self.watched, self.error, self.full) = (None, None, None);
            self.socket = Arc::clone(current);
            self.empty = true;
        }
    }
}

impl super::Receiver for Receiver {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        mut at_once: bool,
        each: &mut dyn FnMut(Incoming<'_>, Option<u32>),
    ) -> Poll<io::Result<bool>> {
        self.follow_socket();
        loop {
            let mut guard = match &self.watched {
                Some(_) if std::mem::take(&mut at_once) => None,
                Some(watched) => Some(ready!(watched.poll_read_ready(cx))?),
                None if std::mem::take(&mut self.empty) => return Poll::Pending,
                None => None,
            };
            let mut batch = BATCH.take().unwrap_or_else(|| RecvBatch::new(pool(), RECV_MESSAGES));
            let received = match self.socket.recv(&mut batch) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    BATCH.set(Some(batch));
                    return Poll::Ready(Err(error));
                }
                Err(_) => 0,
                Ok(received) => received,
            };
            if received < RECV_MESSAGES {
                // The socket is empty: data that arrives later sets readiness again.
                self.empty = self.watched.is_none();
                guard.iter_mut().for_each(AsyncFdReadyGuard::clear_ready);
            }
            if received == 0 {
                BATCH.set(Some(batch));
                continue;
            }
            self.clock.begin_batch(clock::pair());
            for mut message in batch.messages() {
                let meta = *message.meta;
                let rx_time = meta.timestamp.and_then(|t| self.clock.map(t)).map(Time::from_nanos);
                let shared = (meta.len > longhaul_sys::pool::BUFFER_LEN / 4).then(|| message.take());
                let data = match &shared {
                    Some(shared) => shared.as_ref(),
                    None => message.data(),
                };
                let incoming = Incoming {
                    source: meta.addr,
                    dst_ip: meta.dst_ip,
                    stride: meta.stride,
                    ecn: meta.ecn(),
                    tos: meta.tos,
                    ttl: meta.ttl,
                    rx_time,
                    coalesced: meta.coalesced(),
                    data,
                    shared: shared.as_ref(),
                };
                each(incoming, meta.drops);
            }
            batch.forget();
            BATCH.set(Some(batch));
            return Poll::Ready(Ok(received == RECV_MESSAGES));
        }
    }

    fn poll_watch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.follow_socket();
        if self.watched.is_some() {
            return Poll::Pending;
        }
        self.empty = false;
        let watched = watch(Arc::clone(&self.socket), Interest::READABLE | Interest::ERROR)?;
        self.watched.insert(Arc::new(watched)).poll_read_ready(cx).map_ok(|_| ())
    }

    fn stop_watching(&mut self) -> bool {
        self.error = None;
        self.watched = None;
        true
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>, retry: &mut dyn FnMut() -> bool) -> Poll<Writable> {
        poll_room(cx, &mut self.full, self.socket.as_fd(), retry)
    }

    fn unblock(&mut self) {
        self.full = None;
    }

    fn poll_error(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.role.is_client() {
            return Poll::Pending;
        }
        let Some(watched) = &self.watched else { return Poll::Pending };
        let wait = self.error.get_or_insert_with(|| Box::pin(wait_for_error(Arc::clone(watched))));
        ready!(wait.as_mut().poll(cx));
        self.error = None;
        Poll::Ready(())
    }
}

/// Waits for room in the send buffer of `socket`, which `retry` checks, by means of a second descriptor, `full`, that
/// exists only while waiting.
fn poll_room(
    cx: &mut Context<'_>,
    full: &mut Option<AsyncFd<OwnedFd>>,
    socket: BorrowedFd<'_>,
    retry: impl FnOnce() -> bool,
) -> Poll<Writable> {
    let watched = match full {
        Some(watched) => watched,
        None => match socket.try_clone_to_owned().and_then(|socket| watch(socket, Interest::WRITABLE)) {
            Ok(watched) => full.insert(watched),
            // The process has no descriptors left.
            Err(_) => return Poll::Ready(Writable::Unknown),
        },
    };
    let Ok(mut guard) = ready!(watched.poll_write_ready(cx)) else { return Poll::Ready(Writable::Yes) };
    if retry() {
        drop(guard);
        *full = None;
        return Poll::Ready(Writable::Yes);
    }
    if guard.ready().is_write_closed() {
        // tokio has mistaken an error for the end of the write side, and reports the socket as writable afterwards.
        return Poll::Ready(Writable::Unknown);
    }
    guard.clear_ready();
    // Readiness has been cleared: poll again to register the waker.
    watched.poll_write_ready(cx).map(|_| Writable::Yes)
}

async fn wait_for_error(socket: Arc<Watched>) {
    match socket.ready(Interest::ERROR).await {
        Ok(mut guard) => guard.clear_ready(),
        // The runtime is shutting down; the receive call reports this.
        Err(_) => std::future::pending().await,
    }
}

/// Maps an ICMP error to a host error, as kernel TCP does (RFC 1122, section 3.2.2.1; RFC 4443, section 3.1). Returns
/// `None` for Packet Too Big, because path MTU discovery does not rely on ICMP.
fn host_error(report: &PathError) -> Option<HostError> {
    let v4 = report.destination.is_none_or(|destination| destination.is_ipv4());
    match report.kind {
        PathErrorKind::NoPort => Some(HostError::Refused),
        PathErrorKind::Expired => Some(HostError::HostUnreachable),
        PathErrorKind::Other(3, 4) if v4 => None,
        PathErrorKind::Other(3, 0 | 6 | 9 | 11) if v4 => Some(HostError::NetworkUnreachable),
        PathErrorKind::Other(3, 1 | 7 | 8 | 10 | 12 | 13) if v4 => Some(HostError::HostUnreachable),
        PathErrorKind::Other(2, _) if !v4 => None,
        PathErrorKind::Other(1, 0) if !v4 => Some(HostError::NetworkUnreachable),
        PathErrorKind::Other(1, 1..=3 | 5 | 6) if !v4 => Some(HostError::HostUnreachable),
        PathErrorKind::Other(..) => Some(HostError::Other),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::time::Duration;

    use super::*;

    /// A pair of local sockets, because datagrams over the loopback interface leave the send buffer at once.
    #[tokio::test]
    async fn a_full_send_buffer_wakes_the_driver_when_there_is_room() {
        let (socket, peer) = std::os::unix::net::UnixDatagram::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        peer.set_nonblocking(true).unwrap();
        let is_full = || socket.send(&[0; 1000]).is_err();
        assert!((0..10_000).any(|_| is_full()));
        let mut full = None;
        let mut writable = pin!(poll_fn(|cx| poll_room(cx, &mut full, socket.as_fd(), || !is_full())));
        let first = poll_fn(|cx| Poll::Ready(writable.as_mut().poll(cx))).await;
        assert_eq!(first, Poll::Pending);
        while peer.recv(&mut [0; 2000]).is_ok() {}
        assert_eq!(tokio::time::timeout(Duration::from_secs(60), writable).await, Ok(Writable::Yes));
        assert!(full.is_none(), "the kernel would wake the driver for each packet that is sent");
    }

    /// The errors that Linux maps these types and codes to for TCP (icmp(7), `icmp_err_convert`,
    /// `icmpv6_err_convert`).
    #[test]
    fn icmp_errors_map_as_in_the_kernel() {
        let read = |destination: &str, kind| {
            let destination = Some(destination.parse().unwrap());
            host_error(&PathError { kind, from: None, destination, quoted: Vec::new(), timestamp: None })
        };
        let v4 = |kind, code| read("192.0.2.1:9", PathErrorKind::Other(kind, code));
        let v6 = |kind, code| read("[2001:db8::1]:9", PathErrorKind::Other(kind, code));
        for code in [0, 6, 9, 11] {
            assert_eq!(v4(3, code), Some(HostError::NetworkUnreachable), "{code}");
        }
        for code in [1, 7, 8, 10, 12, 13] {
            assert_eq!(v4(3, code), Some(HostError::HostUnreachable), "{code}");
        }
        assert_eq!((v4(3, 4), v6(2, 0)), (None, None), "too large");
        assert_eq!(v6(1, 0), Some(HostError::NetworkUnreachable));
        assert_eq!(v6(1, 3), Some(HostError::HostUnreachable));
        assert_eq!(v6(1, 1), Some(HostError::HostUnreachable), "prohibited by a remote filter, as v4(3, 13)");
        assert_eq!(v4(12, 0), Some(HostError::Other));
        for destination in ["192.0.2.1:9", "[2001:db8::1]:9"] {
            assert_eq!(read(destination, PathErrorKind::NoPort), Some(HostError::Refused));
            assert_eq!(read(destination, PathErrorKind::Expired), Some(HostError::HostUnreachable));
        }
    }
}
