//! Transfer of files over a connection.
//!
//! ```text
//! sender                                       receiver
//! magic (8 bytes)
//! for each file:
//!   1, flags (1), size (8), modification time (12), mode (4), length of the path (2), path
//!   or 10: a new file, which replaces none; or 11: a changed file, of which some groups may be the same
//!                                              to 11, first, if the sender asks: 8, groups (8), their chaining values
//!                                                (32 each)
//!                                              if the sender asks, before the contents:
//!                                                3: send the file
//!                                                or 4: send the file, which has changed since a part of it arrived
//!                                                or 5, groups (8), digest (32): the receiver has this part
//!                                                or 6: the receiver has a file of this size and time
//!   after 5: 2, groups (8): the contents follow from there
//!   after 6: 3, BLAKE3 of the contents (32); the receiver confirms, does not
//!                                                want it (7), or answers 3
//!   any number of chunks: 4, length (4), contents
//!   after 11: or 13, length (4): as many bytes as in the existing file, at most a group
//!   or compressed chunks: 9, length (4), a Zstandard frame (RFC 8878) of at most 256 KiB of contents
//!   5, BLAKE3 of the contents (32)
//!   or 6: the file is abandoned, here or instead of 2 or 3
//! for each directory, after what is in it, as for a file: 7, header
//! for each symbolic link: 8, header, length of the target (2), target
//!                                              0: the file is in its place
//!                                              or 1, length (2), reason (UTF-8), the end
//!                                              or 2: the file is skipped
//!                                              or 7, length (2), reason: the file is not wanted
//! the end
//! ```
//!
//! A mirror begins with a comparison (`mirror`).
//!
//! Numbers are big-endian; lengths in bytes are in parentheses. The number of the file (8) follows the first byte of
//! each reply; files are counted from 0. The size 2^64 - 1 stands for an unknown size. A time consists of seconds since
//! 1970 (8, signed) and nanoseconds (4). A path is a sequence of bytes in the form of the sender's system: UTF-8,
//! unless a Unix file has a different name.
//!
//! Flags of a header: 1, the sender asks what the receiver has; 2, mode and modification time are to be kept. The other
//! six bits are 0, or the number of bits in the length of the file's data, at least 1, if the file has holes.
//!
//! The sender does not wait for the reply to a file before it sends the next one, unless it has asked what the receiver
//! has. The receiver may skip or decline a file before its end. The sender then abandons the file, unless it has
//! already sent the hash. The sender also abandons a file that it cannot read to its end, and the receiver declines it
//! in reply. Each file has exactly one such final reply. Directories and links are counted as files. A refusal ends the
//! connection.
//!
//! Parts consist of groups of 1 MiB (`groups`). The digest is the BLAKE3 hash of their chaining
//! values. If the sender's file has the same digest, the sender continues after these groups, otherwise from the
//! beginning (0 groups).

use std::io;
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::bond;
use crate::mirror::MAX_GROUPS;
use crate::names::{self, Name, NameError};

/// First bytes of a connection; the last byte is the version.
pub const MAGIC: [u8; 8] = *b"longhau\x03";
/// Length of a hash in bytes.
pub const HASH_LEN: usize = blake3::OUT_LEN;
/// Maximum length of a chunk in bytes.
pub const MAX_CHUNK: usize = 256 << 10;
/// Size in bytes of the largest file for which the sender does not ask for the receiver's data: asking would take
/// longer than sending the contents.
pub const MAX_UNASKED: u64 = 2 << 20;

/// Types of the sender's messages.
pub(crate) const FILE: u8 = 1;
pub(crate) const START: u8 = 2;
/// Proves by a hash that the sender has the same file.
pub(crate) const CLAIM: u8 = 3;
pub(crate) const CHUNK: u8 = 4;
pub(crate) const END: u8 = 5;
pub(crate) const ABANDONED: u8 = 6;

pub(crate) const PACKED: u8 = 9;
pub(crate) const DIRECTORY: u8 = 7;
pub(crate) const LINK: u8 = 8;
const NEW: u8 = 10;
const CHANGED: u8 = 11;
/// Contents that the existing file has at the same position.
pub(crate) const COPY: u8 = 13;

