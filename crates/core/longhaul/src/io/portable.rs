//! Socket implementation for every system that `quinn-udp` supports: segmentation offload where available, and
//! tokio's timer with its resolution of 1 ms. The DSCP cannot be set, and data is copied into one buffer before it is
//! sent.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use longhaul_sys::clock::ClockMap;
use longhaul_sys::pool::RecvBuffer;
use longhaul_tcp::HostError;
use longhaul_units::Time;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::time::Sleep;

use super::{Buffers, ErrorClass, Incoming, Outgoing, Role, Writable, canonical, clock, pool};
use crate::error::from_host;
use crate::sync::Mutex;

const RECV_MESSAGES: usize = 4;

pub(super) struct Socket {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
    role: Role,
    /// Whether to use `send` without an address: on some systems a connected socket does not accept a destination
    /// address.
    plain: bool,
    timer: Mutex<Timer>,
    /// Pending error of the socket until it is fetched.
    error: Mutex<Option<io::Error>>,
    scratch: Mutex<Vec<u8>>,
}

/// A timer that can be set while another task waits for it.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    armed: bool,
    waker: Option<Waker>,
}

struct Receiver {
    io: Arc<Socket>,
    buffers: [RecvBuffer; RECV_MESSAGES],
    clock: ClockMap,
}

impl Socket {
    /// Takes over a socket. Must be called within a tokio runtime.
    pub(super) fn new(socket: UdpSocket, role: Role) -> io::Result<Self> {
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
}

impl super::Socket for Socket {
    #[cfg(unix)]
    fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.socket)
    }

    fn options(&self) -> socket2::SockRef<'_> {
        (&self.socket).into()
    }

    fn max_segments(&self) -> usize {
        if self.plain { 1 } else { self.state.max_gso_segments() }
    }

    fn set_buffers(&self, wanted: Buffers) -> io::Result<Buffers> {
        let socket = || (&self.socket).into();
        self.state.set_send_buffer_size(socket(), wanted.send)?;
        self.state.set_recv_buffer_size(socket(), wanted.recv)?;
        let granted = |bytes: usize| if cfg!(target_os = "linux") { bytes / 2 } else { bytes };
        Ok(Buffers {
            send: granted(self.state.send_buffer_size(socket())?),
            recv: granted(self.state.recv_buffer_size(socket())?),
        })
    }

    fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let mut scratch = self.scratch.lock();
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

    fn take_errors(&self, each: &mut dyn FnMut(Option<SocketAddr>, HostError)) -> bool {
        let error = self.error.lock().take().or_else(|| self.socket.take_error().ok().flatten());
        if let Some(error) = &error {
            each(None, from_host(error));
        }
        error.is_some()
    }

    fn arm(&self, at: Time) {
        let mut timer = self.timer.lock();
        let wait = Duration::from_nanos((at - clock::now()).as_nanos());
        let Some(deadline) = clock::tokio_after(wait) else { return };
        timer.sleep.as_mut().reset(deadline);
        timer.armed = true;
        // The waiting task polled the timer before it was set or after it had fired.
        if let Some(waker) = timer.waker.clone()
            && timer.sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        {
            waker.wake();
        }
    }

    fn poll_timer(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.timer.lock();
        timer.waker = Some(cx.waker().clone());
        if !timer.armed {
            return Poll::Pending;
        }
        ready!(timer.sleep.as_mut().poll(cx));
        timer.armed = false;
        Poll::Ready(())
    }

    fn class(&self, error: &io::Error) -> ErrorClass {
        use io::ErrorKind as Kind;
        if quinn_udp::is_msg_size_err(error) {
            return ErrorClass::MessageTooLarge;
        }
        match error.kind() {
            Kind::WouldBlock => ErrorClass::WouldBlock,
            Kind::OutOfMemory => ErrorClass::NoBuffers,
            // Windows reports a closed port as a connection reset.
            Kind::ConnectionRefused | Kind::ConnectionReset => ErrorClass::Refused,
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown | Kind::AddrNotAvailable => {
                ErrorClass::Unreachable
            }
            // A firewall rule, or segmentation offload that the driver refuses and that quinn-udp will not use again.
            Kind::PermissionDenied | Kind::InvalidInput => ErrorClass::Unreachable,
            _ if error.raw_os_error().is_some_and(|code| NO_BUFFERS.contains(&code)) => ErrorClass::NoBuffers,
            _ if error.raw_os_error() == Some(IO_ERROR) => ErrorClass::Unreachable,
            _ => ErrorClass::Fatal,
        }
    }

    fn receiver(self: Arc<Self>) -> Box<dyn super::Receiver> {
        let buffers = std::array::from_fn(|_| pool().buffer());
        Box::new(Receiver { io: self, buffers, clock: ClockMap::new(clock::pair()) })
    }
}

impl super::Receiver for Receiver {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        mut at_once: bool,
        each: &mut dyn FnMut(Incoming<'_>, Option<u32>),
    ) -> Poll<io::Result<bool>> {
        loop {
            if !at_once {
                ready!(self.io.socket.poll_recv_ready(cx))?;
            }
            let mut metas = [RecvMeta::default(); RECV_MESSAGES];
            let mut recv = || {
                let mut slices = self.buffers.each_mut().map(|buffer| IoSliceMut::new(buffer.writable()));
                self.io.state.recv((&self.io.socket).into(), &mut slices, &mut metas)
            };
            let received = match std::mem::take(&mut at_once) {
                true => recv(),
                false => self.io.socket.try_io(Interest::READABLE, recv),
            };
            let received = match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.buffers.iter_mut().for_each(RecvBuffer::release);
                    continue;
                }
                result => result?,
            };
            self.clock.begin_batch(clock::pair());
            for (meta, buffer) in metas.iter().zip(&mut self.buffers).take(received) {
                deliver(meta, buffer, &mut self.clock, each);
            }
            return Poll::Ready(Ok(true));
        }
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>, retry: &mut dyn FnMut() -> bool) -> Poll<Writable> {
        if ready!(self.io.socket.poll_send_ready(cx)).is_err() {
            return Poll::Ready(Writable::Yes);
        }
        let tried = self
            .io
            .socket
            .try_io(Interest::WRITABLE, || if retry() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) });
        if tried.is_ok() {
            return Poll::Ready(Writable::Yes);
        }
        // Readiness has been cleared: poll again to register the waker. If the socket is still reported writable, tokio
        // has mistaken an error for the closing of the write side, and reports the socket as writable afterwards.
        self.io.socket.poll_send_ready(cx).map(|_| Writable::Unknown)
    }

    /// Here, an error on the path appears as write readiness, which this call consumes.
    fn poll_error(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.io.role != Role::Connected {
            return Poll::Pending;
        }
        // The second iteration registers the waker. A third would not help: after an error tokio may report the
        // socket as writable forever, and the next poll of the driver finds further errors.
        for _ in 0..2 {
            if ready!(self.io.socket.poll_send_ready(cx)).is_err() {
                return Poll::Pending;
            }
            if let Ok(Some(error)) = self.io.socket.take_error() {
                *self.io.error.lock() = Some(error);
                return Poll::Ready(());
            }
            // Clears the readiness.
            let _ =
                self.io.socket.try_io(Interest::WRITABLE, || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into()));
        }
        Poll::Pending
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
    each: &mut dyn FnMut(Incoming<'_>, Option<u32>),
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
        // quinn-udp 0.6.3 does not report ECN if the kernel has merged datagrams.
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
