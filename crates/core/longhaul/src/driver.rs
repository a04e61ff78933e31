//! The driver task, one per UDP socket: waits for an endpoint's socket and timer.

use std::future::Future;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use longhaul_units::{Span, Time};

mod moderation;

use self::moderation::Moderation;
use crate::error::from_host;
use crate::io::{ErrorClass, Io, Receiver, Writable};
use crate::shared::{Receiving, Shared, State, Turn};
use crate::sync::MutexGuard;

const RECEIVES_PER_POLL: usize = 16;
/// Number of bytes after which responses are sent even if there is more to receive.
const SETTLED_BYTES: usize = 256 << 10;
/// Delay until the next receive call when readiness of the socket cannot be monitored.
const WATCH_RETRY: Span = Span::from_millis(1);
/// Time for which a socket whose connections are all in TIME-WAIT remains open, to retransmit a lost last ACK. It is
/// shorter than TIME-WAIT, so that the port and the descriptor are released earlier.
const PORT_LINGER: Span = Span::from_millis(1000);
/// The lingering sockets of this process; any further socket is closed at once.
static LINGERING: Places = Places::new(128);
/// The client sockets of this process whose stream has been dropped and which wait for the peer's FIN. Any further
/// connection is reset instead, as by the kernel (`tcp_max_orphans`): each holds a descriptor.
static ORPHANS: Places = Places::new(if cfg!(test) { 8 } else { 256 });

pub(crate) struct Driver {
    shared: Arc<Shared>,
    receiver: Box<dyn Receiver>,
    moderation: Moderation,
    /// Whether sending is deferred to the next poll, after the tasks that are being woken.
    defers: bool,
    orphan: Option<Place>,
    lingers: Option<Place>,
}

struct Places {
    taken: AtomicUsize,
    most: usize,
}

