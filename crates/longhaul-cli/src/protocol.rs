//! Transfer of files over a connection.
//!
//! ```text
//! sender                                receiver
//! magic (8 bytes)
//! for each file:
//!   length of the name (2 bytes), size (8), name (UTF-8)
//!   any number of chunks: length (4), contents
//!   0 (4 bytes), BLAKE3 of the contents (32)
//!   or 2^32 - 1 (4 bytes): the file is abandoned
//!                                       0, BLAKE3 of what was received (32)
//!                                       or 1, length of the reason (2), reason (UTF-8), the end
//!                                       or 2: the file is skipped
//! the end
//! ```
//!
//! Numbers are big-endian. The size 2^64 - 1 stands for a size that the sender does not know. The sender does not wait
//! for an answer before the end of the contents. A refusal may arrive in their middle, and ends the connection. The
//! receiver may also skip a file there; the sender then abandons it, unless it has sent the hash already.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::names::{self, NameError};

/// First bytes of a connection; the last byte is the version.
pub const MAGIC: [u8; 8] = *b"longhau\x02";
/// Length of a hash in bytes.
pub const HASH_LEN: usize = blake3::OUT_LEN;
/// Maximum length of a chunk in bytes.
pub const MAX_CHUNK: usize = 256 << 10;
/// Length that ends the contents of a file; their hash follows.
pub(crate) const END: u32 = 0;
/// Length that ends a file that is not complete.
pub(crate) const ABANDONED: u32 = u32::MAX;
/// Size of a file whose size is not known.
const UNKNOWN_SIZE: u64 = u64::MAX;
/// Maximum length of a receiver's reason in bytes.
const MAX_REASON: usize = 1024;

const CONFIRMED: u8 = 0;
const REFUSED: u8 = 1;
const SKIPPED: u8 = 2;
/// First byte of TLS connections and alerts (RFC 8446, section 5.1: `alert` and `handshake`).
const TLS: [u8; 2] = [21, 22];

/// Header that precedes a file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Plain file name.
    pub name: String,
    /// Length of the contents in bytes; `None` if it is not known in advance.
    pub size: Option<u64>,
}

/// Receiver's reply to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The file is in place and has this hash.
    Confirmed(blake3::Hash),
    /// The file was refused for this reason, and so are the files after it.
    Refused(String),
    /// A file of this name exists, and is kept.
    Skipped,
}

/// Reason why a message of the peer is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The connection does not begin with [`MAGIC`].
    #[error("the peer is not a sender of files, or uses another version of the protocol")]
    NotOurs,
    /// The peer uses TLS.
    #[error("the peer encrypts (leave out --plaintext)")]
    Encrypted,
    /// The file name is not acceptable.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A text is not UTF-8.
    #[error("the peer sent a name that is not UTF-8")]
    NotText,
    /// A reply is neither a confirmation nor a refusal.
    #[error("the peer's reply is not valid")]
    BadReply,
    /// A chunk is longer than [`MAX_CHUNK`].
    #[error("a chunk of {0} bytes is too long (at most {MAX_CHUNK})")]
    ChunkTooLong(u32),
    /// The contents are longer or shorter than announced.
    #[error("the contents differ in length from the {0} bytes that were announced")]
    WrongSize(u64),
    /// The sender gave up the file.
    #[error("the sender gave up")]
    Abandoned,
    /// The peer closed the connection in the middle of a message.
    #[error("the peer closed the connection in the middle of a message")]
    EarlyEnd,
    /// The connection failed.
    #[error(transparent)]
    Connection(io::Error),
}

impl From<io::Error> for ProtocolError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::EarlyEnd,
            _ => Self::Connection(error),
        }
    }
}

/// Reads the first bytes of a connection.
///
/// # Errors
/// Returns an error if they are not [`MAGIC`].
pub async fn read_magic(from: &mut (impl AsyncRead + Unpin)) -> Result<(), ProtocolError> {
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic).await?;
    match magic {
        MAGIC => Ok(()),
        [first, ..] if TLS.contains(&first) => Err(ProtocolError::Encrypted),
        _ => Err(ProtocolError::NotOurs),
    }
}

/// Encodes a file's header.
///
/// # Errors
/// Returns an error if the receiver would refuse the name.
pub fn encode_header(header: &FileHeader) -> Result<Vec<u8>, NameError> {
    names::check(&header.name)?;
    let len = u16::try_from(header.name.len()).map_err(|_| NameError::TooLong(header.name.len()))?;
    let mut bytes = Vec::from(len.to_be_bytes());
    bytes.extend(header.size.unwrap_or(UNKNOWN_SIZE).to_be_bytes());
    bytes.extend(header.name.as_bytes());
    Ok(bytes)
}

