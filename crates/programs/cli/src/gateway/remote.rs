//! Listeners that a gateway opens for forwarders, and the tunnels that forwarders offer for the accepted connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tls::Fingerprint;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Event, Session, becomes};
use crate::monitor::{Monitor, Observed};
use crate::tunnel::jobs::{Job, Jobs};
use crate::tunnel::{self, Frame, Group, Reason, Target, Tunnel, TunnelError};

/// Maximum number of listeners of a group, and of groups of a key.
const MAX_LISTENERS: usize = 32;
const MAX_GROUPS: usize = 8;
/// Maximum number of connections of a group that wait for a tunnel.
const WAITING: usize = 64;

pub(super) struct Listen {
    pub(super) group: Group,
    pub(super) bind: String,
    pub(super) port: u16,
    pub(super) target: Target,
}

/// The groups of listeners of all forwarders.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<(Fingerprint, Group), Arc<Queue>>>);

#[derive(Debug)]
struct Queue {
    jobs: Jobs,
    ended: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a group alive until dropped.
struct Membership<'a> {
    groups: &'a Groups,
    name: (Fingerprint, Group),
    queue: Arc<Queue>,
}

impl Groups {
    /// Begins a group. An old group of the same name ends: its forwarder has lost the connection. Returns `None` if the
    /// forwarder has too many groups.
    fn begin(&self, key: Fingerprint, group: Group) -> Option<Membership<'_>> {
        let mut groups = lock(&self.0);
        let name = (key, group);
        let others = groups.keys().filter(|other| other.0 == key && **other != name).count();
        if others >= MAX_GROUPS {
            return None;
        }
        let queue = Arc::new(Queue::default());
        if let Some(old) = groups.insert(name, Arc::clone(&queue)) {
            old.end();
        }
        Some(Membership { groups: self, name, queue })
    }

    fn find(&self, key: Fingerprint, group: Group) -> Option<Arc<Queue>> {
        lock(&self.0).get(&(key, group)).cloned()
    }
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        self.queue.end();
        let mut groups = lock(&self.groups.0);
        // A newer group may have taken the name.
        if groups.get(&self.name).is_some_and(|queue| Arc::ptr_eq(queue, &self.queue)) {
            groups.remove(&self.name);
        }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self { jobs: Jobs::new(WAITING), ended: watch::Sender::new(false) }
    }
}

impl Queue {
    fn end(&self) {
        self.ended.send_replace(true);
        self.jobs.close();
    }

    /// Gives a connection to an idle tunnel, or queues it. If no tunnel becomes free in time, the connection is reset.
    async fn submit(&self, job: Job, patience: Duration, monitor: &Monitor) {
        if self.jobs.submit(job, patience).await.is_err() {
            monitor.refuse(Reason::Crowded);
        }
    }

    /// Waits for a connection. Returns `None` if the group or the tunnel has ended.
    async fn next<S: AsyncRead + AsyncWrite + Unpin + Observed>(
        &self,
        tunnel: &mut Tunnel<S>,
        ending: &mut watch::Receiver<bool>,
        (patience, monitor): (Duration, &Monitor),
    ) -> Result<Option<Job>, TunnelError> {
        let mut turn = match self.jobs.next() {
            Ok(job) => return Ok(Some(job)),
            Err(turn) => turn,
        };
        let mut ended = self.ended.subscribe();
        let result = loop {
            tokio::select! {
                biased;
                job = &mut turn.job => return Ok(job.ok()),
                () = becomes(&mut ended) => break Ok(None),
                () = becomes(ending) => break Ok(None),
                frame = tunnel.next() => match frame {
                    Ok(Some(Frame::Ping)) => if let Err(error) = tunnel.send(&Frame::Pong).await { break Err(error.into()) },
                    // A late reset of a stream that has ended.
                    Ok(Some(Frame::Reset { .. })) => {}
                    Ok(Some(Frame::Bye) | None) => break Ok(None),
                    Ok(Some(_)) => break Err(TunnelError::Protocol("a frame is not allowed on an offered tunnel")),
                    Err(error) => break Err(error),
                },
            }
        };
        // A connection may have been given to this tunnel at the same moment. A forwarder that has sent `BYE` still
        // serves it. After a failure, another tunnel does, unless the gateway ends.
        match turn.end() {
            Some(job) if tunnel.is_leaving() => return Ok(Some(job)),
            Some(job) if !*ending.borrow() => self.submit(job, patience, monitor).await,
            _ => {}
        }
        result
    }
}

