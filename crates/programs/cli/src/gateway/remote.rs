//! Listeners that a gateway opens for forwarders, and the tunnels that forwarders offer for the accepted connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_tls::Fingerprint;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Session, becomes};
use crate::monitor::Monitor;
use crate::sync::lock;
use crate::transport::Transport;
use crate::tunnel::jobs::{Job, Jobs};
use crate::tunnel::{self, Event, Frame, Group, Listen, Reason, Target, Tunnel, TunnelError};

/// Maximum number of listeners of a group, and maximum number of groups of a key.
const MAX_LISTENERS: usize = 32;
const MAX_GROUPS: usize = 8;
/// Maximum number of connections of a group that wait for a tunnel.
const WAITING: usize = 64;

/// The groups of listeners of all forwarders.
#[derive(Default)]
pub(crate) struct Groups(Mutex<HashMap<(Fingerprint, Group), Arc<Queue>>>);

struct Queue {
    jobs: Arc<Jobs>,
    ended: watch::Sender<bool>,
}

/// Keeps a group alive until dropped.
struct Membership<'a> {
    groups: &'a Groups,
    name: (Fingerprint, Group),
    queue: Arc<Queue>,
}

impl Groups {
    /// Begins a group. An old group of the same name ends, because its forwarder has lost the connection. Returns
    /// `None` if the forwarder has too many groups.
    fn begin(&self, key: Fingerprint, group: Group, queue: Queue) -> Option<Membership<'_>> {
        let mut groups = lock(&self.0);
        let name = (key, group);
        let others = groups.keys().filter(|other| other.0 == key && **other != name).count();
        if others >= MAX_GROUPS {
            return None;
        }
        let queue = Arc::new(queue);
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
        // A newer group may now have this name.
        if groups.get(&self.name).is_some_and(|queue| Arc::ptr_eq(queue, &self.queue)) {
            groups.remove(&self.name);
        }
    }
}

impl Queue {
    fn new(patience: Duration, monitor: &Arc<Monitor>) -> Self {
        Self { jobs: Arc::new(Jobs::new(WAITING, patience, monitor)), ended: watch::Sender::new(false) }
    }

    fn end(&self) {
        self.ended.send_replace(true);
        self.jobs.close();
    }
}

/// Listens on behalf of a forwarder until the forwarder ends the tunnel.
pub(super) async fn listen<S: Transport + Send + 'static>(
    session: &mut Session<'_>,
    tunnel: &mut Tunnel<S>,
    first: Listen,
    event: &mut impl FnMut(Event<'_>),
) -> Result<(), TunnelError> {
    let gateway = session.gateway;
    let membership =
        gateway.groups.begin(session.peer.key, first.group, Queue::new(gateway.patience, &gateway.monitor));
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
                    listeners.spawn(accept(listener, asked.target, Arc::clone(&membership.queue.jobs)));
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
                Some(Frame::Listen(listen)) => next = Some(listen),
                Some(Frame::Ping) => tunnel.send(&Frame::Pong).await?,
                Some(Frame::Bye) | None => return Ok(()),
                Some(_) => return Err(TunnelError::Protocol("a frame is not allowed on a tunnel for listeners")),
            },
            () = becomes(&mut ended) => break,
            () = becomes(&mut session.ending) => break,
        }
    }
    // The listeners are closed before the forwarder is notified.
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

async fn accept(listener: TcpListener, target: Target, jobs: Arc<Jobs>) {
    let failed = |error| tracing::warn!(target: "longhaul::gateway", "cannot accept a connection: {error}");
    let serve = |local: TcpStream, _| {
        let (jobs, target) = (Arc::clone(&jobs), target.clone());
        async move {
            if tunnel::prepare(&local).is_ok() {
                jobs.submit(Job { local: Box::new(local), target }).await;
            }
        }
    };
    tunnel::accept(listener, failed, serve).await;
}

/// Opens streams on a tunnel that a forwarder offers, until one end ends it.
pub(super) async fn offered<S: Transport + Send + 'static>(
    session: &mut Session<'_>,
    tunnel: &mut Tunnel<S>,
    group: Group,
    event: &mut impl FnMut(Event<'_>),
) -> Result<(), TunnelError> {
    if let Some(queue) = session.gateway.groups.find(session.peer.key, group) {
        let mut ended = queue.ended.subscribe();
        while !tunnel.is_leaving() {
            let leave = async {
                tokio::select! {
                    () = becomes(&mut ended) => {}
                    () = becomes(&mut session.ending) => {}
                }
            };
            // The forwarder is not probed.
            let next = queue.jobs.next(tunnel, leave, Duration::MAX).await?;
            let Some(Job { local, target }) = next else { break };
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
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;
    use crate::monitor::Role;

    /// Transport that gives a connection to the tunnel while the end of the tunnel is being read.
    struct Coincidence {
        jobs: Arc<Jobs>,
        job: Option<Job>,
        frames: Vec<u8>,
        begun: bool,
    }

    impl AsyncRead for Coincidence {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if !std::mem::replace(&mut self.begun, true) {
                buf.put_slice(&tunnel::MAGIC);
                return Poll::Ready(Ok(()));
            }
            if let Some(job) = self.job.take() {
                let mut given = pin!(self.jobs.submit(job));
                assert!(given.as_mut().poll(cx).is_ready());
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

    impl Transport for Coincidence {}

    /// Gives a connection to a tunnel at the moment when it ends; `frames` are the last ones of the peer. Returns
    /// whether the tunnel carries the connection, and how many connections wait for another tunnel.
    async fn choose_while_it_ends(frames: Vec<u8>) -> (bool, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let job = Job { local: Box::new(local), target: "h.example:80".parse().unwrap() };
        let jobs = Queue::new(Duration::from_secs(15), &Monitor::new(Role::Gateway)).jobs;
        let stream = Coincidence { jobs: Arc::clone(&jobs), job: Some(job), frames, begun: false };
        let mut tunnel = Tunnel::start(stream).await.unwrap();
        let next = jobs.next(&mut tunnel, std::future::pending(), Duration::MAX).await;
        let carried = matches!(next, Ok(Some(_)));
        // Lets the connection wait for another tunnel.
        tokio::task::yield_now().await;
        (carried, jobs.counts().1)
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
