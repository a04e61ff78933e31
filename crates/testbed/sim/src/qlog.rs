//! Event logs (qlog) in virtual time.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_qlog::{Log, Sequence, Start};
use longhaul_tcp::{ConnectionEvent, IncomingObservers, Observer, Tuple};
use longhaul_units::{Span, Time};

use crate::sim::SessionId;

/// Handle of a log of one end of a connection, created by [`Sim::qlog`](crate::Sim::qlog). Logging continues after
/// the handle is dropped.
#[derive(Debug)]
pub struct Qlog<W>(Arc<Mutex<Output<W>>>);

#[derive(Debug)]
struct Output<W> {
    /// The output, until the log has started.
    waits: Option<Sequence<W>>,
    log: Option<Log<Sequence<W>>>,
}

impl<W: Write + Send + 'static> Qlog<W> {
    pub(crate) fn new(out: W) -> (Self, SharedLog) {
        let output = Arc::new(Mutex::new(Output { waits: Some(Sequence::new(out)), log: None }));
        (Self(Arc::clone(&output)), SharedLog(output))
    }

    /// Ends the log at its present state and returns the output.
    ///
    /// # Errors
    /// Returns the first error in writing.
    pub fn finish(self) -> io::Result<W> {
        let Output { waits, log } = &mut *lock(&self.0);
        match log.as_mut().map(Log::sink_mut).or(waits.as_mut()) {
            Some(sequence) => sequence.finish(),
            None => Err(io::Error::other("the log has no output")),
        }
    }
}

trait AnyLog: Send {
    fn start(&mut self, start: Start);
    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>);
    fn has_ended(&self) -> bool;
}

impl<W: Write + Send> AnyLog for Output<W> {
    fn start(&mut self, start: Start) {
        if let Some(sequence) = self.waits.take() {
            self.log = Some(Log::new(start, sequence));
        }
    }

    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        let Some(log) = &mut self.log else { return };
        log.log(now, event);
        if log.has_ended() {
            log.sink_mut().flush();
        }
    }

    fn has_ended(&self) -> bool {
        self.log.as_ref().is_some_and(Log::has_ended)
    }
}

#[derive(Clone)]
pub(crate) struct SharedLog(Arc<Mutex<dyn AnyLog>>);

impl SharedLog {
    pub(crate) fn start(&self, start: Start) {
        lock(&self.0).start(start);
    }

    pub(crate) fn observer(&self, ahead: Span) -> Box<dyn Observer> {
        Box::new(HostObserver { log: self.clone(), ahead })
    }
}

impl fmt::Debug for SharedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedLog")
    }
}

/// Observer that converts the host's clock to the simulation's time.
#[derive(Debug)]
struct HostObserver {
    log: SharedLog,
    ahead: Span,
}

impl Observer for HostObserver {
    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        lock(&self.log.0).event(now - self.ahead, event);
    }
}

#[derive(Default)]
pub(crate) struct Qlogs {
    waiting: Vec<(SessionId, SharedLog)>,
    /// Logs of connections to be accepted, by host.
    incoming: HashMap<u32, Incoming>,
}

impl Qlogs {
    pub(crate) fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn wait(&mut self, session: SessionId, log: SharedLog) {
        self.waiting.push((session, log));
    }

    pub(crate) fn take(&mut self, is_session: impl Fn(SessionId) -> bool) -> Vec<(SessionId, SharedLog)> {
        self.waiting.extract_if(.., |(id, _)| is_session(*id)).collect()
    }

    /// Adds the log of the connection that a host will accept from `remote`. Returns the factory to be set on the host's
    /// endpoint.
    pub(crate) fn expect(&mut self, place: u32, ahead: Span, remote: SocketAddr, log: SharedLog) -> Incoming {
        let incoming = self.incoming.entry(place).or_insert_with(|| Incoming { ahead, logs: Arc::default() });
        lock(&incoming.logs).entry(remote).or_default().push(log);
        incoming.clone()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    ahead: Span,
    logs: Arc<Mutex<HashMap<SocketAddr, Vec<SharedLog>>>>,
}

impl IncomingObservers for Incoming {
    fn observers(&mut self, _: Time, tuple: &Tuple) -> Vec<Box<dyn Observer>> {
        let mut logs = lock(&self.logs);
        // A log waits on until a handshake succeeds.
        let Some(logs) = logs.get_mut(&tuple.remote).filter(|_| tuple.local.is_unspecified()) else {
            return Vec::new();
        };
        logs.retain(|log| !lock(&log.0).has_ended());
        logs.iter().map(|log| log.observer(self.ahead)).collect()
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
