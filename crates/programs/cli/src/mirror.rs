//! Comparison of a directory with its copy at the receiver, before files are sent.
//!
//! ```text
//! sender                                       receiver
//! 12, options (1), 24 zeros, length (2), name
//! frames of entries, then an empty frame
//!                                              a frame per frame of entries: a state (1) of each entry, then of each
//!                                                changed one the number of blocks (2) and their hashes (8 each)
//!                                              if the sender asks for them, frames of surplus entries, then an
//!                                                empty frame
//! 1, BLAKE3 of these frames (32): they are to be deleted
//! or 0
//!                                              after 1: a frame: number of those that were deleted (8),
//!                                                frames of those that were not, then an empty frame
//! the files that the receiver lacks, as usual
//! ```
//!
//! A frame consists of the byte 14, a length (4 bytes), and a Zstandard frame (RFC 8878) of at most 256 KiB. Receivers
//! without mirrors refuse the name, and quote it in their message.
//!
//! An entry is the header of a file, directory or link, without mode and flags, followed for a file by its BLAKE3 hash
//! (32 bytes) if option bit 2 is set. A directory comes after its entries and ends their list. Surplus entries, which
//! are listed if option bit 1 is set, consist of 1 for a directory and otherwise 0, a stamp (20 bytes), and the length
//! (2 bytes) and bytes of the path. If an entry was not deleted, the length (2 bytes) and bytes of the reason follow.

use std::io;
use std::sync::Arc;

use blake3::Hash;
use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::names::{MAX_PATH, Name};
use crate::protocol::{self, FileHeader, HASH_LEN, Kind, MAX_CHUNK, ProtocolError, Timestamp, push_text, take};

/// First byte of the message that begins a comparison.
pub(crate) const COMPARE: u8 = 12;
const FRAME: u8 = 14;
/// Name in that message. Receivers without mirrors display it, and return it to the sender.
pub(crate) const TOO_OLD: &str = ".longhaul-mirror: renew longhaul at the receiver, which is too old for a mirror";
/// Length of the fields before the length of the name.
pub(crate) const OPTIONS_LEN: usize = 1 + 24;
/// Number of bytes at which a frame of entries is sent, so that the longest entry still fits after them.
const FULL: usize = MAX_CHUNK - 2 * MAX_PATH - 128;
/// Compression level: lists are short, and each byte of them delays the first file.
const LEVEL: i32 = 6;
/// Maximum number of groups whose chaining values the receiver sends: those of 1 TiB.
pub(crate) const MAX_GROUPS: u64 = 1 << 20;
/// Length of the blocks in which small changed files are compared, in bytes.
pub(crate) const BLOCK: usize = 1024;
/// Maximum total size in bytes of block hashes in a frame. Files beyond this limit are sent completely.
const MAX_BLOCKS: usize = MAX_CHUNK / 2;
/// Length of the stamp of a surplus entry in bytes.
pub(crate) const STAMP_LEN: usize = 20;

/// Parameters of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Whether the receiver should list entries that the sender does not have.
    pub(crate) surplus: bool,
    /// Whether files count as equal only if their hashes are equal.
    pub(crate) checksum: bool,
}

impl Request {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![COMPARE, u8::from(self.surplus) | u8::from(self.checksum) << 1];
        bytes.resize(1 + OPTIONS_LEN, 0);
        bytes.extend((TOO_OLD.len() as u16).to_be_bytes());
        bytes.extend(TOO_OLD.as_bytes());
        bytes
    }

    pub(crate) fn decode(options: u8) -> Self {
        Self { surplus: options & 1 != 0, checksum: options & 2 != 0 }
    }
}

/// State of an entry at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Same = 0,
    New = 1,
    Changed = 2,
    /// The receiver's file system treats the name as that of another entry.
    Clash = 3,
}

impl TryFrom<u8> for State {
    type Error = ProtocolError;

    fn try_from(byte: u8) -> Result<Self, ProtocolError> {
        let all = [Self::Same, Self::New, Self::Changed, Self::Clash];
        all.into_iter().find(|state| *state as u8 == byte).ok_or(ProtocolError::BadReply)
    }
}

/// Beginning of the BLAKE3 hash of a block. The hash of the whole file detects blocks that are confused with others.
pub(crate) type BlockHash = [u8; 8];

/// State of an entry, with the hashes of the blocks of a small changed file.
pub(crate) type Answer = (State, Arc<[BlockHash]>);

/// Sender's knowledge of an entry at the receiver.
#[derive(Clone, Debug, Default)]
pub(crate) enum Known {
    #[default]
    Nothing,
    /// The receiver does not have the entry.
    New,
    /// The receiver has a different version, whose blocks have these hashes if it is a small file.
    Changed(Arc<[BlockHash]>),
}

