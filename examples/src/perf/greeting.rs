//! How a server meets its clients, and those who are none.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use longhaul::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::protocol::{self, Hello, Message};
use crate::admission::{Admission, Limits, Ticket};

/// Connections that have not said yet what they are, at most: more than the streams of any test, which are silent until
/// it starts. Where there are more, the oldest goes.
const STRANGERS: Limits = Limits { all: 1024, per_address: 512 };
/// How long a connection may take to say it.
const GREETING: Duration = Duration::from_secs(30);
/// Clients at a time that are told that there will be no test for them; others are reset.
pub const REFUSALS: usize = 32;

/// A connection that has said what it is.
#[derive(Debug)]
pub struct Arrival {
    /// What.
    pub hello: Hello,
    /// It.
    pub stream: TcpStream,
}

impl Arrival {
    /// Whether it comes from this address.
    #[must_use]
    pub fn is_from(&self, client: IpAddr) -> bool {
        self.stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical() == client.to_canonical())
    }
}

/// A listener whose connections are greeted. It closes when dropped.
#[derive(Debug)]
pub struct Door(JoinHandle<()>);

impl Drop for Door {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Door {
    /// Hands everybody who says hello to `arrivals`, and the listener's error, which is its end.
    #[must_use]
    pub fn open(listener: TcpListener, arrivals: mpsc::Sender<io::Result<Arrival>>) -> Self {
        Self(tokio::spawn(welcome(listener, arrivals)))
    }
}

async fn welcome(listener: TcpListener, arrivals: mpsc::Sender<io::Result<Arrival>>) {
    let admission = Admission::new(STRANGERS);
    let mut strangers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match admission.admit(peer.ip()) {
                    Some(ticket) => {
                        strangers.spawn(greet(stream, ticket, arrivals.clone()));
                    }
                    // All are strangers: there is always one that goes.
                    None => stream.abort(),
                },
                Err(error) => {
                    // Nobody listens when the server has ended.
                    let _ = arrivals.send(Err(error)).await;
                    return;
                }
            },
            Some(_) = strangers.join_next() => {}
        }
    }
}

async fn greet(mut stream: TcpStream, ticket: Ticket, arrivals: mpsc::Sender<io::Result<Arrival>>) {
    let greeting = timeout(GREETING, protocol::read_small::<Hello>(&mut stream));
    let heard = tokio::select! {
        heard = greeting => heard,
        () = ticket.evicted() => return stream.abort(),
    };
    match heard {
        Ok(Ok(hello)) if hello.is_valid() => {
            // Nobody listens when the server has ended.
            let _ = arrivals.send(Ok(Arrival { hello, stream })).await;
        }
        _ => stream.abort(),
    }
}

/// Tells a client that there will be no test, and why.
pub async fn refuse(mut control: TcpStream, reason: String, patience: Duration) {
    let said = timeout(patience, async {
        // Unread data would turn the end of the connection into a reset, and the reason might get lost.
        protocol::read_small::<Message>(&mut control).await?;
        say_no(&mut control, reason).await
    });
    if !matches!(said.await, Ok(Ok(()))) {
        control.abort();
    }
}

/// The same when the client's parameters have been read.
///
/// # Errors
/// The connection's.
pub async fn say_no(control: &mut TcpStream, reason: String) -> io::Result<()> {
    protocol::write(control, &Message::Refused(reason)).await?;
    control.shutdown().await?;
    let mut rest = [0; 64];
    while control.read(&mut rest).await? > 0 {}
    Ok(())
}
