//! Kernel-TCP connections between members, over which nothing is sent. The system closes those of a process that ends, and
//! so tells the others at once.
//!
//! Each member connects to all others from its internal address. Only an orderly end means that a process has ended: an
//! unwanted connection is reset, and so is one that a firewall or a restarted host does not know.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{BEAT, SILENCE};

/// Maximum number of connections from a host per member there: one is new, and the other one may be of a process that has
/// ended.
const PER_MEMBER: usize = 2;
/// Silence after which the system probes a connection, and the interval of probes.
const PROBES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(1));

/// What a connection tells about the process of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Runs,
    Ended,
    /// It may still run.
    Lost,
}

/// What is told about the member at an address.
type Told = (SocketAddr, Event);

/// The connections of a member.
pub(super) struct Links {
    listener: TcpListener,
    own: IpAddr,
    members: Vec<SocketAddr>,
    /// Those to the others.
    opened: JoinSet<()>,
    events: (mpsc::Sender<Told>, mpsc::Receiver<Told>),
    /// Those that others have opened, and their number per host.
    accepted: JoinSet<IpAddr>,
    counts: HashMap<IpAddr, usize>,
}

impl Links {
    pub(super) fn new(listener: std::net::TcpListener, members: Vec<SocketAddr>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut links = Self {
            own: listener.local_addr()?.ip(),
            listener: TcpListener::from_std(listener)?,
            members: Vec::new(),
            opened: JoinSet::new(),
            events: mpsc::channel(1),
            accepted: JoinSet::new(),
            counts: HashMap::new(),
        };
        links.connect(members);
        Ok(links)
    }

    /// Replaces the connections to the others.
    pub(super) fn connect(&mut self, members: Vec<SocketAddr>) {
        self.opened = JoinSet::new();
        for member in &members {
            self.opened.spawn(watch(self.own, *member, self.events.0.clone()));
        }
        self.members = members;
    }

    /// Waits until a process has started or ended.
    pub(super) async fn next(&mut self) -> Told {
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.1.recv() => return event,
                Some(Ok(host)) = self.accepted.join_next() => {
                    self.counts.entry(host).and_modify(|count| *count -= 1);
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => self.admit(stream, from.ip()),
                    // There may be too many open files.
                    Err(_) => sleep(BEAT).await,
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, from: IpAddr) {
        let most = PER_MEMBER * self.members.iter().filter(|member| member.ip() == from).count();
        let count = self.counts.get(&from).copied().unwrap_or_default();
        // Hosts without a member are not remembered.
        if count >= most {
            return reset(&stream);
        }
        self.counts.insert(from, count + 1);
        self.accepted.spawn(async move {
            let _ = end(stream).await;
            from
        });
    }
}

/// Keeps a connection to a member.
async fn watch(own: IpAddr, member: SocketAddr, events: mpsc::Sender<Told>) {
    loop {
        if let Ok(Ok(stream)) = timeout(SILENCE, connect(own, member)).await {
            let _ = events.send((member, Event::Runs)).await;
            let has_ended = matches!(end(stream).await, Ok(0));
            let _ = events.send((member, if has_ended { Event::Ended } else { Event::Lost })).await;
        }
        sleep(BEAT).await;
    }
}

async fn connect(own: IpAddr, member: SocketAddr) -> io::Result<TcpStream> {
    let socket = if own.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind((own, 0).into())?;
    socket.connect(member).await
}

/// Waits for the end of a connection, or for data, which nobody should send.
async fn end(mut stream: TcpStream) -> io::Result<usize> {
    let (time, interval) = PROBES;
    let keepalive = socket2::TcpKeepalive::new().with_time(time).with_interval(interval);
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    stream.read(&mut [0]).await
}

fn reset(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
