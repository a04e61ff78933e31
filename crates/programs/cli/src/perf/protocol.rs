//! Messages on the control connection of a test, and the first message on each connection.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::results::Results;
use super::udp;

/// Name of the protocol and its version, in the first message of each connection.
const NAME: &str = "longhaul-perf-2";
/// Length of a cookie in characters, as in iperf3.
const COOKIE: usize = 36;
/// Maximum length in bytes of a message from an unknown peer.
const SMALL: u32 = 4096;
/// Maximum length in bytes of a message during a test.
const LARGE: u32 = 8 << 20;
/// Maximum block length over TCP in bytes, as in iperf3.
const MAX_TCP_LENGTH: u64 = 1 << 20;

/// The first message on a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    name: String,
    /// Identifier common to a test's connections.
    pub cookie: String,
    /// The number of a stream; `None` for the control connection.
    pub stream: Option<u16>,
}

impl Hello {
    /// Creates the first message on the control connection of a test (`None`), or on the connection of a stream.
    pub fn new(cookie: &str, stream: Option<u16>) -> Self {
        Self { name: NAME.to_owned(), cookie: cookie.to_owned(), stream }
    }

    /// Returns whether the message belongs to this protocol and is well formed.
    pub fn is_valid(&self) -> bool {
        self.name == NAME && self.cookie.len() == COOKIE && self.cookie.bytes().all(|b| b.is_ascii_alphanumeric())
    }
}

/// Message by which a UDP socket of the client announces itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knock {
    /// The test and the number of the stream.
    pub hello: Hello,
    /// The nonce that the server has sent to this address.
    pub nonce: Option<String>,
}

/// Response of the server to a [`Knock`]. Only the owner of the address receives it and can answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Challenge {
    pub nonce: String,
}

/// Returns an unpredictable cookie.
pub fn new_cookie() -> io::Result<String> {
    let mut bytes = [0; COOKIE];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    // The base32 alphabet (RFC 4648) in lower case.
    let letter = |byte: u8| b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(byte % 32)];
    Ok(bytes.map(letter).iter().map(|&letter| char::from(letter)).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// Sender of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// The client sends.
    Forward,
    /// The server sends.
    Reverse,
    /// Both ends.
    Both,
}

/// Parameters of a test; the help texts of the options describe them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Params {
    pub protocol: Protocol,
    /// Number of streams in each direction.
    pub streams: u16,
    pub direction: Direction,
    /// Duration of the measurement in seconds, unless `bytes` is given; 0 is until one end stops it.
    pub seconds: f64,
    pub bytes: Option<u64>,
    pub omit: u32,
    pub length: u64,
    pub rate: u64,
    pub burst: u32,
    pub poisson: bool,
    pub seed: u64,
    pub interval: f64,
    pub congestion: Option<String>,
    pub window: Option<u32>,
    pub mss: Option<u16>,
    pub tos: u8,
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
            "the duration of the test is not possible"
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

    /// Returns for each stream, in the order of the numbers, whether the client sends on it.
    pub fn client_sends(&self) -> Vec<bool> {
        let streams = usize::from(self.streams);
        match self.direction {
            Direction::Forward => vec![true; streams],
            Direction::Reverse => vec![false; streams],
            Direction::Both => [vec![true; streams], vec![false; streams]].concat(),
        }
    }
}

/// Messages on the control connection after [`Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The client requests this test.
    Params(Params),
    /// The server accepts the test and names the ports of the streams: one per UDP stream, one for all TCP streams, or
    /// none if they use the port of the control connection.
    Accepted(Vec<u16>),
    /// The server refuses the test for this reason.
    Refused(String),
    /// All TCP streams are connected.
    Ready,
    /// All streams are ready: the clocks start.
    Start,
    /// The user has stopped the test: the sender of each stream ends it.
    Stop,
    Output(String),
    /// This end sends no further datagrams. For each stream on which it sends, in order, this is the number of
    /// datagrams sent.
    Done(Vec<u64>),
    /// Measurements of this end.
    Results(Box<Results>),
    /// The test failed at this end for this reason.
    Failed(String),
}

pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).ok().filter(|&length| length <= LARGE);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"))?;
    Ok([&length.to_be_bytes(), json.as_slice()].concat())
}

pub async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?).await?;
    to.flush().await
}

/// Reads a message from an unknown peer, which must be short.
/// Returns the connection's error, `InvalidData` if the bytes are not a message, and `UnexpectedEof` at the end of
/// the stream.
pub async fn read_small<M: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<M> {
    read_up_to(from, SMALL).await
}

pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    read_up_to(from, LARGE).await
}

async fn read_up_to<M: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin), limit: u32) -> io::Result<M> {
    let length = from.read_u32().await?;
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if length > limit {
        return Err(bad(format!("the other end is not perf: it announced a message of {length} bytes")));
    }
    // Memory is allocated for the bytes that arrive, not for the announced length.
    let mut json = Vec::new();
    from.take(length.into()).read_to_end(&mut json).await?;
    if json.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&json).map_err(|error| bad(format!("the other end is not perf of this version: {error}")))
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