/// Appends the block hashes of a small file to an answer, or nothing if the answer would become too long.
pub(crate) fn push_blocks(answer: &mut Vec<u8>, contents: &[u8]) {
    let count = contents.len().div_ceil(BLOCK);
    let fits = answer.len() + count * size_of::<BlockHash>() <= MAX_BLOCKS;
    let (count, contents) = if fits { (count, contents) } else { (0, &[][..]) };
    answer.extend((count as u16).to_be_bytes());
    contents.chunks(BLOCK).for_each(|block| answer.extend(block_hash(block)));
}

pub(crate) fn block_hash(block: &[u8]) -> BlockHash {
    blake3::hash(block).as_bytes().first_chunk().copied().unwrap_or_default()
}

/// Decodes an answer to `count` entries.
pub(crate) fn states(answer: &[u8], count: usize) -> Result<Vec<Answer>, ProtocolError> {
    let (states, mut rest) = answer.split_at_checked(count).ok_or(ProtocolError::BadReply)?;
    let mut blocks = |state| {
        let count = if state == State::Changed { u16::from_be_bytes(take(&mut rest)?) } else { 0 };
        let hashes = rest.split_off(..usize::from(count) * size_of::<BlockHash>())?;
        Some(hashes.as_chunks().0.into())
    };
    let state = |byte: &u8| {
        let state = State::try_from(*byte)?;
        Ok((state, blocks(state).ok_or(ProtocolError::BadReply)?))
    };
    let states = states.iter().map(state).collect();
    if rest.is_empty() { states } else { Err(ProtocolError::BadReply) }
}

/// Collects entries into frames.
#[derive(Default)]
pub(crate) struct Writer {
    frame: Vec<u8>,
    count: usize,
}

impl Writer {
    /// Appends an encoded entry. Returns the frame and the number of its entries when it is full.
    pub(crate) fn push(&mut self, entry: &[u8]) -> Option<(Vec<u8>, usize)> {
        self.frame.extend(entry);
        self.count += 1;
        (!has_room(&self.frame)).then(|| self.take())
    }

    /// Returns the last frame, which may be empty.
    pub(crate) fn take(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.frame), std::mem::take(&mut self.count))
    }
}

/// Takes the first entry from the front of a frame, including the file's hash if the request compares hashes.
pub(crate) fn take_entry(rest: &mut &[u8], request: Request) -> Result<(FileHeader, Option<Hash>), ProtocolError> {
    let first = *rest.split_off_first().ok_or(ProtocolError::EarlyEnd)?;
    let header = protocol::read_header(first, rest).now_or_never().unwrap_or(Err(ProtocolError::EarlyEnd))?;
    let is_hashed = request.checksum && header.kind == Kind::File;
    let hash = is_hashed.then(|| take::<HASH_LEN>(rest).ok_or(ProtocolError::EarlyEnd)).transpose()?;
    Ok((header, hash.map(Hash::from)))
}

/// An entry that only the receiver has.
pub(crate) struct Surplus {
    pub(crate) is_directory: bool,
    pub(crate) stamp: [u8; STAMP_LEN],
    pub(crate) name: Name,
}

impl Surplus {
    pub(crate) fn push(&self, frame: &mut Vec<u8>) {
        frame.push(self.is_directory.into());
        frame.extend(self.stamp);
        push_text(frame, self.name.as_bytes());
    }

    /// Takes the first surplus entry from the front of a frame.
    pub(crate) fn take(rest: &mut &[u8]) -> Option<Self> {
        let [kind] = take(rest)?;
        Some(Self { is_directory: kind != 0, stamp: take(rest)?, name: take_text(rest)?.to_vec().into() })
    }
}

pub(crate) fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::from(u16::from_be_bytes(take(rest)?));
    if len > MAX_PATH { None } else { rest.split_off(..len) }
}

/// Returns whether another entry fits in a frame.
pub(crate) fn has_room(frame: &[u8]) -> bool {
    frame.len() < FULL
}

/// Encodes a frame of at most [`MAX_CHUNK`] bytes.
pub(crate) fn frame(contents: &[u8]) -> io::Result<Vec<u8>> {
    let packed = if contents.is_empty() { Vec::new() } else { zstd::bulk::compress(contents, LEVEL)? };
    let mut bytes = vec![FRAME];
    bytes.extend((packed.len() as u32).to_be_bytes());
    bytes.extend(packed);
    Ok(bytes)
}

pub(crate) async fn write_frame(to: &mut (impl AsyncWrite + Unpin), contents: &[u8]) -> io::Result<()> {
    to.write_all(&frame(contents)?).await
}