/// Flag of a header: mode and modification time are to be kept.
const KEEPS: u8 = 2;
/// Flag of a header: the sender waits for the receiver's answer before it sends the contents.
const ASKS: u8 = 1;
/// Position of the number of bits of the data's length in the flags of a file with holes.
const DATA_BITS: u32 = 2;
/// Length in bytes of the fixed fields of a file header, without the type byte and the strings.
const HEADER_LEN: usize = 1 + 8 + 12 + 4;
/// Modification times that a header may have, in seconds since 1970: the years 1 to 9999, which calendars can
/// represent. File systems may store other times.
const YEARS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const UNKNOWN_SIZE: u64 = u64::MAX;
/// Maximum length of a receiver's reason in bytes.
const MAX_REASON: usize = 1024;
/// Length of the beginning of a reply in bytes: its type and the number of the file.
const REPLY_LEN: usize = 1 + 8;

const CONFIRMED: u8 = 0;
const REFUSED: u8 = 1;
const SKIPPED: u8 = 2;
const GO: u8 = 3;
const ANEW: u8 = 4;
const OFFER: u8 = 5;
const SAME: u8 = 6;
const DECLINED: u8 = 7;
const GROUPS: u8 = 8;
/// First byte of TLS connections and alerts (RFC 8446, section 5.1: `alert` and `handshake`).
const TLS: [u8; 2] = [21, 22];

/// Header that precedes a file's contents, or represents a directory or a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    pub kind: Kind,
    /// Relative path, separated by `/`.
    pub name: Name,
    /// Length of the contents in bytes; `None` if it is not known in advance.
    pub size: Option<u64>,
    /// Time of the last modification.
    pub modified: Timestamp,
    /// Permissions, as in `st_mode` without the file's type.
    pub mode: u32,
    /// Whether the receiver should keep modification time and permissions.
    pub keeps: bool,
    /// Whether the sender waits for the receiver's answer before it sends the contents.
    pub asks: bool,
    /// For a file with holes, a lower bound on the bytes of its data, a power of two.
    pub data: Option<u64>,
    pub target: Target,
}

/// Sender's knowledge of an existing file of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The sender knows nothing, or knows that the file may be replaced. The receiver's options decide.
    #[default]
    Any,
    /// There was no such file, so a file that exists now is a different one.
    New,
    /// Some of its contents are, or may be, the same. If the sender asks, the receiver sends the chaining values of its
    /// groups.
    Changed,
}

/// Kind of an entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, whose contents follow.
    File,
    /// A directory, after everything in it.
    Directory,
    /// A symbolic link with this target.
    Link(Name),
}

/// A point in time as file systems store it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, less than 10^9.
    pub nanos: u32,
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Self { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                let part = before.subsec_nanos();
                let seconds = 0_i64.saturating_sub_unsigned(before.as_secs()).saturating_sub(i64::from(part > 0));
                Self { seconds, nanos: if part > 0 { 1_000_000_000 - part } else { 0 } }
            }
        }
    }
}

impl Timestamp {
    /// Returns the nearest time that a header may have.
    pub fn clamped(self) -> Self {
        Self { seconds: self.seconds.clamp(*YEARS.start(), *YEARS.end()), ..self }
    }
}

/// Receiver's reply to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The file is in place.
    Confirmed,
    /// The file and all later ones are refused for this reason.
    Refused(String),
    /// A file of this name exists, and is kept.
    Skipped,
    /// The file is declined for this reason. Later files may be accepted.
    Declined(String),
    /// The contents are to be sent.
    Go,
    /// The contents must be sent: the receiver had a part of a different version of the file.
    Anew,
    /// The receiver has the first groups of the file.
    Offer {
        groups: u64,
        /// Hash of their chaining values.
        digest: blake3::Hash,
    },
    /// The receiver has a file of this name, size and modification time.
    Same,
    /// The receiver has a file of this name, whose groups have these chaining values.
    Groups(Vec<[u8; HASH_LEN]>),
}

#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("the peer is not a sender of files, or uses another version of the protocol")]
    NotOurs,
    #[error("the peer encrypts (leave out --plaintext)")]
    Encrypted,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the modification time {0} s is not in the years 1 to 9999")]
    BadTime(i64),
    #[error("the peer's reply is not valid")]
    BadReply,
    #[error("the peer sent a message of type {0}, which is not valid here")]
    BadMessage(u8),
    #[error("a chunk of {0} bytes is too long (at most {MAX_CHUNK})")]
    ChunkTooLong(u32),
    #[error("a compressed chunk is not valid: {0}")]
    BadPacking(io::Error),
    #[error("the contents differ in length from the {0} bytes that were announced")]
    WrongSize(u64),
    /// The receiver refuses all files, for this reason.
    #[error("the receiver refused them: {0}")]
    Refused(String),
    #[error("the sender gave up")]
    Abandoned,
    #[error("the peer closed the connection in the middle of a message")]
    EarlyEnd,
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

