//! What the two ends say to each other on the control connection, and first on every connection.
//!
//! A message is a big-endian 32-bit length and as many bytes of JSON.
//!
//! ```text
//! client                               server
//! Hello (of the control connection)
//! Params                          -->
//!                                 <--  Accepted, or Refused, the end
//! TCP:
//! Hello, on each connection of a stream that the server sends on
//! Ready, once all are connected   -->
//!                                 <--  Start
//! Hello and data in one write, on each stream that the client sends on
//! UDP, on each stream's socket:
//! Knock                           -->
//!                                 <--  Challenge, to the control connection's address only
//! Knock with its nonce            -->
//!                                 <--  Start, once all have answered
//!
//! Done, after the last datagram   <->  (UDP only, by an end that sends)
//! Stop, if the user wants an end  -->
//! Results                         <->  Results
//! Output, if it was asked for     <--
//! ```
//!
//! The first flight of a stream's sender is data: nothing was sent on its connection before, so that a start-up scheme
//! has it all. A sender of TCP ends its stream; the receiver, when it has read to that end, ends its own.
//!
//! No datagram of a stream goes to an address that has not answered the challenge, which is smaller than what drew it.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::results::Results;
use super::udp;

/// What every connection begins with.
const NAME: &str = "longhaul-perf-2";
/// Characters of a cookie, as iperf3 has it.
const COOKIE: usize = 36;
/// Bytes of a message of those whom one does not know yet, at most.
const SMALL: u32 = 4096;
/// Bytes of a message during a test, at most.
const LARGE: u32 = 8 << 20;
/// Bytes of a block over TCP, at most, as iperf3 has it.
const MAX_TCP_LENGTH: u64 = 1 << 20;

/// The first message on a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    name: String,
    /// What ties a test's connections together.
    pub cookie: String,
    /// The number of a stream, none for the control connection.
    pub stream: Option<u16>,
}

impl Hello {
    /// A test's first message on its control connection, or on a stream's.
    #[must_use]
    pub fn new(cookie: &str, stream: Option<u16>) -> Self {
        Self { name: NAME.to_owned(), cookie: cookie.to_owned(), stream }
    }

    /// Whether it is of this program, and sane.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.name == NAME && self.cookie.len() == COOKIE && self.cookie.bytes().all(|b| b.is_ascii_alphanumeric())
    }
}

/// What a client's UDP socket shows itself by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knock {
    /// Which stream of which test.
    pub hello: Hello,
    /// What the server has sent to this address.
    pub nonce: Option<String>,
}

/// What the server sends to the address of a socket that shows itself: only who gets it can answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Challenge {
    /// To be sent back.
    pub nonce: String,
}

/// A cookie that nobody can guess.
///
/// # Errors
/// When the system has no randomness.
pub fn new_cookie() -> io::Result<String> {
    let mut bytes = [0; COOKIE];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    // The alphabet of base 32 (RFC 4648), in small letters.
    let letter = |byte: u8| b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(byte % 32)];
    Ok(bytes.map(letter).iter().map(|&letter| char::from(letter)).collect())
}

/// What carries the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// longhaul.
    Tcp,
    /// Plain UDP.
    Udp,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// The client.
    Forward,
    /// The server.
    Reverse,
    /// Both.
    Both,
}

/// A test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Params {
    /// What carries the streams.
    pub protocol: Protocol,
    /// Streams in each direction.
    pub streams: u16,
    /// Who sends.
    pub direction: Direction,
    /// Seconds to send that count, unless `bytes` says how much; 0 is until somebody ends it.
    pub seconds: f64,
    /// Bytes to send in each direction.
    pub bytes: Option<u64>,
    /// Seconds before, which do not count.
    pub omit: u32,
    /// Bytes of a block or datagram.
    pub length: u64,
    /// Bits per second of each stream, 0 for no limit.
    pub rate: u64,
    /// Blocks that leave at once under such a limit.
    pub burst: u32,
    /// Whether datagrams leave as a Poisson process.
    pub poisson: bool,
    /// The seed of that.
    pub seed: u64,
    /// Seconds between reports, 0 for none before the end.
    pub interval: f64,
    /// The congestion control of whoever sends.
    pub congestion: Option<String>,
    /// Bytes of send buffer and receive window.
    pub window: Option<u32>,
    /// Payload of a full segment of whoever sends, at most.
    pub mss: Option<u16>,
    /// The IP type of service of whoever sends.
    pub tos: u8,
    /// Whether the server's report is wanted.
    pub server_output: bool,
}

/// iperf3's defaults.
impl Default for Params {
    fn default() -> Self {
        Self {
            protocol: Protocol::Tcp,
            streams: 1,
            direction: Direction::Forward,
            seconds: 10.0,
            bytes: None,
            omit: 0,
            length: 128 << 10,
            rate: 0,
            burst: 1,
            poisson: false,
            seed: 1,
            interval: 1.0,
            congestion: None,
            window: None,
            mss: None,
            tos: 0,
            server_output: false,
        }
    }
}