/// Reads a file's header; `None` if the peer has no more files.
///
/// # Errors
/// Returns an error if the header is incomplete or its name is not acceptable. At most [`names::MAX_NAME`] bytes of
/// the name are read.
pub async fn read_header(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<FileHeader>, ProtocolError> {
    let mut len = [0; 2];
    if from.read(&mut len[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut len[1..]).await?;
    let len = usize::from(u16::from_be_bytes(len));
    let size = Some(from.read_u64().await?).filter(|size| *size != UNKNOWN_SIZE);
    if len > names::MAX_NAME {
        return Err(NameError::TooLong(len).into());
    }
    let mut name = vec![0; len];
    from.read_exact(&mut name).await?;
    let name = String::from_utf8(name).map_err(|_| ProtocolError::NotText)?;
    names::check(&name)?;
    Ok(Some(FileHeader { name, size }))
}

/// Sends the reply to a file.
///
/// # Errors
/// Returns the connection's error if the write fails.
pub async fn write_reply(to: &mut (impl AsyncWrite + Unpin), reply: &Reply) -> io::Result<()> {
    let mut bytes = Vec::new();
    match reply {
        Reply::Confirmed(hash) => {
            bytes.push(CONFIRMED);
            bytes.extend(hash.as_bytes());
        }
        Reply::Refused(reason) => {
            let reason = prefix(reason, MAX_REASON);
            bytes.push(REFUSED);
            bytes.extend((reason.len() as u16).to_be_bytes());
            bytes.extend(reason.as_bytes());
        }
        Reply::Skipped => bytes.push(SKIPPED),
    }
    to.write_all(&bytes).await?;
    to.flush().await
}

/// Reads the reply to a file; `first` is its first byte.
///
/// # Errors
/// Returns an error if the reply is not valid or incomplete.
pub async fn read_reply(first: u8, from: &mut (impl AsyncRead + Unpin)) -> Result<Reply, ProtocolError> {
    match first {
        CONFIRMED => {
            let mut hash = [0; HASH_LEN];
            from.read_exact(&mut hash).await?;
            Ok(Reply::Confirmed(hash.into()))
        }
        REFUSED => {
            let len = usize::from(from.read_u16().await?);
            if len > MAX_REASON {
                return Err(ProtocolError::BadReply);
            }
            let mut reason = vec![0; len];
            from.read_exact(&mut reason).await?;
            // The reason is printed to a terminal, which it must not be able to control.
            Ok(Reply::Refused(names::escaped(&String::from_utf8_lossy(&reason))))
        }
        SKIPPED => Ok(Reply::Skipped),
        first if TLS.contains(&first) => Err(ProtocolError::Encrypted),
        _ => Err(ProtocolError::BadReply),
    }
}

/// Returns the longest prefix of whole characters that has at most `limit` bytes.
fn prefix(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn headers_come_back() {
        let header = FileHeader { name: "a file".to_owned(), size: Some(1 << 40) };
        let bytes = encode_header(&header).unwrap();
        assert_eq!(bytes, b"\x00\x06\x00\x00\x01\x00\x00\x00\x00\x00a file");
        assert_eq!(read_header(&mut bytes.as_slice()).await.unwrap(), Some(header));
        assert_eq!(read_header(&mut [].as_slice()).await.unwrap(), None);
        let stream = FileHeader { name: "stdin".to_owned(), size: None };
        let bytes = encode_header(&stream).unwrap();
        assert_eq!(read_header(&mut bytes.as_slice()).await.unwrap(), Some(stream));
    }

    async fn refused(bytes: &[u8]) -> String {
        let mut bytes = bytes;
        read_header(&mut bytes).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn bad_headers_are_refused() {
        assert_eq!(refused(b"\x00").await, "the peer closed the connection in the middle of a message");
        assert_eq!(
            refused(b"\x00\x06\0\0\0\0\0\0\0\0a fi").await,
            "the peer closed the connection in the middle of a message"
        );
        assert_eq!(refused(b"\x00\x02\0\0\0\0\0\0\0\0..").await, "\"..\" is not a plain file name");
        assert_eq!(refused(b"\x00\x02\0\0\0\0\0\0\0\0\xff\xff").await, "the peer sent a name that is not UTF-8");
        assert_eq!(refused(b"\xff\xff\0\0\0\0\0\0\0\0").await, "a file name of 65535 bytes is too long (at most 255)");
    }

    #[tokio::test]
    async fn replies_come_back() {
        for reply in [Reply::Confirmed(blake3::hash(b"x")), Reply::Refused("no".to_owned()), Reply::Skipped] {
            let mut bytes = Vec::new();
            write_reply(&mut bytes, &reply).await.unwrap();
            assert_eq!(read_reply(bytes[0], &mut &bytes[1..]).await.unwrap(), reply);
        }
        let mut bytes = Vec::new();
        write_reply(&mut bytes, &Reply::Refused(format!("{}ä\x1b", "x".repeat(1022)))).await.unwrap();
        let cut = Reply::Refused(format!("{}ä", "x".repeat(1022)));
        assert_eq!(read_reply(bytes[0], &mut &bytes[1..]).await.unwrap(), cut);
        assert!(matches!(read_reply(7, &mut [].as_slice()).await, Err(ProtocolError::BadReply)));
        assert!(matches!(read_reply(21, &mut [].as_slice()).await, Err(ProtocolError::Encrypted)));
        assert!(matches!(read_magic(&mut &b"\x16\x03\x01aaaaa"[..]).await, Err(ProtocolError::Encrypted)));
        assert!(matches!(read_magic(&mut &b"GET / HT"[..]).await, Err(ProtocolError::NotOurs)));
    }
}