/// Purpose of a connection, as its first bytes state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Files.
    Files,
    /// A bond, which carries a connection with files.
    Bond,
}

/// Reads the first bytes of a connection, and fails if they are not [`MAGIC`] or those of a bond.
pub async fn read_magic(from: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<Greeting, ProtocolError> {
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic).await?;
    match magic {
        MAGIC => Ok(Greeting::Files),
        bond::MAGIC => Ok(Greeting::Bond),
        [first, ..] if TLS.contains(&first) => Err(ProtocolError::Encrypted),
        _ => Err(ProtocolError::NotOurs),
    }
}

/// Encodes a file's header.
/// Returns an error if the receiver would refuse the name.
pub fn encode_header(header: &FileHeader) -> Result<Vec<u8>, NameError> {
    let FileHeader { kind, name, size, modified, mode, keeps, asks, data, target } = header;
    names::check_path(name)?;
    let first = match kind {
        Kind::File => match target {
            Target::Any => FILE,
            Target::New => NEW,
            Target::Changed => CHANGED,
        },
        Kind::Directory => DIRECTORY,
        Kind::Link(target) => names::check_link(name, target).map(|()| LINK)?,
    };
    let holes = data.map_or(0, |data| (u64::BITS - data.leading_zeros()).clamp(1, u64::BITS - 1) as u8);
    let flags = if *asks { ASKS } else { 0 } | if *keeps { KEEPS } else { 0 } | holes << DATA_BITS;
    let mut bytes = vec![first, flags];
    bytes.extend(size.unwrap_or(UNKNOWN_SIZE).to_be_bytes());
    bytes.extend(modified.seconds.to_be_bytes());
    bytes.extend(modified.nanos.to_be_bytes());
    bytes.extend(mode.to_be_bytes());
    push_text(&mut bytes, name.as_bytes());
    if let Kind::Link(target) = kind {
        push_text(&mut bytes, target.as_bytes());
    }
    Ok(bytes)
}

/// Appends a text of at most [`names::MAX_PATH`] bytes after its length.
pub(crate) fn push_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend(text);
}

/// Reads a header after its first byte `first`.
/// Returns an error if the header is incomplete or its path is not acceptable. At most `names::MAX_PATH` bytes of the path
/// are read.
pub async fn read_header(first: u8, from: &mut (impl AsyncRead + Unpin)) -> Result<FileHeader, ProtocolError> {
    let mut fixed = [0; HEADER_LEN];
    from.read_exact(&mut fixed).await?;
    let mut fields = fixed.as_slice();
    let flags = fields.read_u8().await?;
    let size = Some(fields.read_u64().await?).filter(|size| *size != UNKNOWN_SIZE);
    let modified = Timestamp { seconds: fields.read_i64().await?, nanos: fields.read_u32().await?.min(999_999_999) };
    let mode = fields.read_u32().await?;
    if !YEARS.contains(&modified.seconds) {
        return Err(ProtocolError::BadTime(modified.seconds));
    }
    let name = read_name(from).await?;
    names::check_path(&name)?;
    let kind = match first {
        FILE | NEW | CHANGED => Kind::File,
        DIRECTORY => Kind::Directory,
        LINK => {
            let target = read_name(from).await?;
            names::check_link(&name, &target)?;
            Kind::Link(target)
        }
        other => return Err(ProtocolError::BadMessage(other)),
    };
    let target = match first {
        NEW => Target::New,
        CHANGED => Target::Changed,
        _ => Target::Any,
    };
    let data = u32::from(flags >> DATA_BITS).checked_sub(1).map(|bits| 1 << bits);
    Ok(FileHeader {
        kind,
        name,
        size,
        modified,
        mode,
        keeps: flags & KEEPS != 0,
        asks: flags & ASKS != 0,
        data,
        target,
    })
}

async fn read_name(from: &mut (impl AsyncRead + Unpin)) -> Result<Name, ProtocolError> {
    let len = usize::from(from.read_u16().await?);
    if len > names::MAX_PATH {
        return Err(NameError::PathTooLong(len).into());
    }
    let mut name = vec![0; len];
    from.read_exact(&mut name).await?;
    Ok(name.into())
}