impl Params {
    /// Whether it can be done.
    ///
    /// # Errors
    /// A sentence that names the fault.
    pub fn check(&self) -> Result<(), String> {
        let lengths = match self.protocol {
            Protocol::Tcp => 1..=MAX_TCP_LENGTH,
            Protocol::Udp => udp::HEADER as u64..=udp::MAX_LENGTH as u64,
        };
        let fault = if !lengths.contains(&self.length) {
            let (low, high) = lengths.into_inner();
            return Err(format!("a block of {} bytes is not possible: -l must be from {low} to {high}", self.length));
        } else if self.poisson && self.rate == 0 {
            "--poisson needs a rate: -b"
        } else if !(1..=128).contains(&self.streams) {
            "the number of streams must be from 1 to 128"
        } else if !(0.0..=86_400.0).contains(&self.seconds) || self.omit > 600 || self.bytes == Some(0) {
            "the test has no possible length"
        } else if !(1..=1000).contains(&self.burst) {
            "a burst must be of 1 to 1000 blocks"
        } else if self.mss.is_some_and(|mss| !(88..=9216).contains(&mss)) {
            "-M must be from 88 to 9216"
        } else if self.interval != 0.0 && !(0.1..=60.0).contains(&self.interval) {
            "the interval must be 0, or from 0.1 to 60"
        } else if self.window.is_some_and(|window| !(4096..=1 << 30).contains(&window)) {
            "the window must be from 4K to 1G"
        } else {
            return Ok(());
        };
        Err(fault.to_owned())
    }

    /// Whether the client sends on the streams, one after the other by their number.
    #[must_use]
    pub fn client_sends(&self) -> Vec<bool> {
        let streams = usize::from(self.streams);
        match self.direction {
            Direction::Forward => vec![true; streams],
            Direction::Reverse => vec![false; streams],
            Direction::Both => [vec![true; streams], vec![false; streams]].concat(),
        }
    }
}

/// What is said on the control connection after [`Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The client wants this.
    Params(Params),
    /// The server agrees. Where its ports for streams are: one for each of UDP, one for all of TCP, none if it is that
    /// of the control connection.
    Accepted(Vec<u16>),
    /// It does not, for this reason.
    Refused(String),
    /// All streams of TCP are connected.
    Ready,
    /// All streams are there: the clocks start.
    Start,
    /// The user wants no more: the sender of each stream ends it.
    Stop,
    /// The server's report.
    Output(String),
    /// No datagram follows; how many were sent on each stream of those that this end sends on, in their order.
    Done(Vec<u64>),
    /// What this end measured.
    Results(Box<Results>),
    /// It failed, for this reason.
    Failed(String),
}

/// A message as it is written.
///
/// # Errors
/// When it is too long.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).ok().filter(|&length| length <= LARGE);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"))?;
    Ok([&length.to_be_bytes(), json.as_slice()].concat())
}

/// Writes a message.
///
/// # Errors
/// The connection's.
pub async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?).await?;
    to.flush().await
}

/// Reads a message of somebody who is not known yet: it must be short.
///
/// # Errors
/// The connection's, `InvalidData` for what is no message, `UnexpectedEof` at the end.
pub async fn read_small<M: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<M> {
    read_up_to(from, SMALL).await
}

/// Reads a message.
///
/// # Errors
/// As [`read_small`].
pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    read_up_to(from, LARGE).await
}

async fn read_up_to<M: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin), limit: u32) -> io::Result<M> {
    let length = from.read_u32().await?;
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if length > limit {
        return Err(bad(format!("the other end is no perf: it announces a message of {length} bytes")));
    }
    // Grows with what arrives, not with what is announced.
    let mut json = Vec::new();
    from.take(length.into()).read_to_end(&mut json).await?;
    if json.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&json).map_err(|error| bad(format!("the other end is no perf of this version: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_bytes(mut bytes: &[u8]) -> io::Result<Message> {
        read_small(&mut bytes).await
    }

    #[tokio::test]
    async fn messages_arrive_as_they_were_and_nonsense_is_refused() {
        let mut wire = Vec::new();
        write(&mut wire, &Message::Accepted(vec![7, 8])).await.unwrap();
        assert_eq!(read_bytes(&wire).await.unwrap(), Message::Accepted(vec![7, 8]));
        let kind = |bytes: &'static [u8]| async move { read_bytes(bytes).await.unwrap_err().kind() };
        assert_eq!(kind(b"GET / HTTP/1.1\r\n\r\n").await, io::ErrorKind::InvalidData);
        assert_eq!(kind(b"\0\0\x10\x01").await, io::ErrorKind::InvalidData);
        assert_eq!(kind(b"\0\0\0\x03{}").await, io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"\0\0\0\x02{}").await, io::ErrorKind::InvalidData);
        assert_eq!(kind(b"").await, io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn cookies_are_cookies() {
        let (a, b) = (new_cookie().unwrap(), new_cookie().unwrap());
        assert_ne!(a, b);
        assert!(Hello::new(&a, None).is_valid());
        assert!(!Hello::new("short", None).is_valid());
        let foreign = Hello { name: "iperf3".to_owned(), ..Hello::new(&b, Some(1)) };
        assert!(!foreign.is_valid());
    }
}
