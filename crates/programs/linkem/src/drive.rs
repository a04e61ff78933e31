//! Thread that drives a link in real time: it waits for packets and for the link's next event.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use longhaul_link::Payload;
use longhaul_sys::linux::{Poll, Timer, run_first};
use longhaul_units::{Span, Time};

use crate::engine::Engine;
use crate::log;

/// Tokens of the loop itself; those of a [`Port`] are lower.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// Minimum time between releases: packets due within this time, such as four packets at 1 Gb/s, are sent together. It
/// is 1/20 of the tolerated lateness. No timer is set for a shorter time.
const GRAIN: Span = Span::from_micros(50);

/// If no packet has been due for this long, the loop wakes up early by [`EARLY`], and polls until the next one is due.
const QUIET: Span = Span::from_millis(1);
/// Time by which it wakes up early: about the timer latency of a processor in a deep sleep state. At worst, polling
/// takes 1/16 of the processor time.
const EARLY: Span = Span::from_micros(60);

/// Interval of housekeeping: ports expire clients, and logs are written.
const ROUND: Span = Span::from_nanos(log::INTERVAL.as_nanos() as u64);

/// A finishing link stops after this long without a packet on it; receivers answer packets within a shorter time.
const REST: Span = Span::from_millis(50);

const LINGER: Span = Span::from_secs(3);

/// Endpoint of a link: reads packets from the system and writes them back to it.
pub(crate) trait Port<T> {
    /// Registers the descriptors to watch with `poll`, with tokens below 2^63.
    fn watch(&mut self, poll: &Poll) -> io::Result<()>;

    /// Reads packets from a descriptor and offers them to the link. Returns whether there may be more.
    fn receive(&mut self, token: u64, poll: &Poll, engine: &mut Engine<T>) -> io::Result<bool>;

    /// Sends the packets that are due.
    fn release(&mut self, now: Time, engine: &mut Engine<T>) -> io::Result<()>;

    /// Performs housekeeping. Called ten times per second.
    fn tend(&mut self, now: Time) {
        let _ = now;
    }
}

/// Runs a link until the other end of `stop` is closed. After a byte arrives on `stop`, it ends by itself as soon as
/// the link has been empty for 50 ms, or after 3 s.
pub(crate) fn drive<T: Payload>(engine: &mut Engine<T>, port: &mut impl Port<T>, stop: &UnixStream) -> io::Result<()> {
    let (poll, timer) = (Poll::new()?, Timer::new()?);
    poll.add(stop, STOP)?;
    poll.add(&timer, TIMER)?;
    port.watch(&poll)?;
    let mut ready = Vec::new();
    let mut armed = Time::MAX;
    let mut round = engine.now() + ROUND;
    let mut more = false;
    let mut passed = Time::ZERO;
    // The last time at which a packet was on the link, and the deadline for finishing.
    let mut busy = engine.now();
    let mut finish = None;
    loop {
        // Wait for packets, the timer or the stop signal, unless something is still to be read.
        ready.clear();
        poll.wait(!more, &mut ready)?;
        more = false;
        for &token in &ready {
            match token {
                STOP if (&*stop).read(&mut [0])? == 0 => return Ok(()),
                STOP => finish = Some(engine.now() + LINGER),
                // The timer fired; arming it again clears its readiness.
                TIMER => armed = Time::MAX,
                token => more |= port.receive(token, &poll, engine)?,
            }
        }
        // Send the packets that are due, and do the housekeeping.
        let now = engine.now();
        if !engine.is_empty() {
            busy = now;
        }
        if engine.next_event().is_some_and(|due| due <= now) {
            port.release(now, engine)?;
            passed = now;
        }
        if now >= round {
            round = now + ROUND;
            port.tend(now);
            engine.record(now);
        }
        // End if requested, or set the timer for the next event.
        if finish.is_some_and(|until| now >= until || now.since(busy) >= REST) {
            return Ok(());
        }
        let round = if finish.is_some() { round.min(now + REST) } else { round };
        let next = engine.next_event().map_or(round, |due| wake(due, passed).min(round));
        if next <= now {
            more = true;
        } else if next != armed {
            timer.arm(Some(engine.monotonic(next)))?;
            armed = next;
        }
    }
}

/// Returns the wake-up time for an event that is due; `passed` is the time of the last release.
fn wake(due: Time, passed: Time) -> Time {
    if due.since(passed) >= QUIET { due - EARLY } else { due.max(passed + GRAIN) }
}

/// A link running on its own thread.
#[derive(Debug)]
pub(crate) struct Driver<T, P> {
    stop: UnixStream,
    thread: JoinHandle<Ended<T, P>>,
}

type Ended<T, P> = (io::Result<()>, Engine<T>, P);

impl<T, P> Driver<T, P>
where
    T: Payload + Send + 'static,
    P: Port<T> + Send + 'static,
{
    pub(crate) fn start(mut engine: Engine<T>, mut port: P) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let run = move || {
            // Without permission for real-time priority, the lateness on a busy machine is higher; the summary
            // reports it.
            let _ = run_first();
            let result = drive(&mut engine, &mut port, &stopped);
            (result, engine, port)
        };
        let thread = thread::Builder::new().name("link".to_owned()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    /// Waits until the thread ends because of an error. Must be called within a tokio runtime.
    pub(crate) async fn failed(&self) -> io::Result<()> {
        let stream = self.stop.try_clone()?;
        stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(stream)?.readable().await
    }

    /// Stops like [`stop`](Self::stop), but only once packets in flight have arrived and been answered, or after 3 s.
    pub(crate) fn finish(self) -> io::Result<(Engine<T>, P)> {
        // If the thread has already ended, `end` returns its error.
        let _ = (&self.stop).write_all(&[0]);
        Self::end(self.thread)
    }

    /// Stops the thread, closes the logs, and returns the engine and the port.
    pub(crate) fn stop(self) -> io::Result<(Engine<T>, P)> {
        drop(self.stop);
        Self::end(self.thread)
    }

    fn end(thread: JoinHandle<Ended<T, P>>) -> io::Result<(Engine<T>, P)> {
        let (result, mut engine, port) =
            thread.join().map_err(|_| io::Error::other("the thread of the link has failed"))?;
        result?;
        engine.close()?;
        Ok((engine, port))
    }
}
