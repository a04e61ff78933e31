//! First contact of a server with its clients, and with peers that are not clients.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use longhaul::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::protocol::{self, Hello, Message, Params};
use longhaul_tls::admission::{Admission, Limits, Ticket};

use crate::transport::{self, rtt};

/// Limits on connections that have not sent a hello. They exceed the number of streams of any test, because streams
/// send nothing until the test starts. If a limit is exceeded, one of these connections is evicted.
const STRANGERS: Limits = Limits { all: 1024, per_address: 512 };
const GREETING: Duration = Duration::from_secs(30);
/// Maximum number of clients that are refused with a message at the same time; further clients are reset.
pub(crate) const REFUSALS: usize = 32;

/// A connection that has sent its hello.
pub(crate) struct Arrival {
    pub(crate) hello: Hello,
    /// The test that the client requests, if this is a control connection.
    pub(crate) params: Option<Params>,
    pub(crate) stream: TcpStream,
}

impl Arrival {
    pub(crate) fn is_from(&self, client: IpAddr) -> bool {
        self.stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical() == client.to_canonical())
    }
}

/// Task of a listener, which closes when this is dropped.
pub(crate) type Door = JoinSet<()>;

/// Sends each connection with a valid hello to `arrivals`, together with the parameters of the test that a control
/// connection requests. A failure of the listener is also sent, and ends the task.
pub(crate) fn open(listener: TcpListener, arrivals: mpsc::Sender<io::Result<Arrival>>) -> Door {
    Door::from_iter([welcome(listener, arrivals)])
}

async fn welcome(listener: TcpListener, arrivals: mpsc::Sender<io::Result<Arrival>>) {
    let admission = Admission::new(STRANGERS);
    let mut strangers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match admission.admit(peer.ip(), rtt(&stream)) {
                    Some(ticket) => {
                        strangers.spawn(greet(stream, ticket, arrivals.clone()));
                    }
                    // No other connection can be evicted in favour of this one.
                    None => stream.abort(),
                },
                Err(error) => {
                    // The receiver is dropped when the server has ended.
                    let _ = arrivals.send(Err(error)).await;
                    return;
                }
            },
            Some(_) = strangers.join_next() => {}
        }
    }
}

async fn greet(mut stream: TcpStream, ticket: Ticket, arrivals: mpsc::Sender<io::Result<Arrival>>) {
    let heard = tokio::select! {
        heard = timeout(GREETING, hear(&mut stream, &ticket)) => heard,
        () = ticket.evicted() => return stream.abort(),
    };
    match heard {
        Ok(Ok((hello, params))) => {
            // The receiver is dropped when the server has ended.
            let _ = arrivals.send(Ok(Arrival { hello, params, stream })).await;
        }
        _ => stream.abort(),
    }
}

/// Reads the first messages. A control connection can still be evicted until it has requested a test.
async fn hear(stream: &mut TcpStream, ticket: &Ticket) -> io::Result<(Hello, Option<Params>)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let hello = protocol::read_small::<Hello>(stream).await?;
    if !hello.is_valid() {
        return Err(invalid());
    }
    ticket.has_spoken();
    if hello.stream.is_some() {
        return Ok((hello, None));
    }
    match protocol::read_small(stream).await? {
        Message::Params(params) => Ok((hello, Some(params))),
        _ => Err(invalid()),
    }
}

pub(crate) async fn refuse(mut control: TcpStream, reason: String, patience: Duration) {
    if !matches!(timeout(patience, tell(&mut control, reason)).await, Ok(Ok(()))) {
        control.abort();
    }
}

/// Sends the reason, and waits until the client has closed the connection.
async fn tell(control: &mut TcpStream, reason: String) -> io::Result<()> {
    protocol::write(control, &Message::Refused(reason)).await?;
    transport::drain(control).await
}