/// A place, which is released on drop.
struct Place(&'static Places);

impl Places {
    const fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    fn take(&'static self) -> Option<Place> {
        let place = Place(self);
        (self.taken.fetch_add(1, Ordering::Relaxed) < self.most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let receiver = shared.io.receiver();
        let moderation = Moderation::new(shared.lock().stats.recv_buffer_bytes as usize);
        Self { shared, receiver, moderation, defers: false, orphan: None, lingers: None }
    }

    pub(crate) fn spawn(shared: Arc<Shared>) {
        tokio::spawn(Self::new(shared));
    }

    /// Receives until the socket is empty or [`RECEIVES_PER_POLL`] calls have been made; `at_once` makes the first call
    /// even if the socket is not reported readable. Returns whether there may be more to receive.
    fn receive(&mut self, cx: &mut Context<'_>, mut at_once: bool) -> bool {
        let shared = Arc::clone(&self.shared);
        // Responses to the segments of several small receive calls are sent together.
        let mut unsettled = 0;
        let mut again = true;
        for _ in 0..RECEIVES_PER_POLL {
            let mut guard = None;
            let mut now = Time::ZERO;
            let polled = self.receiver.poll_recv(cx, std::mem::take(&mut at_once), &mut |incoming, drops| {
                let state = guard.get_or_insert_with(|| {
                    now = Io::now();
                    shared.lock()
                });
                // An empty datagram may belong to another shard.
                unsettled += incoming.data.len().max(1);
                self.moderation.note(incoming.rx_time.unwrap_or(now), incoming.data.len(), incoming.stride);
                state.receive(&shared, now, &incoming, drops);
            });
            match polled {
                Poll::Pending => {
                    again = false;
                    break;
                }
                Poll::Ready(Ok(more)) => {
                    if let Some(state) = guard.filter(|_| !more || unsettled >= SETTLED_BYTES) {
                        self.defers |= shared.settle_received(state, now);
                        unsettled = 0;
                    }
                }
                Poll::Ready(Err(error)) => {
                    let mut state = guard.unwrap_or_else(|| shared.lock());
                    let now = Io::now();
                    match shared.io.class(&error) {
                        // The failed call cleared the pending error; details may still wait in the error queue.
                        ErrorClass::Refused | ErrorClass::Unreachable if !state.fetch_errors(&shared, now) => {
                            state.on_host_error(now, None, from_host(&error));
                        }
                        ErrorClass::Fatal => state.fail(&error),
                        _ => {}
                    }
                    self.defers |= shared.settle_received(state, now);
                    unsettled = 0;
                }
            }
        }
        if unsettled > 0 {
            self.defers |= shared.settle_received(shared.lock(), Io::now());
        }
        again
    }

    /// Fetches pending ICMP errors. They do not make the socket readable, and only the next call fails because of them.
    fn poll_errors(&mut self, cx: &mut Context<'_>) {
        let shared = Arc::clone(&self.shared);
        while self.receiver.poll_error(cx).is_ready() {
            let mut state = shared.lock();
            let now = Io::now();
            state.fetch_errors(&shared, now);
            shared.settle(state, now);
        }
    }

    /// Resets the connection of a client socket without a stream if it only waits for the peer's FIN and there are too
    /// many such sockets.
    fn limit_orphans(&mut self, shared: &Shared, mut state: MutexGuard<'_, State>, now: Time) {
        let waiting = state
            .client
            .filter(|_| state.handles == 0)
            .and_then(|peer| state.endpoint.find(&Shared::client_tuple(peer)));
        let waiting = waiting.filter(|id| state.endpoint.state(*id) == Some(longhaul_tcp::State::FinWait2));
        let Some(id) = waiting.filter(|_| self.orphan.is_none()) else { return };
        self.orphan = ORPHANS.take();
        if self.orphan.is_none() {
            state.endpoint.drive(now, id, longhaul_tcp::Connection::abort);
            shared.settle(state, now);
        }
    }

    fn is_over(&mut self, shared: &Shared, now: Time) -> bool {
        let mut state = shared.lock();
        if !state.is_over() {
            (state.lingers_until, self.lingers) = (None, None);
            self.limit_orphans(shared, state, now);
            return false;
        }
        self.orphan = None;
        // Nothing is left to serve, not even TIME-WAIT: close at once.
        if state.fatal.is_some() || state.endpoint.is_idle() {
            return true;
        }
        // Only TIME-WAIT is left: linger for a limited time.
        if let Some(until) = state.lingers_until {
            return now >= until;
        }
        self.lingers = LINGERING.take();
        if self.lingers.is_none() {
            return true;
        }
        state.lingers_until = Some(now + PORT_LINGER);
        state.arm(shared);
        false
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The runtime is shutting down, or all connections have ended: wake every waiting task, since no other event
        // will wake them.
        let mut state = self.shared.lock();
        state.lingers_until = None;
        state.abandon(&self.shared, Io::now());
        State::wake(state);
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // 1. Receive. Each batch of arriving segments is processed and answered before the next one.
        let shared = Arc::clone(&self.shared);
        let receiving = shared.lock().begin_turn(cx);
        let receives = receiving != Receiving::Paused;
        let mut again = receives && self.receive(cx, receiving == Receiving::AtOnce);
        // 2. Run the timers that have expired.
        while shared.io.poll_timer(cx).is_ready() {
            let mut state = shared.lock();
            let now = Io::now();
            state.timer_fired();
            state.endpoint.handle_timeout(now);
            shared.settle(state, now);
        }
        // 3. Send the remaining data, set the timer, and wake the tasks whose connections have changed.
        let now = Io::now();
        let mut state = shared.lock();
        state.follow_route(&shared, now);
        let defers = std::mem::take(&mut self.defers);
        let turn = if defers && !again { Turn::Done } else { state.transmit(&shared, now, None) };
        // The task of this connection is about to run.
        state.busy = None;
        if receives && !again {
            let patience = state.endpoint.take_read_patience();
            state.read_at = self.moderation.pause(now, patience).filter(|_| self.receiver.stop_watching());
            if state.read_at.is_some() {
                state.stats.read_pauses += 1;
            } else {
                match self.receiver.poll_watch(cx) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(())) => again = true,
                    // The kernel has no memory to register the socket.
                    Poll::Ready(Err(error))
                        if matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::StorageFull) =>
                    {
                        state.read_at = Some(now + WATCH_RETRY);
                    }
                    Poll::Ready(Err(error)) => state.fail(&error),
                }
            }
        }
        state.arm(&shared);
        state.finish();
        let wakers = state.take_wakers();
        drop(state);
        wakers.into_iter().filter(|w| !w.will_wake(cx.waker())).for_each(std::task::Waker::wake);
        self.poll_errors(cx);
        // 4. Arrange for the next poll: at once if there is more to do, otherwise when the socket is writable.
        if turn != Turn::Blocked {
            self.receiver.unblock();
        }
        match turn {
            Turn::Done => {}
            Turn::More => again = true,
            Turn::Blocked => {
                let mut retry = || {
                    let mut state = shared.lock();
                    let turn = state.transmit(&shared, Io::now(), None);
                    state.arm(&shared);
                    turn != Turn::Blocked
                };
                match self.receiver.poll_writable(cx, &mut retry) {
                    Poll::Ready(Writable::Yes) => again = true,
                    // Readiness cannot be relied on (see `Writable::Unknown`): retry after a pause.
                    Poll::Ready(Writable::Unknown) => {
                        let mut state = shared.lock();
                        state.pause(Io::now());
                        state.arm(&shared);
                    }
                    Poll::Pending => {}
                }
            }
        }
        if again {
            cx.waker().wake_by_ref();
        } else if defers {
            // Arrange to be woken after the other tasks of this runtime, including that of `block_on`, have run.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        }
        // 5. Finish if no handle and no connection is left.
        if self.is_over(&shared, now) && shared.lock().end() { Poll::Ready(()) } else { Poll::Pending }
    }
}
