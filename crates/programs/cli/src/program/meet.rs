//! `longhaul meet`, and the use of a rendezvous by `send` and `receive`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use longhaul::{TcpConnector, TcpListener, TcpStream};
use longhaul_tls::{SecureConnector, SecureStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Screen;
use super::args::{MEET_PORT, MeetArgs};
use super::dial::{Dialer, Target};
use crate::address;
use crate::code::Code;
use crate::meet::{self, MeetError, Meeting, News, Rendezvous, Role, Terms};

pub(super) async fn run(args: &MeetArgs, screen: &Screen) -> Result<()> {
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let own = listener.local_addr()?;
    screen.warn(&format!("Ready on UDP {own}"));
    screen.say(&format!("Both ends name this machine by `--meet {}`.", address::reachable(own, MEET_PORT)));
    let terms = Terms { relays: args.relays, relay_time: args.relay_time, waiting_time: meet::WAITING_TIME };
    Ok(Arc::new(Rendezvous::new(terms)).serve(listener).await?)
}

/// Connections with senders that a rendezvous introduces to a receiver.
pub(super) struct Introductions {
    found: mpsc::Receiver<io::Result<(TcpStream, SocketAddr)>>,
    _tasks: JoinSet<()>,
}

/// Returns the next connection with a sender that may know the code. Never completes without a rendezvous.
pub(super) async fn introduced(introductions: &mut Option<Introductions>) -> io::Result<(TcpStream, SocketAddr)> {
    match introductions {
        Some(introductions) => {
            introductions.found.recv().await.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
        }
        None => std::future::pending().await,
    }
}

impl Introductions {
    /// Begins to wait at the rendezvous `host` for senders with the digits `number`. The connections to the rendezvous
    /// and to the senders use the UDP socket of `listener`.
    pub(super) async fn begin(listener: &TcpListener, host: &str, number: &str, screen: &Screen) -> Result<Self> {
        let rendezvous = lookup(&Target::parse(host, MEET_PORT)?, listener.local_addr()?).await?;
        let connector = listener.connector();
        let meeting = Meeting::open(&connector, &rendezvous, Role::Receive, number).await;
        let meeting = meeting.with_context(|| format!("cannot wait at {host}"))?;
        screen.say(&format!("Waiting for the sender at {host}."));
        let (finds, found) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            if let Err(error) = receive(connector, meeting, &finds).await {
                let _ = finds.send(Err(io::Error::other(error))).await;
            }
        });
        Ok(Self { found, _tasks: tasks })
    }
}

/// Tries to reach each sender that the rendezvous names.
async fn receive(
    connector: TcpConnector,
    mut meeting: Meeting,
    finds: &mpsc::Sender<io::Result<(TcpStream, SocketAddr)>>,
) -> Result<(), MeetError> {
    let connector = Arc::new(connector);
    let mut attempts = JoinSet::new();
    loop {
        let time = meeting.time();
        let (news, left) = meeting.news().await?;
        match (news, left) {
            (News::Peer(addresses), Some(left)) => {
                // End the attempts to reach an earlier sender.
                attempts.abort_all();
                for address in addresses {
                    let (connector, finds) = (Arc::clone(&connector), finds.clone());
                    attempts.spawn(async move {
                        if let Some(stream) = meet::reach(&connector, address, time).await {
                            let _ = finds.send(Ok((stream, address))).await;
                        }
                    });
                }
                meeting = left;
            }
            (News::Relayed(stream), _) => {
                let peer = stream.peer_addr()?;
                let _ = finds.send(Ok((stream, peer))).await;
                // The receiver ends after this sender.
                return std::future::pending().await;
            }
            (News::Peer(_), None) => return Err(MeetError::NotUnderstood),
        }
    }
}

impl Dialer<'_> {
    /// Opens a connection to the receiver that knows `code`, to which the rendezvous at the target introduces us.
    pub(super) async fn connect_by_meeting(&self, code: &Code, screen: &Screen) -> Result<SecureStream> {
        let rendezvous = self.target.lookup().await?;
        let any: SocketAddr =
            if rendezvous.iter().any(SocketAddr::is_ipv4) { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let rendezvous = of_family(rendezvous, any);
        let listener = self.transport.listen(any)?;
        let connector = Arc::new(listener.connector());
        let secure = SecureConnector::accepting_any(&self.identity)?;
        let meeting = Meeting::open(&connector, &rendezvous, Role::Send, code.number()).await;
        let meeting = meeting.with_context(|| format!("cannot ask {}", self.target))?;
        let time = meeting.time();
        let (News::Peer(addresses), Some(mut meeting)) = answer(time, meeting.news()).await? else {
            return Err(MeetError::NotUnderstood.into());
        };
        let mut attempts = JoinSet::new();
        for address in addresses {
            let (connector, secure) = (Arc::clone(&connector), secure.clone());
            attempts.spawn(async move {
                let stream = meet::reach(&connector, address, time).await?;
                secure.connect(stream).await.ok()
            });
        }
        let mut over = std::pin::pin!(sleep(time));
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, secure) = (accepted?.0, secure.clone());
                    attempts.spawn(async move { timeout(time, secure.connect(stream)).await.ok()?.ok() });
                }
                Some(connected) = attempts.join_next() => {
                    let Ok(Some(mut stream)) = connected else { continue };
                    match self.check(&mut stream, code).await {
                        Ok(()) => {
                            screen.say(&format!("Connected to {}.", stream.tcp().peer_addr()?));
                            return Ok(stream);
                        }
                        // Another machine may have the receiver's address in its own network. If it has our proof, it
                        // has tried a code, and gets no second attempt.
                        Err(error) if error.is_harmless() => {}
                        Err(error) => return Err(error).with_context(|| self.failed()),
                    }
                }
                () = &mut over => break,
            }
        }
        drop(attempts);
        meeting.ask_for_relay().await?;
        let (News::Relayed(stream), _) = answer(time, meeting.news()).await? else {
            return Err(MeetError::NotUnderstood.into());
        };
        let mut stream = secure.connect(stream).await.with_context(|| self.failed())?;
        self.check(&mut stream, code).await.with_context(|| self.failed())?;
        screen.say(&format!("Connected through {}, which relays.", self.target));
        Ok(stream)
    }
}

/// Waits for an answer that a rendezvous gives at once, at most for `time`.
async fn answer<T>(time: Duration, news: impl Future<Output = Result<T, MeetError>>) -> Result<T, MeetError> {
    timeout(time, news).await.unwrap_or_else(|_| Err(MeetError::Connection(io::ErrorKind::TimedOut.into())))
}

/// Looks up a rendezvous that a socket with the address `local` can reach.
async fn lookup(target: &Target, local: SocketAddr) -> Result<Vec<SocketAddr>> {
    let addresses = of_family(target.lookup().await?, local);
    if addresses.is_empty() {
        bail!("{} has no address of the family of --listen {local}", target.host);
    }
    Ok(addresses)
}

fn of_family(mut addresses: Vec<SocketAddr>, local: SocketAddr) -> Vec<SocketAddr> {
    addresses.retain(|address| address.is_ipv4() || local.is_ipv6());
    addresses
}
