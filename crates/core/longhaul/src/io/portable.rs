//! Socket implementation for every system that `quinn-udp` supports: segmentation offload where available, and
//! tokio's timer with its resolution of 1 ms. The DSCP cannot be set, and data is copied into one buffer before it is
//! sent.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use longhaul_sys::clock::ClockMap;
use longhaul_sys::pool::RecvBuffer;
use longhaul_tcp::HostError;
use longhaul_units::Time;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::time::Sleep;

use super::{Buffers, Fault, Incoming, Outgoing, Role, Writable, canonical, clock, pool};
use crate::error::from_host;

/// Messages per receive call.
const RECV_MESSAGES: usize = 4;

pub(crate) struct Io {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
    role: Role,
    /// Whether to use plain `send`: on some systems a connected socket does not accept a destination address.
    plain: bool,
    timer: Mutex<Timer>,
    /// The pending error of the socket, until it is fetched.
    error: Mutex<Option<io::Error>>,
    scratch: Mutex<Vec<u8>>,
}

/// A timer that can be set while another task waits for it.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    armed: bool,
    waker: Option<Waker>,
}

/// State used by the driver task only.
pub(crate) struct Receiver {
    buffers: [RecvBuffer; RECV_MESSAGES],
    clock: ClockMap,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Io {
    /// Takes over a socket. Must be called within a tokio runtime.
    pub(crate) fn new(socket: UdpSocket, role: Role) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        let sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        Ok(Self {
            socket: tokio::net::UdpSocket::from_std(socket)?,
            state,
            role,
            plain: role == Role::Connected && !cfg!(any(target_os = "linux", target_os = "android")),
            timer: Mutex::new(Timer { sleep, armed: false, waker: None }),
            error: Mutex::new(None),
            scratch: Mutex::new(Vec::new()),
        })
    }

    pub(crate) const fn role(&self) -> Role {
        self.role
    }