/// Listens on behalf of a forwarder until the forwarder ends the tunnel.
pub(super) async fn listen<S: AsyncRead + AsyncWrite + Unpin + Observed>(
    session: &mut Session<'_>,
    tunnel: &mut Tunnel<S>,
    first: Listen,
    event: &mut impl FnMut(Event<'_>),
) -> Result<(), TunnelError> {
    let gateway = session.gateway;
    let membership = gateway.groups.begin(session.peer.key, first.group);
    let Some(membership) = membership.filter(|_| session.peer.may_listen) else {
        event(Event::NotListening(&first.target, Reason::NotPermitted));
        tunnel.send(&Frame::Reset { stream: 0, reason: Reason::NotPermitted }).await?;
        return Ok(());
    };
    let mut listeners = JoinSet::new();
    let mut ended = membership.queue.ended.subscribe();
    let mut next = Some(first);
    loop {
        if let Some(asked) = next.take() {
            let answer = if listeners.len() >= MAX_LISTENERS || asked.group != membership.name.1 {
                Err(Reason::Crowded)
            } else {
                bind(session, &asked).await
            };
            let frame = match answer {
                Ok((listener, address)) => {
                    event(Event::Listening(address, &asked.target));
                    let (queue, monitor) = (Arc::clone(&membership.queue), gateway.monitor.clone());
                    listeners.spawn(accept(listener, asked.target, queue, (gateway.patience, monitor)));
                    Frame::Listening(address.port())
                }
                Err(reason) => {
                    event(Event::NotListening(&asked.target, reason));
                    Frame::Reset { stream: 0, reason }
                }
            };
            tunnel.send(&frame).await?;
        }
        tokio::select! {
            frame = tunnel.next() => match frame? {
                Some(Frame::Listen { group, bind, port, target }) => next = Some(Listen { group, bind, port, target }),
                Some(Frame::Ping) => tunnel.send(&Frame::Pong).await?,
                Some(Frame::Bye) | None => return Ok(()),
                Some(_) => return Err(TunnelError::Protocol("a frame is not allowed on a tunnel for listeners")),
            },
            () = becomes(&mut ended) => break,
            () = becomes(&mut session.ending) => break,
        }
    }
    // The listeners are closed before the forwarder is told.
    listeners.shutdown().await;
    drop(membership);
    Ok(tunnel.send(&Frame::Bye).await?)
}

async fn bind(session: &Session<'_>, asked: &Listen) -> Result<(TcpListener, SocketAddr), Reason> {
    let address = session.gateway.listen.address(&asked.bind, asked.port).ok_or(Reason::NotPermitted)?;
    let listener = TcpListener::bind(address).await.map_err(|_| Reason::Unreachable)?;
    let address = listener.local_addr().map_err(|_| Reason::Unreachable)?;
    Ok((listener, address))
}

async fn accept(listener: TcpListener, target: Target, queue: Arc<Queue>, (patience, monitor): (Duration, Monitor)) {
    let failed = |error| tracing::warn!(target: "longhaul::gateway", "cannot accept a connection: {error}");
    let serve = |local: TcpStream, _| {
        let (queue, monitor, target) = (Arc::clone(&queue), monitor.clone(), target.clone());
        async move {
            if tunnel::prepare(&local).is_ok() {
                queue.submit(Job { local, target }, patience, &monitor).await;
            }
        }
    };
    tunnel::accept(listener, failed, serve).await;
}

/// Opens streams on a tunnel that a forwarder offers, until one end ends it.
pub(super) async fn offered<S: AsyncRead + AsyncWrite + Unpin + Observed>(
    session: &mut Session<'_>,
    tunnel: &mut Tunnel<S>,
    group: Group,
    event: &mut impl FnMut(Event<'_>),
) -> Result<(), TunnelError> {
    if let Some(queue) = session.gateway.groups.find(session.peer.key, group) {
        let terms = (session.gateway.patience, &session.gateway.monitor);
        while !tunnel.is_leaving() {
            let Some(Job { local, target }) = queue.next(tunnel, &mut session.ending, terms).await? else { break };
            event(Event::Opened(&target));
            let ended = session.seen.relay(tunnel, local, (&target, true), session.terms()).await?;
            event(Event::Ended(&target, ended));
        }
    }
    Ok(tunnel.send(&Frame::Bye).await?)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use longhaul::TcpInfo;
    use tokio::io::ReadBuf;

    use super::*;
    use crate::monitor::Role;

    /// Transport that gives a connection to the tunnel while the end of the tunnel is being read.
    struct Coincidence {
        queue: Arc<Queue>,
        job: Option<Job>,
        frames: Vec<u8>,
        begun: bool,
    }

    impl AsyncRead for Coincidence {
        fn poll_read(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if !std::mem::replace(&mut self.begun, true) {
                buf.put_slice(&tunnel::MAGIC);
                return Poll::Ready(Ok(()));
            }
            if let Some(job) = self.job.take() {
                assert_eq!(self.queue.jobs.give(job).unwrap(), None);
            }
            buf.put_slice(&std::mem::take(&mut self.frames));
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Coincidence {
        fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(data.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Observed for Coincidence {
        fn tcp_info(&self) -> Option<TcpInfo> {
            None
        }

        fn share_window(&self, _bytes: u64) {}
    }

    /// Gives a connection to a tunnel at the moment when it ends; `frames` are the last ones of the peer. Returns
    /// whether the tunnel carries the connection, and how many connections wait for another tunnel.
    async fn choose_while_it_ends(frames: Vec<u8>) -> (bool, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let job = Job { local, target: "h.example:80".parse().unwrap() };
        let queue = Arc::new(Queue::default());
        let stream = Coincidence { queue: Arc::clone(&queue), job: Some(job), frames, begun: false };
        let mut tunnel = Tunnel::start(stream).await.unwrap();
        let (_end, mut ending) = watch::channel(false);
        let monitor = Monitor::new(Role::Gateway);
        let next = queue.next(&mut tunnel, &mut ending, (Duration::from_secs(15), &monitor));
        // The timeout expires if the connection waits for another tunnel.
        let next = tokio::time::timeout(Duration::from_millis(100), next).await;
        let carried = next.is_ok_and(|next| matches!(next, Ok(Some(_))));
        (carried, queue.jobs.counts().1)
    }

    /// A forwarder that has sent `BYE` serves a stream that was opened before the gateway answered. If the tunnel has
    /// failed, another one takes the connection.
    #[tokio::test]
    async fn a_connection_is_not_lost_when_its_tunnel_ends_at_the_same_moment() {
        assert_eq!(choose_while_it_ends(Frame::Bye.encode().to_vec()).await, (true, 0));
        assert_eq!(choose_while_it_ends(Vec::new()).await, (false, 1));
        assert_eq!(choose_while_it_ends(vec![255]).await, (false, 1));
    }
}
