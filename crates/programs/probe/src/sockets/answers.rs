//! Receiver thread: answers with the kernel's receive timestamps.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use longhaul_units::{Span, Time};
use longhaul_wire::probe::Answer;

use super::socket::{Event, is_a_loss};

/// UDP socket with control messages: timestamps, TTL, ICMP errors.
#[cfg(target_os = "linux")]
pub(super) type Io = longhaul_sys::linux::UdpSocket;
#[cfg(not(target_os = "linux"))]
pub(super) type Io = std::net::UdpSocket;

/// Clock of a measurement, which starts at 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Reading at the start of the clock to which receive timestamps are mapped.
    #[cfg(target_os = "linux")]
    start: u64,
    #[cfg(not(target_os = "linux"))]
    start: std::time::Instant,
}

impl Clock {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(clippy::disallowed_methods, reason = "a driver over sockets reads the clock")
    )]
    pub(super) fn start() -> Self {
        #[cfg(target_os = "linux")]
        let start = longhaul_sys::linux::monotonic_now();
        #[cfg(not(target_os = "linux"))]
        let start = std::time::Instant::now();
        Self { start }
    }

    pub(super) fn now(self) -> Time {
        #[cfg(target_os = "linux")]
        return self.at(longhaul_sys::linux::monotonic_now());
        #[cfg(not(target_os = "linux"))]
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn elapsed(self) -> Span {
        self.now().since(Time::ZERO)
    }

    #[cfg(target_os = "linux")]
    fn at(self, monotonic: u64) -> Time {
        Time::from_nanos(monotonic.saturating_sub(self.start))
    }
}

/// Receiver of the answers to the probes of one socket.
#[derive(Debug)]
pub(super) struct Ear {
    /// Second half of the nonce, common to all probes of the socket.
    pub(super) nonce: u32,
    pub(super) clock: Clock,
    pub(super) events: SyncSender<Event>,
    pub(super) closed: Arc<AtomicBool>,
}

struct Unwanted;

impl Ear {
    /// Passes on the event in a datagram from the reflector. Answers to other sockets' probes are ignored.
    fn hear(&self, datagram: &[u8], at: Time) -> Result<(), Unwanted> {
        let event = match Answer::parse(datagram) {
            Some(answer) => (answer.probe.nonce as u32 == self.nonce).then_some(Event::Answer(answer, at)),
            // The first four bits of a segment are its data offset, 5 to 15.
            None => datagram.first().is_some_and(|first| first >> 4 >= 5).then_some(Event::Segment),
        };
        event.map_or(Ok(()), |event| self.pass(event))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn pass(&self, event: Event) -> Result<(), Unwanted> {
        self.events.send(event).map_err(|_| Unwanted)
    }

    /// Handles the error of a receive call; returns whether the thread continues.
    fn failed(&self, error: &std::io::Error) -> bool {
        match error.kind() {
            ErrorKind::ConnectionRefused => self.pass(Event::Refused).is_ok(),
            ErrorKind::Interrupted => true,
            _ => is_a_loss(error),
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use longhaul_sys::clock::ClockMap;
    use longhaul_sys::linux::{MAX_RECV_BATCH, PathError, PathErrorKind, Poll, RecvBatch, clock_pair, monotonic_now};
    use longhaul_sys::pool::RecvPool;
    use longhaul_wire::probe::Probe;

    use super::{Ear, Io, Unwanted};
    use crate::sockets::socket::{Event, Returned};

    const SPARE: usize = MAX_RECV_BATCH;

    impl Ear {
        /// Receives until the socket is dropped, or until receiving fails.
        pub(in crate::sockets) fn listen(&self, io: &Io) {
            // When this thread ends, its channel closes, and the prober reports that as an error.
            let _ = self.try_listen(io);
        }

        fn try_listen(&self, io: &Io) -> io::Result<()> {
            let poll = Poll::new()?;
            poll.add(io, 0)?;
            let pool = RecvPool::new(SPARE, SPARE);
            let mut batch = RecvBatch::new(&pool, MAX_RECV_BATCH);
            let mut times = ClockMap::new(clock_pair());
            let mut ready = Vec::new();
            loop {
                ready.clear();
                poll.wait(true, &mut ready)?;
                if self.is_closed() {
                    return Ok(());
                }
                while let Some(report) = io.recv_path_error()? {
                    if self.returned(&report, &mut times).is_err() {
                        return Ok(());
                    }
                }
                match io.recv(&mut batch) {
                    Ok(_) if self.take(&mut batch, &mut times).is_err() => return Ok(()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock || self.failed(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }

        fn take(&self, batch: &mut RecvBatch, times: &mut ClockMap) -> Result<(), Unwanted> {
            times.begin_batch(clock_pair());
            for message in batch.messages() {
                let at = message.meta.timestamp.and_then(|stamp| times.map(stamp)).unwrap_or_else(monotonic_now);
                for datagram in message.datagrams() {
                    self.hear(datagram, self.clock.at(at))?;
                }
            }
            Ok(())
        }

        fn returned(&self, report: &PathError, times: &mut ClockMap) -> Result<(), Unwanted> {
            let arrived = match report.kind {
                PathErrorKind::Expired => false,
                PathErrorKind::NoPort => true,
                PathErrorKind::Other(..) => return Ok(()),
            };
            times.begin_batch(clock_pair());
            let at = report.timestamp.and_then(|stamp| times.map(stamp)).unwrap_or_else(monotonic_now);
            let whole = Probe::parse_quoted(&report.quoted);
            if whole.is_some_and(|probe| probe.nonce as u32 != self.nonce) {
                return Ok(());
            }
            let nonce = Probe::quoted_nonce(&report.quoted);
            let returned = Returned { from: report.from, arrived, nonce };
            self.pass(Event::Returned(returned, self.clock.at(at)))
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Ear {
    /// Receives until the socket is dropped, or until receiving fails.
    pub(super) fn listen(&self, io: &Io) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let received = io.recv(&mut buffer);
            if self.is_closed() {
                return;
            }
            match received {
                Ok(len) => {
                    let at = self.clock.now();
                    // Receive offload may merge answers, which all have the same length.
                    for datagram in buffer.get(..len).unwrap_or_default().chunks(longhaul_wire::probe::ANSWER_LEN) {
                        if self.hear(datagram, at).is_err() {
                            return;
                        }
                    }
                }
                Err(error) if self.failed(&error) => {}
                Err(_) => return,
            }
        }
    }
}
