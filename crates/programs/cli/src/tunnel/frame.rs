//! Frames of a tunnel.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::target::MAX_HOST;
use super::{Target, TunnelError};

/// Length of the kind and length fields of a frame in bytes.
pub(super) const HEAD: usize = 3;
/// Size of a reader's buffer in bytes. A TLS record has up to 16 KiB.
const BUFFER: usize = 32 << 10;
/// Maximum length in bytes of the payload of a frame without data: that of `LISTEN`.
const MAX_CONTROL: usize = GROUP + 2 + 1 + MAX_HOST + 2 + MAX_HOST;
const GROUP: usize = 16;

const OPEN: u8 = 1;
const DATA: u8 = 2;
const END: u8 = 3;
const RESET: u8 = 4;
const PING: u8 = 5;
const PONG: u8 = 6;
const BYE: u8 = 7;
const LISTEN: u8 = 8;
const LISTENING: u8 = 9;
const OFFER: u8 = 10;

/// Random name of the listeners of a forwarder, and of the tunnels that carry their connections.
pub type Group = [u8; GROUP];

/// A frame, or a part of a frame with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    Open(Target),
    /// Data of the stream, at most 65,535 bytes. A reader returns the data as it arrives, possibly in parts.
    Data(&'a [u8]),
    /// The sender's direction of the stream has ended in order.
    End,
    /// The stream has failed. A reset may follow [`Frame::End`] while the other direction continues.
    Reset {
        /// Number of the stream. The first one of a tunnel has the number 1.
        stream: u32,
        reason: Reason,
    },
    /// Asks for [`Frame::Pong`].
    Ping,
    /// Answers [`Frame::Ping`].
    Pong,
    /// The sender will accept no further stream.
    Bye,
    /// Asks the gateway to listen.
    Listen(Listen),
    /// The gateway listens on this port.
    Listening(u16),
    /// The gateway may open streams on this tunnel, for the listeners of a group.
    Offer(Group),
}

/// Request to listen, and to open a stream to `target` for each connection, on tunnels that are offered to the same group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub group: Group,
    /// Address to listen on, as text; empty for the loopback address.
    pub bind: String,
    /// Port to listen on; 0 for any free port.
    pub port: u16,
    /// Target that the forwarder will connect to.
    pub target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A reason of a later version.
    Other,
    /// The forwarded connection was reset.
    Reset,
    Refused,
    /// The target cannot be reached, or its connection failed.
    Unreachable,
    TimedOut,
    /// The target's name was not found.
    NotFound,
    /// The gateway does not permit the target.
    NotPermitted,
    /// Too many streams are open.
    Crowded,
    /// The stream was idle for too long.
    Idle,
    Ending,
}

impl Reason {
    /// Each reason at the place of its code, with its name in metrics and a sentence.
    const TABLE: [(Self, &'static str, &'static str); 10] = [
        (Self::Other, "other", "the connection failed"),
        (Self::Reset, "reset", "the connection was reset"),
        (Self::Refused, "refused", "the target refused the connection"),
        (Self::Unreachable, "unreachable", "the target cannot be reached"),
        (Self::TimedOut, "timed-out", "the target did not answer"),
        (Self::NotFound, "not-found", "the target's name was not found"),
        (Self::NotPermitted, "not-permitted", "the gateway does not permit this target"),
        (Self::Crowded, "crowded", "too many connections are open"),
        (Self::Idle, "idle", "the connection was idle for too long"),
        (Self::Ending, "ending", "the program is ending"),
    ];

    pub fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.into_iter().map(|(reason, ..)| reason)
    }

    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// Returns whether the stream was not opened, rather than ended.
    pub fn is_refusal(self) -> bool {
        use Reason::{Crowded, Ending, NotFound, NotPermitted, Refused, TimedOut, Unreachable};
        matches!(self, Refused | Unreachable | TimedOut | NotFound | NotPermitted | Crowded | Ending)
    }

    fn of_code(code: u8) -> Self {
        Self::all().nth(code.into()).unwrap_or(Self::Other)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::TABLE[*self as usize].2)
    }
}

impl Frame<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            Self::Open(target) => {
                let mut payload = target.port().to_be_bytes().to_vec();
                payload.extend(target.host().bytes());
                (OPEN, payload)
            }
            Self::Data(data) => (DATA, data.to_vec()),
            Self::End => (END, Vec::new()),
            Self::Reset { stream, reason } => (RESET, [&stream.to_be_bytes()[..], &[*reason as u8]].concat()),
            Self::Ping => (PING, Vec::new()),
            Self::Pong => (PONG, Vec::new()),
            Self::Bye => (BYE, Vec::new()),
            Self::Listen(Listen { group, bind, port, target }) => {
                let mut payload = [&group[..], &port.to_be_bytes(), &[bind.len().min(MAX_HOST) as u8]].concat();
                payload.extend(bind.bytes().take(MAX_HOST));
                payload.extend(target.port().to_be_bytes());
                payload.extend(target.host().bytes());
                (LISTEN, payload)
            }
            Self::Listening(port) => (LISTENING, port.to_be_bytes().to_vec()),
            Self::Offer(group) => (OFFER, group.to_vec()),
        };
        debug_assert!(payload.len() <= usize::from(u16::MAX), "a frame has at most 65,535 bytes");
        [&head(kind, payload.len())[..], &payload].concat()
    }
}

