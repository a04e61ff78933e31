//! Socket implementation for Linux: `sendmsg` and `recvmmsg` with segmentation offload in both directions, receive
//! timestamps, and a timerfd with a resolution of some tens of microseconds, whereas tokio's timer has 1 ms.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use longhaul_sys::clock::ClockMap;
use longhaul_sys::linux::{self, ErrorClass, PathError, PathErrorKind, RecvBatch, Transmit};
use longhaul_tcp::HostError;
use longhaul_units::Time;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use self::timers::SocketTimer;
use super::{Buffers, Fault, Incoming, Outgoing, Role, Writable, clock, pool};
use crate::error::from_host;

mod timers;

/// Messages per receive call. Each may consist of 64 datagrams merged by the kernel.
const RECV_MESSAGES: usize = 4;

thread_local! {
    /// Receive buffers shared by the drivers of this thread: 256 KiB that a socket needs only while it is being read.
    static BATCH: Cell<Option<RecvBatch>> = const { Cell::new(None) };
}

#[derive(Debug)]
pub(crate) struct Io {
    socket: Arc<AsyncFd<linux::UdpSocket>>,
    timer: SocketTimer,
    role: Role,
}

/// Registers a descriptor with the runtime.
#[allow(deprecated, reason = "from tokio 1.54 on: its successor is unsafe, for types that replace their descriptor")]
fn watch<T: AsRawFd>(descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(descriptor)
}

/// State used by the driver task only.
pub(crate) struct Receiver {
    clock: ClockMap,
    /// Waits for an error of the socket.
    error: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Io {
    /// Takes over a socket. Must be called within a tokio runtime.
    pub(crate) fn new(socket: UdpSocket, role: Role) -> io::Result<Self> {
        let socket = linux::UdpSocket::new(socket)?;
        if role.is_client() {
            // Without this option, a connected socket learns of closed ports only, and an unconnected one of no error
            // at all. If the system does not support it, that remains so.
            let _ = socket.report_path_errors();
        }
        Ok(Self { socket: Arc::new(watch(socket)?), timer: SocketTimer::new()?, role })
    }

    pub(crate) fn receiver(&self) -> Receiver {
        Receiver { clock: ClockMap::new(clock::pair()), error: None }
    }

    pub(crate) const fn role(&self) -> Role {
        self.role
    }

    /// Returns the descriptor of the UDP socket.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }

    /// Returns a reference for setting options of the UDP socket.
    pub(crate) fn options(&self) -> socket2::SockRef<'_> {
        self.socket.get_ref().into()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    pub(crate) fn max_segments(&self) -> usize {
        self.socket.get_ref().max_gso_segments()
    }

    /// Requests socket buffer sizes and returns those that were granted.
    pub(crate) fn set_buffers(&self, wanted: Buffers) -> io::Result<Buffers> {
        let socket = self.socket.get_ref();
        Ok(Buffers { send: socket.set_send_buffer(wanted.send)?, recv: socket.set_recv_buffer(wanted.recv)? })
    }

    /// Sends datagrams; fails with `WouldBlock` if the send buffer is full.
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        self.socket.get_ref().send(&Transmit {
            destination: (self.role != Role::Connected).then_some(outgoing.destination),
            tos: outgoing.tos,
            src_ip: outgoing.src_ip,
            segment_size: outgoing.segment_size,
            slices: outgoing.slices,
        })
    }

    /// Ready when the socket may accept datagrams again, which `retry` tests.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>, retry: impl FnOnce() -> bool) -> Poll<Writable> {
        let Ok(mut guard) = ready!(self.socket.poll_write_ready(cx)) else { return Poll::Ready(Writable::Yes) };
        if retry() {
            return Poll::Ready(Writable::Yes);
        }
        if guard.ready().is_write_closed() {
            // tokio has taken an error for the closing of the write side, and reports the socket as writable from
            // then on.
            return Poll::Ready(Writable::Unknown);
        }
        guard.clear_ready();
        // Readiness has been cleared: poll again to register the waker.
        self.socket.poll_write_ready(cx).map(|_| Writable::Yes)
    }

    /// Ready when the system has reported an error on the path, which [`take_errors`](Self::take_errors) fetches.
    pub(crate) fn poll_error(&self, cx: &mut Context<'_>, receiver: &mut Receiver) -> Poll<()> {
        if !self.role.is_client() {
            return Poll::Pending;
        }
        let wait = receiver.error.get_or_insert_with(|| Box::pin(wait_for_error(Arc::clone(&self.socket))));
        ready!(wait.as_mut().poll(cx));
        receiver.error = None;
        Poll::Ready(())
    }

    /// Passes errors reported on the path since the last call to `each`, with the destination of the datagram
    /// concerned. Returns whether there were any.
    pub(crate) fn take_errors(&self, mut each: impl FnMut(Option<SocketAddr>, HostError)) -> bool {
        let mut any = false;
        while let Ok(Some(report)) = self.socket.get_ref().recv_path_error() {
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

    /// Receives what is available and calls `each` for every message. Ready with the number of messages, or with an
    /// error.
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        receiver: &mut Receiver,
        mut each: impl FnMut(Incoming<'_>, Option<u32>),
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            let mut batch = BATCH.take().unwrap_or_else(|| RecvBatch::new(pool(), RECV_MESSAGES));
            let received = match self.socket.get_ref().recv(&mut batch) {
                Err(error) => {
                    BATCH.set(Some(batch));
                    if error.kind() != io::ErrorKind::WouldBlock {
                        return Poll::Ready(Err(error));
                    }
                    guard.clear_ready();
                    continue;
                }
                Ok(received) => received,
            };
            if received < RECV_MESSAGES {
                // The socket is empty: data that arrives later sets readiness again.
                guard.clear_ready();
            }
            receiver.clock.begin_batch(clock::pair());
            for mut message in batch.messages() {
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
            return Poll::Ready(Ok(received));
        }
    }

    /// Sets the timer, of which there is one per endpoint.
    pub(crate) fn arm(&self, at: Option<Time>) -> io::Result<()> {
        self.timer.arm(at)
    }

    /// Ready once the timer has fired.
    pub(crate) fn poll_timer(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll_fired(cx)
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

async fn wait_for_error(socket: Arc<AsyncFd<linux::UdpSocket>>) {
    match socket.ready(Interest::ERROR).await {
        Ok(mut guard) => guard.clear_ready(),
        // The runtime is shutting down, which the receive call reports.
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
        PathErrorKind::Other(1, 2 | 3) if !v4 => Some(HostError::HostUnreachable),
        PathErrorKind::Other(1, 1 | 5 | 6) if !v4 => Some(HostError::Prohibited),
        PathErrorKind::Other(..) => Some(HostError::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(v6(1, 1), Some(HostError::Prohibited));
        assert_eq!(v4(12, 0), Some(HostError::Other));
        for destination in ["192.0.2.1:9", "[2001:db8::1]:9"] {
            assert_eq!(read(destination, PathErrorKind::NoPort), Some(HostError::Refused));
            assert_eq!(read(destination, PathErrorKind::Expired), Some(HostError::HostUnreachable));
        }
    }
}
