//! Server of a rendezvous.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::{TcpListener, TcpStream};
use longhaul_tls::admission::{Admission, Limits, Ticket};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::{GREETING, MAX_ADDRESSES, Role, read_line};
use crate::sync::lock;
use crate::transport::rtt;

/// Maximum numbers of connections.
const LIMITS: Limits = Limits { all: 4096, per_address: 32 };
/// Maximum number of senders per minute from an address: names are easy to guess.
const PER_MINUTE: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);
/// Time for the first line.
const GREETING_TIME: Duration = Duration::from_secs(10);
/// Maximum time that a receiver waits: slightly longer than a code is valid.
pub(crate) const WAITING_TIME: Duration = Duration::from_secs(660);
/// Time in which a sender has to ask for the relay.
const INTRODUCTION_TIME: Duration = Duration::from_secs(60);

const NO_RELAY: &str = "no direct connection passes the NATs of both ends, and it does not relay";

/// Limits of a rendezvous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Maximum number of simultaneous transfers to relay.
    pub(crate) relays: u16,
    /// Maximum time of a relayed transfer.
    pub(crate) relay_time: Duration,
    /// Maximum time that a receiver waits.
    pub(crate) waiting_time: Duration,
}

/// Introduces senders to receivers.
pub(crate) struct Rendezvous {
    /// Receivers that wait, by name.
    waiting: Mutex<HashMap<String, mpsc::Sender<End>>>,
    /// Number of senders of this minute, by host.
    senders: Mutex<HashMap<IpAddr, u32>>,
    admission: Admission,
    relays: Semaphore,
    terms: Terms,
}

/// Two ends whose connections are joined.
struct Relay<'a> {
    ends: [TcpStream; 2],
    _permit: SemaphorePermit<'a>,
}

/// One end, after its first line.
struct End {
    stream: TcpStream,
    /// Addresses at which it can be reached.
    addresses: String,
}

impl Rendezvous {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            waiting: Mutex::default(),
            senders: Mutex::default(),
            admission: Admission::new(LIMITS),
            relays: Semaphore::new(terms.relays.into()),
            terms,
        }
    }

    /// Serves the connections of `listener` until its socket fails.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        let mut connections = JoinSet::new();
        let mut minutes = interval(MINUTE);
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, peer) = accepted?;
                    let Some(ticket) = self.admission.admit(peer.ip(), rtt(&stream)) else {
                        stream.abort();
                        continue;
                    };
                    let rendezvous = Arc::clone(&self);
                    connections.spawn(async move {
                        tokio::select! {
                            // A client whose connection fails needs no answer.
                            _ = rendezvous.attend(stream, peer, &ticket) => {}
                            () = ticket.evicted() => {}
                        }
                    });
                }
                Some(_) = connections.join_next() => {}
                _ = minutes.tick() => lock(&self.senders).clear(),
            }
        }
    }

    async fn attend(&self, mut stream: TcpStream, peer: SocketAddr, ticket: &Ticket) -> io::Result<()> {
        let line = timeout(GREETING_TIME, read_line(&mut stream)).await??;
        ticket.has_spoken();
        let Some((role, name, local)) = request(&line) else { return refuse(stream, "this is not understood").await };
        let end = End { stream, addresses: format!("{peer}{local}") };
        match role {
            Role::Receive => {
                let (calls, called) = mpsc::channel(1);
                if !self.enter(name, calls) {
                    return refuse(end.stream, "another receiver waits with this number; start again").await;
                }
                let waited = timeout(self.terms.waiting_time, self.wait(end, called)).await;
                self.leave(name);
                let Some(Relay { ends: [mut receiver, mut sender], _permit }) = waited?? else { return Ok(()) };
                receiver.write_all(b"relay\n").await?;
                sender.write_all(b"relay\n").await?;
                timeout(self.terms.relay_time, copy_bidirectional(&mut receiver, &mut sender)).await??;
                Ok(())
            }
            Role::Send if !self.may_send(peer.ip()) => refuse(end.stream, "too many attempts; wait a minute").await,
            Role::Send => {
                let receiver = lock(&self.waiting).get(name).cloned();
                // The receiver's task serves both.
                let left = match receiver {
                    Some(receiver) => receiver.try_send(end).err(),
                    None => Some(TrySendError::Closed(end)),
                };
                match left {
                    None => Ok(()),
                    Some(TrySendError::Full(end)) => refuse(end.stream, "another sender is there; try again").await,
                    Some(TrySendError::Closed(end)) => refuse(end.stream, "no receiver waits with this code").await,
                }
            }
        }
    }

    /// Introduces senders to a receiver until one of them may be relayed, or the receiver leaves.
    async fn wait(&self, mut receiver: End, mut called: mpsc::Receiver<End>) -> io::Result<Option<Relay<'_>>> {
        loop {
            let mut sender = tokio::select! {
                Some(sender) = called.recv() => sender,
                // A waiting receiver sends nothing; a byte or an error ends the wait.
                end = receiver.stream.read_u8() => return end.map(|_| None),
            };
            receiver.stream.write_all(format!("peer {}\n", sender.addresses).as_bytes()).await?;
            let introduced = sender.stream.write_all(format!("peer {}\n", receiver.addresses).as_bytes()).await;
            if introduced.is_err() {
                continue;
            }
            let asked = tokio::select! {
                asked = timeout(INTRODUCTION_TIME, read_line(&mut sender.stream)) => asked,
                end = receiver.stream.read_u8() => return end.map(|_| None),
            };
            if !matches!(asked, Ok(Ok(line)) if line == "relay") {
                continue;
            }
            match self.relays.try_acquire() {
                Ok(_permit) => return Ok(Some(Relay { ends: [receiver.stream, sender.stream], _permit })),
                Err(_) => _ = refuse(sender.stream, NO_RELAY).await,
            }
        }
    }

    /// Adds a receiver. Returns false if the name is taken.
    fn enter(&self, name: &str, calls: mpsc::Sender<End>) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.get(name).is_some_and(|calls| !calls.is_closed()) {
            return false;
        }
        waiting.insert(name.to_owned(), calls);
        true
    }

    fn leave(&self, name: &str) {
        let mut waiting = lock(&self.waiting);
        if waiting.get(name).is_some_and(mpsc::Sender::is_closed) {
            waiting.remove(name);
        }
    }

    /// Counts a sender. Returns false if there were too many from its host in this minute.
    fn may_send(&self, peer: IpAddr) -> bool {
        let host = match peer.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            address => address,
        };
        let mut senders = lock(&self.senders);
        let count = senders.entry(host).or_default();
        *count += 1;
        *count <= PER_MINUTE
    }
}

/// Returns the role, the name and the addresses, each after a space, of a first line.
fn request(line: &str) -> Option<(Role, &str, String)> {
    let mut words = line.strip_prefix(GREETING)?.strip_prefix(' ')?.split(' ');
    let (role, name) = (words.next()?, words.next()?);
    let (role, _) = *Role::ALL.iter().find(|(_, word)| *word == role)?;
    if name.len() != 4 || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let local = words.take(MAX_ADDRESSES - 1).filter_map(|word| word.parse::<SocketAddr>().ok());
    Some((role, name, local.map(|address| format!(" {address}")).collect()))
}

/// Refuses a request, and closes the connection in order, so that the answer arrives.
async fn refuse(mut stream: TcpStream, reason: &str) -> io::Result<()> {
    stream.write_all(format!("no {reason}\n").as_bytes()).await?;
    timeout(GREETING_TIME, stream.close()).await?
}
