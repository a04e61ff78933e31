//! Answers in, with the time at which the kernel had them.

use std::io::ErrorKind;
use std::sync::mpsc::SyncSender;

use longhaul::units::Time;
use longhaul_wire::probe::Answer;

use super::socket::{Event, is_a_loss};

/// A UDP socket with all that the system can say of a datagram.
#[cfg(target_os = "linux")]
pub type Io = longhaul_sys::linux::UdpSocket;
/// A UDP socket.
#[cfg(not(target_os = "linux"))]
pub type Io = std::net::UdpSocket;

/// The clock of a measurement, which begins with it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// By the clock that receive times are mapped to.
    #[cfg(target_os = "linux")]
    start: u64,
    #[cfg(not(target_os = "linux"))]
    start: crate::report::Stopwatch,
}

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        #[cfg(target_os = "linux")]
        let start = longhaul_sys::linux::monotonic_now();
        #[cfg(not(target_os = "linux"))]
        let start = crate::report::Stopwatch::start();
        Self { start }
    }

    /// The time since the start.
    #[must_use]
    pub fn now(self) -> Time {
        #[cfg(target_os = "linux")]
        return self.at(longhaul_sys::linux::monotonic_now());
        #[cfg(not(target_os = "linux"))]
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    #[cfg(target_os = "linux")]
    fn at(self, monotonic: u64) -> Time {
        Time::from_nanos(monotonic.saturating_sub(self.start))
    }
}

/// Who listens for the answers to one socket's probes.
#[derive(Debug)]
pub struct Ear {
    /// The end of the nonce in all of its probes.
    pub nonce: u32,
    /// The clock that times are told by.
    pub clock: Clock,
    /// Where they go.
    pub events: SyncSender<Event>,
}

/// Nobody wants events any more.
struct Unwanted;

impl Ear {
    /// Passes on what a datagram from the reflector says; nothing if it is an answer to somebody else's probe.
    fn hear(&self, datagram: &[u8], at: Time) -> Result<(), Unwanted> {
        let event = match Answer::parse(datagram) {
            Some(answer) => (answer.probe.nonce as u32 == self.nonce).then_some(Event::Answer(answer, at)),
            // A segment begins with its data offset, 5 to 15, in four bits.
            None => datagram.first().is_some_and(|first| first >> 4 >= 5).then_some(Event::Segment),
        };
        event.map_or(Ok(()), |event| self.pass(event))
    }

    fn pass(&self, event: Event) -> Result<(), Unwanted> {
        self.events.send(event).map_err(|_| Unwanted)
    }

    /// What a receive call failed with. Whether to go on.
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
    use crate::probe::socket::{Event, Returned};

    /// Buffers that may wait for their next use.
    const SPARE: usize = MAX_RECV_BATCH;

    impl Ear {
        /// Receives until nobody wants the events any more, or nothing can be received.
        pub fn listen(&self, io: &Io) {
            // Whoever asks for answers is told that there will be none.
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
    /// Receives until nobody wants the events any more, or nothing can be received.
    pub fn listen(&self, io: &Io) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match io.recv(&mut buffer) {
                Ok(len) => {
                    let at = self.clock.now();
                    // Receive offload may have merged answers, all of which have the same length.
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