/// Returns the head of a frame with `len` bytes of data, at most 65,535.
pub(super) fn data_head(len: usize) -> [u8; HEAD] {
    head(DATA, len)
}

fn head(kind: u8, len: usize) -> [u8; HEAD] {
    let [high, low] = (len as u16).to_be_bytes();
    [kind, high, low]
}

#[derive(Debug)]
pub(super) struct FrameReader<R> {
    source: R,
    buffer: Box<[u8]>,
    /// Range of the bytes in the buffer that have not been returned.
    start: usize,
    end: usize,
    /// Bytes of the current frame's data that have not been returned.
    data_left: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; BUFFER].into(), start: 0, end: 0, data_left: 0 }
    }

    /// Returns the next frame, or `None` at the end of the stream between two frames.
    ///
    /// Cancel safety: this method is cancel safe, because a read that is cancelled has read nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Frame<'_>>, TunnelError> {
        loop {
            let available = self.end - self.start;
            if self.data_left > 0 {
                if available > 0 {
                    let len = available.min(self.data_left);
                    self.data_left -= len;
                    return Ok(Some(Frame::Data(self.take(len))));
                }
            } else if let Some((kind, len)) = self.head() {
                if kind == DATA {
                    self.start += HEAD;
                    self.data_left = len;
                    continue;
                }
                if len > MAX_CONTROL {
                    return Err(TunnelError::Protocol("a frame is too long"));
                }
                if available >= HEAD + len {
                    self.start += HEAD;
                    return decode(kind, self.take(len)).map(Some);
                }
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    fn head(&self) -> Option<(u8, usize)> {
        let head = self.buffer.get(self.start..self.end)?.first_chunk::<HEAD>()?;
        let [kind, high, low] = *head;
        Some((kind, u16::from_be_bytes([high, low]).into()))
    }

    fn take(&mut self, len: usize) -> &[u8] {
        let start = self.start;
        self.start += len;
        self.buffer.get(start..self.start).unwrap_or_default()
    }

    /// Reads more data. Returns false at the end of the stream.
    async fn fill(&mut self) -> Result<bool, TunnelError> {
        // The rest belongs to a frame without data, which is short.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let read = self.source.read(self.buffer.get_mut(self.end..).unwrap_or_default()).await?;
        self.end += read;
        match read {
            0 if self.end > 0 || self.data_left > 0 => {
                Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into())
            }
            0 => Ok(false),
            _ => Ok(true),
        }
    }
}

fn decode(kind: u8, payload: &[u8]) -> Result<Frame<'static>, TunnelError> {
    Ok(match (kind, payload) {
        (OPEN, target) => Frame::Open(decode_target(target)?),
        (END, []) => Frame::End,
        (RESET, [a, b, c, d, code]) => {
            Frame::Reset { stream: u32::from_be_bytes([*a, *b, *c, *d]), reason: Reason::of_code(*code) }
        }
        (PING, []) => Frame::Ping,
        (PONG, []) => Frame::Pong,
        (BYE, []) => Frame::Bye,
        (LISTEN, payload) => decode_listen(payload)?,
        (LISTENING, [high, low]) => Frame::Listening(u16::from_be_bytes([*high, *low])),
        (OFFER, group) if group.len() == GROUP => Frame::Offer(group.try_into().unwrap_or_default()),
        _ => return Err(TunnelError::Protocol("a frame is unknown or has a wrong length")),
    })
}

fn decode_target(payload: &[u8]) -> Result<Target, TunnelError> {
    let fault = || TunnelError::Protocol("a target is not a host and a port");
    let (port, host) = payload.split_first_chunk().ok_or_else(fault)?;
    let host = std::str::from_utf8(host).map_err(|_| TunnelError::Protocol("a host is not text"))?;
    Target::new(host, u16::from_be_bytes(*port)).map_err(|_| fault())
}