/// Reads a frame, after its first byte `first`. Memory is bounded: a longer frame is an error.
pub(crate) async fn read_frame(first: u8, from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, ProtocolError> {
    if first != FRAME {
        return Err(ProtocolError::BadMessage(first));
    }
    let len = from.read_u32().await?;
    if len as usize > MAX_CHUNK {
        return Err(ProtocolError::ChunkTooLong(len));
    }
    let mut packed = vec![0; len as usize];
    from.read_exact(&mut packed).await?;
    if packed.is_empty() {
        return Ok(packed);
    }
    let contents = zstd::bulk::decompress(&packed, MAX_CHUNK).map_err(ProtocolError::BadPacking)?;
    if contents.is_empty() { Err(ProtocolError::BadMessage(FRAME)) } else { Ok(contents) }
}

/// Returns whether a file system that rounds times down has stored `ours` as `theirs`: to 100 ns (NTFS), 1 us, 10 ms
/// (exFAT), 1 s or 2 s (FAT).
pub(crate) fn is_same_time(ours: Timestamp, theirs: Timestamp) -> bool {
    let nanos = |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let (ours, theirs) = (nanos(ours), nanos(theirs));
    [1, 100, 1000, 10_000_000, 1_000_000_000, 2_000_000_000].iter().any(|unit| ours - ours.rem_euclid(*unit) == theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64, nanos: u32) -> Timestamp {
        Timestamp { seconds, nanos }
    }

    #[tokio::test]
    async fn frames_come_back_and_broken_ones_are_errors() {
        let contents = b"entries".repeat(10_000);
        let bytes = frame(&contents).unwrap();
        assert!(bytes.len() < 1000 && read_frame(bytes[0], &mut &bytes[1..]).await.unwrap() == contents);
        assert!(read_frame(bytes[0] + 1, &mut &bytes[1..]).await.is_err());
        for at in 1..bytes.len() {
            assert!(read_frame(FRAME, &mut &bytes[1..at]).await.is_err(), "{at}");
        }
        assert!(read_frame(FRAME, &mut &frame(&[]).unwrap()[1..]).await.unwrap().is_empty());
        let bomb = zstd::bulk::compress(&vec![0; MAX_CHUNK + 1], 1).unwrap();
        let bytes = [&(bomb.len() as u32).to_be_bytes()[..], &bomb].concat();
        assert!(matches!(read_frame(FRAME, &mut &bytes[..]).await, Err(ProtocolError::BadPacking(_))));
        let long = read_frame(FRAME, &mut &u32::MAX.to_be_bytes()[..]).await;
        assert!(matches!(long, Err(ProtocolError::ChunkTooLong(_))));
    }

    /// The longest entry fits in a frame that has room.
    #[test]
    fn full_frames_fit() {
        let mut writer = Writer::default();
        let longest = vec![7; 26 + 2 * (2 + MAX_PATH) + HASH_LEN];
        let mut frames: Vec<_> = (0..100).filter_map(|_| writer.push(&longest)).collect();
        frames.push(writer.take());
        assert!(frames.len() > 3 && frames.iter().all(|(frame, count)| frame.len() == count * longest.len()));
        assert!(frames.iter().all(|(frame, _)| frame.len() <= MAX_CHUNK));
    }

    #[test]
    fn states_come_back_with_blocks() {
        let contents = [vec![1; BLOCK], vec![2; 3]].concat();
        let mut blocks = Vec::new();
        push_blocks(&mut blocks, &contents);
        let bytes = [&[State::Same as u8, State::Changed as u8, State::New as u8][..], &blocks].concat();
        let all = states(&bytes, 3).unwrap();
        let hashes = [block_hash(&contents[..BLOCK]), block_hash(&[2; 3])];
        assert_eq!(all[1], (State::Changed, hashes.into()));
        assert!(all[0].1.is_empty() && all[2] == (State::New, Vec::new().into()));
        assert!((0..bytes.len()).all(|at| states(&bytes[..at], 3).is_err()));
        assert!(states(&[&bytes[..], &[0]].concat(), 3).is_err() && states(&[9], 1).is_err());
        // There are no more than fit in a frame.
        let (large, mut all) = (vec![0; 1 << 20], Vec::new());
        (0..100).for_each(|_| push_blocks(&mut all, &large));
        assert!(all.len() <= MAX_BLOCKS + 200 && all.ends_with(&[0; 2]));
    }

    #[test]
    fn times_are_the_same_as_far_as_the_file_system_stores_them() {
        let ours = time(1_700_000_001, 123_456_789);
        for theirs in [(1_700_000_001, 123_456_789), (1_700_000_001, 123_456_700), (1_700_000_001, 123_456_000)] {
            assert!(is_same_time(ours, time(theirs.0, theirs.1)));
        }
        assert!(is_same_time(ours, time(1_700_000_001, 0)) && is_same_time(ours, time(1_700_000_000, 0)));
        for theirs in [(1_700_000_001, 123_456_788), (1_700_000_002, 0), (1_699_999_999, 0), (1_700_000_000, 1)] {
            assert!(!is_same_time(ours, time(theirs.0, theirs.1)), "{theirs:?}");
        }
        // A file that was changed a moment later is not the same.
        assert!(!is_same_time(time(10, 0), time(10, 100)));
        assert!(is_same_time(time(-1, 500_000_000), time(-2, 0)));
    }
}
