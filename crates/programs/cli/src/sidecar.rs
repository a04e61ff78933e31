//! Chaining values of the groups of a file, in a log that outlives the process.
//!
//! A line describes the file. Records are then appended: the chaining value of the next group, or a mark. Each has a
//! check value that is keyed with the line, the name of the file and the position of the record, so that a log ends
//! before a record that is incomplete or belongs to a different file or format version.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;

use blake3::hazmat::ChainingValue;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::HASH_LEN;

/// Beginning of the line. The number is the version of the format.
const MAGIC: &[u8] = b"longhaul-groups 1 ";
/// Context of the key of the checks (BLAKE3 `derive_key`).
const CONTEXT: &str = "longhaul 2026 checks of chaining values";
/// Maximum length of the line in bytes.
const MAX_LINE: u64 = 32 << 10;
const CHECK: usize = 7;
/// Length of a record in bytes: kind, chaining value or mark, check.
const RECORD: usize = 1 + HASH_LEN + CHECK;
const GROUP: u8 = 1;
const MARK: u8 = 2;

/// Identifies the period since the machine was booted, during which written data can be read again even if it has not
/// reached the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Boot(pub(crate) [u8; 16]);

impl Boot {
    /// Returns the boot of this machine. On systems other than Linux, it is unique to this process.
    pub(crate) fn current() -> Self {
        static CURRENT: OnceLock<Boot> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let mut id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            if id.is_empty() {
                id = vec![0; HASH_LEN];
                // Even without randomness, the value differs from that of any other process.
                let _ = getrandom::fill(&mut id);
            }
            Self(blake3::hash(&id).as_bytes().first_chunk().copied().unwrap_or_default())
        })
    }
}

/// The log of a file, open for appending.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    key: [u8; blake3::KEY_LEN],
    records: u64,
    groups: u64,
    /// Number of groups whose data is known to have reached the disk.
    synced: u64,
    boot: Boot,
}

impl Log {
    /// Starts the log of a file that `about` describes, in the empty `file` of this `name`.
    pub(crate) fn create(mut file: File, name: &[u8], about: &impl Serialize, boot: Boot) -> io::Result<Self> {
        let mut line = MAGIC.to_vec();
        serde_json::to_writer(&mut line, about).map_err(io::Error::other)?;
        line.push(b'\n');
        file.write_all(&line)?;
        let mut log = Self { file, key: key(&line, name), records: 0, groups: 0, synced: 0, boot };
        log.mark()?;
        Ok(log)
    }

    /// Opens a log, and returns it with the chaining values of the groups that can be trusted: all of them if `boot`
    /// equals that of the last mark, so that nothing has been lost since, and otherwise those that had reached the
    /// disk.
    pub(crate) fn read(mut file: File, name: &[u8], boot: Boot) -> io::Result<(Self, Vec<ChainingValue>)> {
        file.rewind()?;
        let mut reader = BufReader::new(&file);
        let line = read_line(&mut reader)?;
        let (key, mut values, mut last) = (key(&line, name), Vec::new(), Boot::default());
        let (mut records, mut synced, mut record) = (0, 0, [0; RECORD]);
        while reader.read_exact(&mut record).is_ok() {
            let Some((body, claimed)) = record.split_last_chunk::<CHECK>() else { break };
            let Some((kind, payload)) = body.split_first().filter(|_| check(&key, records, body) == *claimed) else {
                break;
            };
            records += 1;
            match (*kind, payload.first_chunk()) {
                (GROUP, Some(group)) => values.push(*group),
                (_, mark) => {
                    let groups;
                    (last, synced, groups) = mark.map(unmark).unwrap_or_default();
                    values.truncate(usize::try_from(groups).unwrap_or(usize::MAX));
                }
            }
        }
        drop(reader);
        let trusted = if last == boot { u64::MAX } else { synced };
        values.truncate(usize::try_from(trusted).unwrap_or(usize::MAX));
        // The next record follows the last complete one.
        file.set_len(line.len() as u64 + records * RECORD as u64)?;
        file.seek(SeekFrom::End(0))?;
        let groups = values.len() as u64;
        Ok((Self { file, key, records, groups, synced: synced.min(groups), boot }, values))
    }

    pub(crate) fn groups(&self) -> u64 {
        self.groups
    }

    /// Returns the number of groups whose data is known to have reached the disk.
    #[cfg(test)]
    pub(crate) fn synced_groups(&self) -> u64 {
        self.synced
    }

    /// Returns another handle of the file, to sync it.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(crate) fn append(&mut self, group: &ChainingValue) -> io::Result<()> {
        self.write(GROUP, group)?;
        self.groups += 1;
        Ok(())
    }

    /// Removes all but the first `groups` groups.
    pub(crate) fn cut(&mut self, groups: u64) -> io::Result<()> {
        self.groups = self.groups.min(groups);
        self.synced = self.synced.min(groups);
        self.mark()
    }

    /// Records that the data of the first `groups` groups has reached the disk.
    pub(crate) fn synced(&mut self, groups: u64) -> io::Result<()> {
        self.synced = groups.min(self.groups);
        self.mark()
    }

    fn mark(&mut self) -> io::Result<()> {
        let mut payload = [0; HASH_LEN];
        let fields = self.boot.0.into_iter().chain(self.synced.to_le_bytes()).chain(self.groups.to_le_bytes());
        payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        self.write(MARK, &payload)
    }

    fn write(&mut self, kind: u8, payload: &[u8; HASH_LEN]) -> io::Result<()> {
        let mut record = vec![kind];
        record.extend(payload);
        record.extend(check(&self.key, self.records, &record));
        // A single call, so that a killed process leaves a complete record or none.
        self.file.write_all(&record)?;
        self.records += 1;
        Ok(())
    }
}

/// Returns the boot of a mark, the groups that had reached the disk, and the total number of groups.
fn unmark(payload: &[u8; HASH_LEN]) -> (Boot, u64, u64) {
    let (boot, counts) = payload.split_first_chunk().unwrap_or((&[0; 16], &[]));
    let (synced, groups) = counts.split_first_chunk().unwrap_or((&[0; 8], &[]));
    let groups = groups.first_chunk().copied().unwrap_or_default();
    (Boot(*boot), u64::from_le_bytes(*synced), u64::from_le_bytes(groups))
}

/// Reads the description at the beginning of a log.
pub(crate) fn read_about<T: DeserializeOwned>(from: impl Read) -> io::Result<T> {
    let line = read_line(&mut BufReader::new(from))?;
    Ok(serde_json::from_slice(line.get(MAGIC.len()..).unwrap_or_default())?)
}

fn read_line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(MAX_LINE).read_until(b'\n', &mut line)?;
    if line.starts_with(MAGIC) && line.ends_with(b"\n") { Ok(line) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn key(line: &[u8], name: &[u8]) -> [u8; blake3::KEY_LEN] {
    *blake3::Hasher::new_derive_key(CONTEXT).update(line).update(name).finalize().as_bytes()
}

fn check(key: &[u8; blake3::KEY_LEN], place: u64, body: &[u8]) -> [u8; CHECK] {
    let hash = blake3::Hasher::new_keyed(key).update(&place.to_le_bytes()).update(body).finalize();
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
