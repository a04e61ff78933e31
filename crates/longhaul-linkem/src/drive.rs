//! The thread that keeps a link's time: waits for packets and for the moments at which some are due.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use longhaul_link::Payload;
use longhaul_sys::linux::{Poll, Timer, run_first};
use longhaul_units::{Span, Time};

use crate::engine::Engine;
use crate::log;

/// Tokens of the loop itself; a [`Port`]'s are below.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// Packets that are due within so long of the last that was passed on go with the next ones: at 1 Gb/s four at a time. A
/// twentieth of what the emulator may be late by, and below that nothing waits for a timer.
const GRAIN: Span = Span::from_micros(50);

/// After so long without a packet that was due, the next one is awaited without sleeping ...
const QUIET: Span = Span::from_millis(1);
/// ... from so long before it is due: a timer of a processor that is fast asleep is about that late. At worst that is one
/// part of processor time in sixteen.
const EARLY: Span = Span::from_micros(60);

/// How often a port has a look at its clients, and the log is written.
const ROUND: Span = Span::from_nanos(log::INTERVAL.as_nanos() as u64);

/// A link that is to finish has done so when nothing was on it for so long: who gets a packet answers sooner.
const REST: Span = Span::from_millis(50);

/// A link has so long to finish.
const LINGER: Span = Span::from_secs(3);

/// Where packets come from and go to.
pub trait Port<T> {
    /// Adds to `poll` what there is to be watched, with tokens of its own below 2^63.
    ///
    /// # Errors
    /// The system's.
    fn watch(&mut self, poll: &Poll) -> io::Result<()>;

    /// Offers what has come in at a descriptor to the link. Whether there may be more.
    ///
    /// # Errors
    /// Those after which nothing can go on.
    fn receive(&mut self, token: u64, poll: &Poll, engine: &mut Engine<T>) -> io::Result<bool>;

    /// Passes on what is due.
    ///
    /// # Errors
    /// Those after which nothing can go on.
    fn release(&mut self, now: Time, engine: &mut Engine<T>) -> io::Result<()>;

    /// Called ten times a second.
    fn tend(&mut self, now: Time) {
        let _ = now;
    }
}

/// Runs a link until the other end of `stop` is closed. Once a byte comes from there, it ends by itself when nothing is
/// under way any more, or after three seconds.
///
/// # Errors
/// Those after which nothing can go on.
pub fn drive<T: Payload>(engine: &mut Engine<T>, port: &mut impl Port<T>, stop: &UnixStream) -> io::Result<()> {
    let (poll, timer) = (Poll::new()?, Timer::new()?);
    poll.add(stop, STOP)?;
    poll.add(&timer, TIMER)?;
    port.watch(&poll)?;
    let mut ready = Vec::new();
    let mut armed = Time::MAX;
    let mut round = engine.now() + ROUND;
    let mut more = false;
    let mut passed = Time::ZERO;
    // When something was last on the link, and until when it may finish.
    let mut busy = engine.now();
    let mut finish = None;
    loop {
        ready.clear();
        poll.wait(!more, &mut ready)?;
        more = false;
        for &token in &ready {
            match token {
                STOP if (&*stop).read(&mut [0])? == 0 => return Ok(()),
                STOP => finish = Some(engine.now() + LINGER),
                // Arming it anew takes its readability back.
                TIMER => armed = Time::MAX,
                token => more |= port.receive(token, &poll, engine)?,
            }
        }
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

/// When to be awake for what is due, if something was passed on at a time before.
fn wake(due: Time, passed: Time) -> Time {
    if due.since(passed) >= QUIET { due - EARLY } else { due.max(passed + GRAIN) }
}

/// A link on a thread of its own.
#[derive(Debug)]
pub struct Driver<T, P> {
    stop: UnixStream,
    thread: JoinHandle<Ended<T, P>>,
}

/// What a thread had when it ended, and why it did if nobody stopped it.
type Ended<T, P> = (io::Result<()>, Engine<T>, P);

impl<T, P> Driver<T, P>
where
    T: Payload + Send + 'static,
    P: Port<T> + Send + 'static,
{
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's.
    pub fn start(mut engine: Engine<T>, mut port: P) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let run = move || {
            // Whoever may not is later when the machine is busy, and told so in the summary.
            let _ = run_first();
            let result = drive(&mut engine, &mut port, &stopped);
            (result, engine, port)
        };
        let thread = thread::Builder::new().name("link".to_owned()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    /// Waits until the thread ends by itself, for lack of something it needs. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The system's.
    pub async fn failed(&self) -> io::Result<()> {
        let stream = self.stop.try_clone()?;
        stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(stream)?.readable().await
    }

    /// As [`stop`](Self::stop), once what is under way has arrived and been answered, or after three seconds.
    ///
    /// # Errors
    /// As those of [`stop`](Self::stop).
    pub fn finish(self) -> io::Result<(Engine<T>, P)> {
        // If the thread has ended already, `end` says why.
        let _ = (&self.stop).write_all(&[0]);
        Self::end(self.thread)
    }

    /// Ends the thread and the log; the link and what it was between.
    ///
    /// # Errors
    /// Those for which the thread had ended before, or the log could not be written.
    pub fn stop(self) -> io::Result<(Engine<T>, P)> {
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