fn decode_listen(payload: &[u8]) -> Result<Frame<'static>, TunnelError> {
    let fault = || TunnelError::Protocol("a listener is not an address and a target");
    let (group, rest) = payload.split_first_chunk::<GROUP>().ok_or_else(fault)?;
    let (port, rest) = rest.split_first_chunk().ok_or_else(fault)?;
    let (len, rest) = rest.split_first().ok_or_else(fault)?;
    let (bind, target) = rest.split_at_checked(usize::from(*len)).ok_or_else(fault)?;
    let bind = std::str::from_utf8(bind).map_err(|_| fault())?.to_owned();
    let (group, port) = (*group, u16::from_be_bytes(*port));
    Ok(Frame::Listen(Listen { group, bind, port, target: decode_target(target)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frames of a stream that arrives in pieces of `piece` bytes, with the parts of data joined.
    async fn read(bytes: &[u8], piece: usize) -> Result<Vec<(Frame<'static>, Vec<u8>)>, TunnelError> {
        let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
        let (mut from, to) = tokio::io::duplex(piece);
        let feed = async move {
            for piece in pieces {
                tokio::io::AsyncWriteExt::write_all(&mut from, piece).await.unwrap();
            }
        };
        let collect = async {
            let (mut reader, mut frames) = (FrameReader::new(to), Vec::<(Frame<'static>, Vec<u8>)>::new());
            while let Some(frame) = reader.next().await? {
                let (frame, data) = match frame {
                    Frame::Data(data) => (Frame::Data(&[]), data.to_vec()),
                    Frame::Open(target) => (Frame::Open(target), Vec::new()),
                    Frame::Reset { stream, reason } => (Frame::Reset { stream, reason }, Vec::new()),
                    Frame::End => (Frame::End, Vec::new()),
                    Frame::Ping => (Frame::Ping, Vec::new()),
                    Frame::Pong => (Frame::Pong, Vec::new()),
                    Frame::Bye => (Frame::Bye, Vec::new()),
                    Frame::Listen(listen) => (Frame::Listen(listen), Vec::new()),
                    Frame::Listening(port) => (Frame::Listening(port), Vec::new()),
                    Frame::Offer(group) => (Frame::Offer(group), Vec::new()),
                };
                match frames.last_mut() {
                    Some((Frame::Data(_), whole)) if matches!(frame, Frame::Data(_)) => whole.extend(data),
                    _ => frames.push((frame, data)),
                }
            }
            Ok(frames)
        };
        tokio::join!(feed, collect).1
    }

    #[tokio::test]
    async fn frames_come_back_however_they_are_cut() {
        let contents: Vec<u8> = (0..50_000_u32).map(|i| (i ^ (i >> 8)) as u8).collect();
        let open = Frame::Open(Target::new(&"h".repeat(255), 65535).unwrap());
        let mut frames = vec![open, Frame::Data(&contents), Frame::End, Frame::Ping, Frame::Pong, Frame::Bye];
        let target = Target::new(&"h".repeat(255), 1).unwrap();
        for bind in ["", "::1", &"b".repeat(255)] {
            let bind = bind.to_owned();
            frames.push(Frame::Listen(Listen { group: [7; GROUP], bind, port: 0x1234, target: target.clone() }));
        }
        frames.extend([Frame::Listening(0x4321), Frame::Offer([9; GROUP])]);
        frames.extend(Reason::all().map(|reason| Frame::Reset { stream: 0x0123_4567, reason }));
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        for piece in [1, 2, 3, 7, 100, 4096, bytes.len()] {
            let back = read(&bytes, piece).await.unwrap();
            assert_eq!(back.len(), frames.len());
            for ((frame, data), sent) in back.iter().zip(&frames) {
                match sent {
                    Frame::Data(sent) => assert!(data == sent),
                    sent => assert_eq!(frame, sent),
                }
            }
        }
    }

    #[tokio::test]
    async fn invalid_frames_are_refused() {
        for (bytes, reason) in [
            (&[0, 0, 0][..], "unknown"),
            (&[99, 0, 0], "unknown"),
            (&[OPEN, 0, 1, 0], "not a host and a port"),
            (&[OPEN, 0, 2, 0, 80], "not a host and a port"),
            (&[OPEN, 0, 3, 0, 0, b'h'], "not a host and a port"),
            (&[OPEN, 0, 3, 0, 80, b' '], "not a host and a port"),
            (&[OPEN, 0, 3, 0, 80, 0xff], "not text"),
            (&[OPEN, 2, 100], "too long"),
            (&[OFFER, 0, 1, 0], "wrong length"),
            (&[LISTENING, 0, 1, 0], "wrong length"),
            (&[[LISTEN, 0, 20].as_slice(), &[0; 20]].concat(), "not a host and a port"),
            (&[[LISTEN, 0, 20].as_slice(), &[0; 18], &[2, b'h']].concat(), "not an address and a target"),
            (&[LISTEN, 0, 3, 0, 0, 0], "not an address and a target"),
            (&[END, 0, 1, 0], "wrong length"),
            (&[RESET, 0, 0], "wrong length"),
            (&[RESET, 0, 4, 0, 0, 0, 1], "wrong length"),
            (&[DATA, 0, 2, 1], "unexpected end of file"),
            (&[END, 0], "unexpected end of file"),
        ] {
            let error = read(bytes, 1).await.unwrap_err().to_string();
            assert!(error.contains(reason), "{bytes:?}: {error}");
        }
        // Reasons of later versions are accepted, and empty data is skipped.
        let later = [(Frame::Reset { stream: 2, reason: Reason::Other }, Vec::new())];
        assert_eq!(read(&[RESET, 0, 5, 0, 0, 0, 2, 200], 8).await.unwrap(), later);
        assert_eq!(read(&[DATA, 0, 0, END, 0, 0], 6).await.unwrap(), [(Frame::End, Vec::new())]);
    }
}