/// Returns the type and the length of a chunk of `len` bytes, which precede it.
pub fn chunk_start(len: u32) -> [u8; 5] {
    message_start(CHUNK, len)
}

pub(crate) fn packed_start(len: u32) -> [u8; 5] {
    message_start(PACKED, len)
}

fn message_start(first: u8, len: u32) -> [u8; 5] {
    let [a, b, c, d] = len.to_be_bytes();
    [first, a, b, c, d]
}

/// Appends the reply to file `number` to `bytes`.
pub fn encode_reply(bytes: &mut Vec<u8>, number: u64, reply: &Reply) {
    bytes.push(match reply {
        Reply::Confirmed => CONFIRMED,
        Reply::Refused(_) => REFUSED,
        Reply::Skipped => SKIPPED,
        Reply::Declined(_) => DECLINED,
        Reply::Go => GO,
        Reply::Anew => ANEW,
        Reply::Offer { .. } => OFFER,
        Reply::Same => SAME,
        Reply::Groups(_) => GROUPS,
    });
    bytes.extend(number.to_be_bytes());
    match reply {
        Reply::Refused(reason) | Reply::Declined(reason) => push_text(bytes, prefix(reason, MAX_REASON).as_bytes()),
        Reply::Offer { groups, digest } => {
            bytes.extend(groups.to_be_bytes());
            bytes.extend(digest.as_bytes());
        }
        Reply::Groups(values) => {
            bytes.extend((values.len() as u64).to_be_bytes());
            bytes.extend(values.as_flattened());
        }
        Reply::Confirmed | Reply::Skipped | Reply::Go | Reply::Anew | Reply::Same => {}
    }
}

/// Takes the first reply from the front of `bytes`, with the number of its file; `None` if it is not complete.
pub fn take_reply(bytes: &mut Vec<u8>) -> Result<Option<(u64, Reply)>, ProtocolError> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    if TLS.contains(&first) {
        return Err(ProtocolError::Encrypted);
    }
    let mut rest = bytes.as_slice();
    let Some(fixed) = rest.split_off(..REPLY_LEN) else {
        return if first > GROUPS { Err(ProtocolError::BadReply) } else { Ok(None) };
    };
    let number = fixed.split_last_chunk().map(|(_, number)| u64::from_be_bytes(*number)).unwrap_or_default();
    let reply = match first {
        CONFIRMED => Some(Reply::Confirmed),
        SKIPPED => Some(Reply::Skipped),
        GO => Some(Reply::Go),
        ANEW => Some(Reply::Anew),
        SAME => Some(Reply::Same),
        REFUSED => take_reason(&mut rest)?.map(Reply::Refused),
        DECLINED => take_reason(&mut rest)?.map(Reply::Declined),
        OFFER => take_offer(&mut rest),
        GROUPS => take_groups(&mut rest)?.map(Reply::Groups),
        _ => return Err(ProtocolError::BadReply),
    };
    let Some(reply) = reply else { return Ok(None) };
    let taken = bytes.len() - rest.len();
    bytes.drain(..taken);
    Ok(Some((number, reply)))
}

fn take_reason(bytes: &mut &[u8]) -> Result<Option<String>, ProtocolError> {
    let Some(len) = take(bytes).map(|len| usize::from(u16::from_be_bytes(len))) else { return Ok(None) };
    if len > MAX_REASON {
        return Err(ProtocolError::BadReply);
    }
    // The reason is printed to a terminal, which it must not be able to control.
    Ok(bytes.split_off(..len).map(|text| names::escaped(&String::from_utf8_lossy(text))))
}

fn take_offer(bytes: &mut &[u8]) -> Option<Reply> {
    let groups = u64::from_be_bytes(take(bytes)?);
    let digest = take::<HASH_LEN>(bytes)?.into();
    Some(Reply::Offer { groups, digest })
}

fn take_groups(bytes: &mut &[u8]) -> Result<Option<Vec<[u8; HASH_LEN]>>, ProtocolError> {
    let Some(groups) = take(bytes).map(u64::from_be_bytes) else { return Ok(None) };
    if groups > MAX_GROUPS {
        return Err(ProtocolError::BadReply);
    }
    Ok(bytes.split_off(..groups as usize * HASH_LEN).map(|values| values.as_chunks().0.to_vec()))
}

/// Takes bytes from the front.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    bytes.split_off(..N)?.first_chunk().copied()
}

/// Returns the longest prefix of whole characters that has at most `limit` bytes.
fn prefix(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
