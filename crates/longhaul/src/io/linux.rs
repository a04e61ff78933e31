//! Linux: `sendmsg` and `recvmmsg` with segmentation offload both ways, receive timestamps, and a timerfd, which is
//! good to some tens of microseconds where tokio's timer is good to a millisecond.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use longhaul_sys::clock::ClockMap;
use longhaul_sys::linux::{self, ErrorClass, RecvBatch, Timer, Transmit};
use longhaul_units::Time;
use tokio::io::unix::AsyncFd;

use super::{Buffers, Fault, Incoming, Outgoing, pool};

/// Messages of one receive call: each may be 64 datagrams merged by the kernel.
const RECV_MESSAGES: usize = 4;

#[derive(Debug)]
pub(crate) struct Io {
    socket: AsyncFd<linux::UdpSocket>,
    timer: AsyncFd<Timer>,
    connected: bool,
}

/// Registers a descriptor with the runtime.
#[allow(deprecated, reason = "from tokio 1.54 on: its successor is unsafe, for types that replace their descriptor")]
fn watch<T: AsRawFd>(descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(descriptor)
}

/// What only the driver task uses.
#[derive(Debug)]
pub(crate) struct Receiver {
    batch: RecvBatch,
    clock: ClockMap,
}

impl Io {
    /// Takes over a socket; must be called within a tokio runtime.
    pub(crate) fn new(socket: UdpSocket, connected: bool) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: watch(linux::UdpSocket::new(socket)?)?, timer: watch(Timer::new()?)?, connected })
    }

    pub(crate) fn receiver(&self) -> Receiver {
        Receiver { batch: RecvBatch::new(pool(), RECV_MESSAGES), clock: ClockMap::new(linux::clock_pair()) }
    }

    pub(crate) fn now() -> Time {
        Time::from_nanos(linux::monotonic_now())
    }

    /// Our clock and the wall clock, read at the same moment.
    pub(crate) fn clocks() -> (Time, Duration) {
        let pair = linux::clock_pair();
        (Time::from_nanos(pair.monotonic), pair.realtime)
    }

    /// Options of the UDP socket.
    pub(crate) fn options(&self) -> socket2::SockRef<'_> {
        self.socket.get_ref().into()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    pub(crate) fn max_segments(&self) -> usize {
        self.socket.get_ref().max_gso_segments()
    }

    /// Asks for socket buffers and says what was granted.
    pub(crate) fn set_buffers(&self, wanted: Buffers) -> io::Result<Buffers> {
        let socket = self.socket.get_ref();
        Ok(Buffers { send: socket.set_send_buffer(wanted.send)?, recv: socket.set_recv_buffer(wanted.recv)? })
    }

    /// Sends, or says that the socket is full.
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        self.socket.get_ref().send(&Transmit {
            destination: (!self.connected).then_some(outgoing.destination),
            tos: outgoing.tos,
            src_ip: outgoing.src_ip,
            segment_size: outgoing.segment_size,
            slices: outgoing.slices,
        })
    }

    /// Ready once the socket may take datagrams again.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>, retry: impl FnOnce() -> bool) -> Poll<io::Result<()>> {
        let mut guard = ready!(self.socket.poll_write_ready(cx))?;
        if retry() {
            return Poll::Ready(Ok(()));
        }
        guard.clear_ready();
        // Readiness was cleared: ask again, so that the waker is registered.
        self.socket.poll_write_ready(cx).map_ok(|_| ())
    }

    /// Ready with an error that the socket has been told of. It shows as readiness to write; that is used up here.
    pub(crate) fn poll_error(&self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            match ready!(self.socket.poll_write_ready(cx)) {
                // The runtime is going: receiving will tell.
                Err(_) => return Poll::Pending,
                Ok(mut guard) => {
                    if let Ok(Some(error)) = self.options().take_error() {
                        return Poll::Ready(error);
                    }
                    guard.clear_ready();
                }
            }
        }
    }

    /// Receives what is there and calls `each` for every message; ready with how many, or with an error.
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        receiver: &mut Receiver,
        mut each: impl FnMut(Incoming<'_>, Option<u32>),
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            let received = match self.socket.get_ref().recv(&mut receiver.batch) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    receiver.batch.release();
                    guard.clear_ready();
                    continue;
                }
                result => result?,
            };
            if received < RECV_MESSAGES {
                // The socket is empty; what arrives from now on sets readiness again.
                guard.clear_ready();
            }
            receiver.clock.begin_batch(linux::clock_pair());
            for mut message in receiver.batch.messages() {
                let meta = *message.meta;
                let rx_time = meta.timestamp.and_then(|t| receiver.clock.map(t)).map(Time::from_nanos);
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
                    ttl: meta.ttl,
                    rx_time,
                    coalesced: meta.coalesced(),
                    data,
                    shared: shared.as_ref(),
                };
                each(incoming, meta.drops);
            }
            return Poll::Ready(Ok(received));
        }
    }

    /// Sets the timer; it is one for all that the endpoint waits for.
    pub(crate) fn arm(&self, at: Option<Time>) -> io::Result<()> {
        self.timer.get_ref().arm(at.map(|t| t.as_nanos().max(1)))
    }

    /// Ready once the timer has fired.
    pub(crate) fn poll_timer(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.timer.poll_read_ready(cx))?;
            let fired = self.timer.get_ref().drain()?;
            guard.clear_ready();
            if fired {
                return Poll::Ready(Ok(()));
            }
        }
    }

    pub(crate) fn fault(error: &io::Error) -> Fault {
        match ErrorClass::of(error) {
            ErrorClass::WouldBlock => Fault::WouldBlock,
            ErrorClass::MessageTooLarge => Fault::TooLong,
            ErrorClass::NoBuffers => Fault::NoBuffers,
            ErrorClass::Refused => Fault::Refused,
            ErrorClass::Unreachable => Fault::Soft,
            _ => Fault::Fatal,
        }
    }
}
