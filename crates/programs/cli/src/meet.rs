//! Introductions of two ends that may both be behind NATs, by a rendezvous.
//!
//! Both ends connect to the rendezvous from the UDP socket that will carry the transfer, and name the number of the code.
//! The rendezvous tells each the addresses of the other. Then both connect to these addresses and listen, so that each NAT
//! has seen a datagram go out before the other end's datagrams arrive (RFC 5128, section 3.3). If both SYNs cross, they
//! open one connection (RFC 9293, figure 7). The code then authenticates the ends, as without a rendezvous.
//!
//! A line ends in a line feed and has at most [`MAX_LINE`] bytes:
//!
//! | from | line | meaning |
//! |---|---|---|
//! | end | `longmeet 1 receive 4821 ADDRESS...` | waits for a sender; addresses by which the local network reaches it |
//! | end | `longmeet 1 send 4821 ADDRESS...` | looks for a receiver |
//! | rendezvous | `peer ADDRESS...` | where the other end is; the first address is the one that the rendezvous sees |
//! | rendezvous | `no REASON` | the request is refused |
//! | sender | `relay` | no connection came about |
//! | rendezvous | `relay` | to both: from now on, this connection leads to the other end |

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use longhaul::{TcpConnector, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::transport::rtt;

mod server;

pub(crate) use server::{Rendezvous, Terms, WAITING_TIME};

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 512;
/// Maximum number of addresses of an end that are tried.
const MAX_ADDRESSES: usize = 4;
/// Time for attempts to reach the other end, in addition to four round trips to the rendezvous.
const TIME: Duration = Duration::from_secs(5);
/// Pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(200);
const GREETING: &str = "longmeet 1";

#[derive(Debug, thiserror::Error)]
pub(crate) enum MeetError {
    #[error(
        "the rendezvous is not reached ({0}). Does `longhaul meet` run there, and does a firewall pass its UDP port?"
    )]
    Unreachable(io::Error),
    #[error("the connection to the rendezvous failed")]
    Connection(#[from] io::Error),
    #[error("the rendezvous refuses: {0}")]
    Refused(String),
    #[error("the rendezvous answers with something else; is it `longhaul meet` of another version?")]
    NotUnderstood,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Receive,
    Send,
}

impl Role {
    const ALL: [(Self, &'static str); 2] = [(Self::Receive, "receive"), (Self::Send, "send")];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(role, _)| *role == self).map_or("", |(_, word)| word)
    }
}

/// A connection to a rendezvous, after this end has sent its first line.
pub(crate) struct Meeting {
    stream: TcpStream,
}

/// Message from a rendezvous.
pub(crate) enum News {
    /// The other end is at one of these addresses.
    Peer(Vec<SocketAddr>),
    /// The connection now leads to the other end.
    Relayed(TcpStream),
}

impl Meeting {
    /// Connects to the rendezvous at one of the addresses, from the socket of `connector`, under the number `name` of a
    /// code.
    pub(crate) async fn open(
        connector: &TcpConnector,
        rendezvous: &[SocketAddr],
        role: Role,
        name: &str,
    ) -> Result<Self, MeetError> {
        let mut stream = connector.connect(rendezvous).await.map_err(MeetError::Unreachable)?;
        let line = format!("{GREETING} {} {name} {}\n", role.word(), stream.local_addr()?);
        stream.write_all(line.as_bytes()).await?;
        Ok(Self { stream })
    }

    /// Returns the time for attempts to reach the other end.
    pub(crate) fn time(&self) -> Duration {
        TIME + 4 * rtt(&self.stream).unwrap_or_default()
    }

    /// Asks the rendezvous to lead this connection to the other end.
    pub(crate) async fn ask_for_relay(&mut self) -> Result<(), MeetError> {
        Ok(self.stream.write_all(b"relay\n").await?)
    }

    /// Waits for the next message. Also returns the meeting, unless its connection has become the relay.
    pub(crate) async fn news(mut self) -> Result<(News, Option<Self>), MeetError> {
        let line = read_line(&mut self.stream).await?;
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("peer", addresses) => Ok((News::Peer(parse(addresses)), Some(self))),
            ("relay", "") => Ok((News::Relayed(self.stream), None)),
            ("no", reason) => Err(MeetError::Refused(crate::names::escaped(reason))),
            _ => Err(MeetError::NotUnderstood),
        }
    }
}

/// Tries for `time` to open a connection to the other end at `address`.
pub(crate) async fn reach(connector: &TcpConnector, address: SocketAddr, time: Duration) -> Option<TcpStream> {
    let attempts = async {
        loop {
            // A NAT refuses datagrams that arrive before its own end has sent one. The attempt also fails while a
            // connection from that address is being accepted.
            match connector.connect(address).await {
                Ok(stream) => return stream,
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    timeout(time, attempts).await.ok()
}

/// Parses the addresses of an end, and omits those that no end can have.
fn parse(addresses: &str) -> Vec<SocketAddr> {
    let addresses = addresses.split(' ').filter_map(|word| word.parse().ok());
    let may_be =
        |address: &SocketAddr| address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast();
    let mut found: Vec<SocketAddr> = addresses.filter(may_be).take(MAX_ADDRESSES).collect();
    found.dedup();
    found
}

/// Reads a line without its end. Nothing after the line is read.
async fn read_line(stream: &mut TcpStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into()),
            _ if line.len() >= MAX_LINE => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
}

#[cfg(test)]
mod tests;