    /// Returns the descriptor of the UDP socket.
    #[cfg(unix)]
    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.socket)
    }

    pub(crate) fn receiver(&self) -> Receiver {
        Receiver { buffers: std::array::from_fn(|_| pool().buffer()), clock: ClockMap::new(clock::pair()) }
    }

    /// Returns a reference for setting options of the UDP socket.
    pub(crate) fn options(&self) -> socket2::SockRef<'_> {
        (&self.socket).into()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr().map(canonical)
    }

    pub(crate) fn max_segments(&self) -> usize {
        if self.plain { 1 } else { self.state.max_gso_segments() }
    }

    /// Requests socket buffer sizes and returns those that were granted.
    pub(crate) fn set_buffers(&self, wanted: Buffers) -> io::Result<Buffers> {
        let socket = || (&self.socket).into();
        self.state.set_send_buffer_size(socket(), wanted.send)?;
        self.state.set_recv_buffer_size(socket(), wanted.recv)?;
        let granted = |bytes: usize| if cfg!(target_os = "linux") { bytes / 2 } else { bytes };
        Ok(Buffers {
            send: granted(self.state.send_buffer_size(socket())?),
            recv: granted(self.state.recv_buffer_size(socket())?),
        })
    }

    /// Sends datagrams; fails with `WouldBlock` if the send buffer is full.
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let mut scratch = lock(&self.scratch);
        let contents = match outgoing.slices {
            [whole] => whole,
            slices => {
                scratch.clear();
                slices.iter().for_each(|slice| scratch.extend_from_slice(slice));
                scratch.as_slice()
            }
        };
        if self.plain {
            return self.options().send(contents).map(drop);
        }
        let transmit = Transmit {
            destination: outgoing.destination,
            ecn: EcnCodepoint::from_bits(outgoing.tos),
            contents,
            segment_size: outgoing.segment_size.map(usize::from),
            src_ip: outgoing.src_ip,
        };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    /// Ready when the socket may accept datagrams again, which `retry` tests.
    pub(crate) fn poll_writable(
        &self,
        cx: &mut Context<'_>,
        _: &mut Receiver,
        retry: impl FnOnce() -> bool,
    ) -> Poll<Writable> {
        if ready!(self.socket.poll_send_ready(cx)).is_err() {
            return Poll::Ready(Writable::Yes);
        }
        let tried = self
            .socket
            .try_io(Interest::WRITABLE, || if retry() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) });
        if tried.is_ok() {
            return Poll::Ready(Writable::Yes);
        }
        // Readiness has been cleared: poll again to register the waker. If the socket is still reported writable,
        // tokio has taken an error for the closing of the write side, and reports the socket as writable from then
        // on.
        self.socket.poll_send_ready(cx).map(|_| Writable::Unknown)
    }

    /// Ready when the system has reported an error on the path, which [`take_errors`](Self::take_errors) fetches.
    /// Such an error shows as write readiness, which this call consumes.
    pub(crate) fn poll_error(&self, cx: &mut Context<'_>, _: &mut Receiver) -> Poll<()> {
        if self.role != Role::Connected {
            return Poll::Pending;
        }
        // The second iteration registers the waker. A third would not help: after an error tokio may report the
        // socket as writable forever, and the next poll of the driver finds further errors.
        for _ in 0..2 {
            if ready!(self.socket.poll_send_ready(cx)).is_err() {
                return Poll::Pending;
            }
            if let Ok(Some(error)) = self.socket.take_error() {
                *lock(&self.error) = Some(error);
                return Poll::Ready(());
            }
            // Clears the readiness.
            let _ = self.socket.try_io(Interest::WRITABLE, || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into()));
        }
        Poll::Pending
    }

    /// Passes errors reported on the path since the last call to `each`. Returns whether there were any.
    pub(crate) fn take_errors(&self, mut each: impl FnMut(Option<SocketAddr>, HostError)) -> bool {
        let error = lock(&self.error).take().or_else(|| self.socket.take_error().ok().flatten());
        if let Some(error) = &error {
            each(None, from_host(error));
        }
        error.is_some()
    }

    /// Receives what is available and calls `each` for every message. Ready with whether there may be more, or with an
    /// error.
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        receiver: &mut Receiver,
        mut at_once: bool,
        mut each: impl FnMut(Incoming<'_>, Option<u32>),
    ) -> Poll<io::Result<bool>> {
        loop {
            if !at_once {
                ready!(self.socket.poll_recv_ready(cx))?;
            }
            let mut metas = [RecvMeta::default(); RECV_MESSAGES];
            let mut recv = || {
                let mut slices = receiver.buffers.each_mut().map(|buffer| IoSliceMut::new(buffer.writable()));
                self.state.recv((&self.socket).into(), &mut slices, &mut metas)
            };
            let received = match std::mem::take(&mut at_once) {
                true => recv(),
                false => self.socket.try_io(Interest::READABLE, recv),
            };
            let received = match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.quiet(receiver);
                    continue;
                }
                result => result?,
            };
            receiver.clock.begin_batch(clock::pair());
            for (meta, buffer) in metas.iter().zip(&mut receiver.buffers).take(received) {
                deliver(meta, buffer, &mut receiver.clock, &mut each);
            }
            return Poll::Ready(Ok(true));
        }
    }

    pub(crate) fn quiet(&self, receiver: &mut Receiver) {
        receiver.buffers.iter_mut().for_each(RecvBuffer::release);
    }

    /// Sets the timer, of which there is one per endpoint.
    pub(crate) fn arm(&self, at: Option<Time>) -> io::Result<()> {
        let mut timer = lock(&self.timer);
        let Some(at) = at else {
            timer.armed = false;
            return Ok(());
        };
        let wait = Duration::from_nanos((at - clock::now()).as_nanos());
        let deadline = tokio_now().checked_add(wait).ok_or(io::ErrorKind::InvalidInput)?;
        timer.sleep.as_mut().reset(deadline);
        timer.armed = true;
        // The waiting task has polled the timer before it was set, or after it had fired.
        if let Some(waker) = timer.waker.clone()
            && timer.sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        {
            waker.wake();
        }
        Ok(())
    }

    /// Ready once the timer has fired.
    pub(crate) fn poll_timer(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = lock(&self.timer);
        timer.waker = Some(cx.waker().clone());
        if !timer.armed {
            return Poll::Pending;
        }
        ready!(timer.sleep.as_mut().poll(cx));
        timer.armed = false;
        Poll::Ready(())
    }

    pub(crate) fn fault(error: &io::Error) -> Fault {
        use io::ErrorKind as Kind;
        if quinn_udp::is_msg_size_err(error) {
            return Fault::TooLong;
        }
        match error.kind() {
            Kind::WouldBlock => Fault::WouldBlock,
            Kind::OutOfMemory => Fault::NoBuffers,
            // Windows reports a closed port as a connection reset.
            Kind::ConnectionRefused | Kind::ConnectionReset => Fault::Refused,
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown | Kind::AddrNotAvailable => {
                Fault::Soft
            }
            // A firewall rule, or segmentation offload that the driver refuses and that quinn-udp will not use again.
            Kind::PermissionDenied | Kind::InvalidInput => Fault::Soft,
            _ if error.raw_os_error().is_some_and(|code| NO_BUFFERS.contains(&code)) => Fault::NoBuffers,
            _ if error.raw_os_error() == Some(IO_ERROR) => Fault::Soft,
            _ => Fault::Fatal,
        }
    }
}

/// ENOBUFS on Linux, on the BSDs and macOS, and on Windows.
const NO_BUFFERS: [i32; 3] = [105, 55, 10_055];
/// EIO, which is also the error for refused segmentation offload.
const IO_ERROR: i32 = 5;

fn deliver(
    meta: &RecvMeta,
    buffer: &mut RecvBuffer,
    clock: &mut ClockMap,
    each: &mut impl FnMut(Incoming<'_>, Option<u32>),
) {
    let shared = (meta.len > longhaul_sys::pool::BUFFER_LEN / 4).then(|| buffer.take(meta.len));
    let data = match &shared {
        Some(shared) => shared.as_ref(),
        None => buffer.filled(meta.len),
    };
    let incoming = Incoming {
        source: canonical(meta.addr),
        dst_ip: meta.dst_ip.map(|ip| ip.to_canonical()),
        stride: meta.stride,
        // quinn-udp 0.6.3 does not report it if the kernel has merged datagrams.
        ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
        tos: None,
        ttl: None,
        rx_time: meta.timestamp.and_then(|stamp| clock.map(stamp)).map(Time::from_nanos),
        coalesced: meta.len > meta.stride,
        data,
        shared: shared.as_ref(),
    };
    each(incoming, None);
}

#[expect(clippy::disallowed_methods, reason = "this is the driver's timer")]
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
