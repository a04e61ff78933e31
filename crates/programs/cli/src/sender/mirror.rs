//! Comparison with the receiver's entries.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::sync::Arc;

use blake3::hazmat::ChainingValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::producer::{Mark, Producer, Stop};
use super::resume::Rest;
use super::source::Contents;
use super::tree::Latest;
use super::{Plan, SendError, Sender, Source};
use crate::groups::{GROUP, GroupHasher, chaining_value};
use crate::mirror::{self, BLOCK, BlockHash, Request, Surplus, TOO_OLD, Writer};
use crate::names::Name;
use crate::protocol::{self, HASH_LEN, MAX_CHUNK, ProtocolError, Reply};
use crate::transport::Transport;

/// Number of frames that are sent before the receiver has answered the first of them.
const AHEAD: usize = 32;
/// Number of equal groups after which they are reported to the receiver, so that it does not wait for long.
const COPIES: u64 = 64;

/// Entries that only the receiver has.
pub(crate) struct Listed {
    digest: blake3::Hasher,
    pub(crate) files: u64,
    pub(crate) directories: u64,
}

impl<T: Transport> Sender<T> {
    /// Compares the unsettled entries of `plan` with those of the receiver, before anything else is sent. Removes equal
    /// entries from the plan, and returns the number of equal files. If the request includes a list of the entries that
    /// only the receiver has, [`surplus`](Self::surplus) must be called next.
    pub(crate) async fn compare(&mut self, plan: &mut Plan, request: Request) -> Result<u64, SendError> {
        let sources: Vec<_> = plan.rest().iter().map(|(source, _)| Arc::clone(source)).collect();
        let (feed, mut frames) = mpsc::channel(2);
        tokio::task::spawn_blocking(move || list(&sources, request, &feed));
        let mut states = Vec::new();
        let compared = async {
            self.transport.write_all(&std::mem::take(&mut self.greeting)).await?;
            self.transport.write_all(&request.encode()).await?;
            let mut ahead = VecDeque::new();
            while let Some((frame, count)) = frames.recv().await {
                mirror::write_frame(&mut self.transport, &frame).await?;
                ahead.push_back(count);
                if ahead.len() > AHEAD
                    && let Some(count) = ahead.pop_front()
                {
                    self.transport.flush().await?;
                    states.extend(mirror::states(&self.frame().await?, count)?);
                    plan.answered();
                }
            }
            mirror::write_frame(&mut self.transport, &[]).await?;
            self.transport.flush().await?;
            for count in ahead {
                states.extend(mirror::states(&self.frame().await?, count)?);
                plan.answered();
            }
            Ok(())
        };
        compared.await.map_err(failed)?;
        Ok(plan.compared(states))
    }

    /// Reads the list of entries that only the receiver has, and calls `show` for each, directories after their
    /// contents.
    pub(crate) async fn surplus(&mut self, mut show: impl FnMut(&Surplus)) -> Result<Listed, SendError> {
        let mut listed = Listed { digest: blake3::Hasher::new(), files: 0, directories: 0 };
        loop {
            let frame = self.frame().await.map_err(failed)?;
            if frame.is_empty() {
                return Ok(listed);
            }
            listed.digest.update(&frame);
            let mut rest = frame.as_slice();
            while !rest.is_empty() {
                let entry = Surplus::take(&mut rest).ok_or_else(|| failed(ProtocolError::BadReply))?;
                *if entry.is_directory { &mut listed.directories } else { &mut listed.files } += 1;
                show(&entry);
            }
        }
    }

    /// Makes the receiver delete the `listed` entries, or nothing. Returns the number of deleted entries, and the other
    /// entries with the reasons.
    pub(crate) async fn delete(&mut self, listed: Option<&Listed>) -> Result<(u64, Vec<(Name, String)>), SendError> {
        let deleted = async {
            let Some(listed) = listed else {
                self.transport.write_all(&[0]).await?;
                return Ok((0, Vec::new()));
            };
            self.transport.write_all(&[1]).await?;
            self.transport.write_all(listed.digest.finalize().as_bytes()).await?;
            self.transport.flush().await?;
            let frame = self.frame().await?;
            let deleted = protocol::take(&mut &*frame).ok_or(ProtocolError::BadReply)?;
            let mut failures = Vec::new();
            loop {
                let frame = self.frame().await?;
                if frame.is_empty() {
                    return Ok((u64::from_be_bytes(deleted), failures));
                }
                let mut rest = frame.as_slice();
                while !rest.is_empty() {
                    let entry = Surplus::take(&mut rest).ok_or(ProtocolError::BadReply)?;
                    let reason = mirror::take_text(&mut rest).ok_or(ProtocolError::BadReply)?;
                    let reason = crate::names::escaped(&String::from_utf8_lossy(reason));
                    // A receiver that reports more than it has listed must not fill the memory.
                    if failures.len() as u64 >= listed.files.saturating_add(listed.directories) {
                        return Err(ProtocolError::BadReply);
                    }
                    failures.push((entry.name, reason));
                }
            }
        };
        deleted.await.map_err(failed)
    }

    async fn frame(&mut self) -> Result<Vec<u8>, ProtocolError> {
        let first = self.transport.read_u8().await?;
        match mirror::read_frame(first, &mut self.transport).await {
            Err(ProtocolError::BadMessage(_)) => {}
            frame => return frame,
        }
        // A receiver that refuses gives the reason as its reply to the first file.
        let (mut bytes, mut more) = (vec![first], [0; 64]);
        loop {
            match protocol::take_reply(&mut bytes)? {
                Some((_, Reply::Refused(reason))) => return Err(ProtocolError::Refused(reason)),
                Some(_) => return Err(ProtocolError::BadReply),
                None => match self.transport.read(&mut more).await? {
                    0 => return Err(ProtocolError::EarlyEnd),
                    len => bytes.extend(more.get(..len).unwrap_or_default()),
                },
            }
        }
    }
}

fn failed(error: ProtocolError) -> SendError {
    match error {
        ProtocolError::Refused(reason) if reason.contains(TOO_OLD) => {
            SendError::Mirror("the receiver is too old for --mirror; renew longhaul there".to_owned())
        }
        ProtocolError::Refused(reason) => SendError::Mirror(format!("the receiver refused the mirror: {reason}")),
        error => SendError::Connection { name: "the list of files".into(), sent: 0, size: None, error },
    }
}

/// Hands over the frames of the entries of `sources`.
fn list(sources: &[Arc<Source>], request: Request, feed: &mpsc::Sender<(Vec<u8>, usize)>) {
    let (mut writer, mut latest) = (Writer::default(), Latest::default());
    let entry = |source: &Arc<Source>| {
        let mut entry = source.entry()?;
        if request.checksum && source.is_file() {
            // If the file cannot be read, zeros differ from the receiver's hash, and sending it reports the error.
            entry.extend(source.hash(&mut latest).unwrap_or([0; HASH_LEN].into()).as_bytes());
        }
        writer.push(&entry)
    };
    let frames = sources.iter().filter_map(entry);
    for frame in frames {
        // This fails if the connection has failed.
        if feed.blocking_send(frame).is_err() {
            return;
        }
    }
    let last = writer.take();
    if !last.0.is_empty() {
        let _ = feed.blocking_send(last);
    }
}

impl Producer {
    /// Waits for the chaining values of the groups of the receiver's file. Returns `None` if the file need not be sent.
    pub(super) fn groups(&mut self, number: u64) -> Result<Option<Vec<ChainingValue>>, Stop> {
        match self.reply(number)? {
            Reply::Groups(groups) => Ok(Some(groups)),
            _ => {
                self.batch.bytes.push(protocol::ABANDONED);
                Ok(None)
            }
        }
    }

    /// Sends the next group of at most `left` bytes, or reports that it equals `theirs`. Returns its length, and the
    /// number of its bytes that the receiver has.
    pub(super) fn group(
        &mut self,
        contents: &mut Contents,
        left: u64,
        rest: &mut Rest,
        theirs: &ChainingValue,
    ) -> Result<(u64, u64), Stop> {
        let (number, mut group) = (rest.hasher.len() / GROUP, Vec::new());
        contents.take(left.min(GROUP)).read_to_end(&mut group)?;
        let len = group.len() as u64;
        if group.is_empty() {
            return Ok((0, 0));
        }
        rest.record(&group);
        if chaining_value(number, &group) == *theirs {
            self.copy(len);
            if number % COPIES == 0 {
                self.flush()?;
            }
            return Ok((len, len));
        }
        self.chunks(&group)?;
        Ok((len, 0))
    }

    /// Sends a small file of `size` bytes, except for blocks that equal `theirs`. Returns the number of bytes that the
    /// receiver has.
    pub(super) fn blocks(
        &mut self,
        contents: &mut Contents,
        size: u64,
        hasher: &mut GroupHasher,
        theirs: &[BlockHash],
    ) -> Result<u64, Stop> {
        let mut all = Vec::new();
        contents.take(size).read_to_end(&mut all)?;
        hasher.update(&all, |_| io::Result::Ok(()))?;
        let is_same = |(block, theirs): (&[u8], Option<&BlockHash>)| theirs == Some(&mirror::block_hash(block));
        let theirs = theirs.iter().map(Some).chain(std::iter::repeat(None));
        let same: Vec<_> = all.chunks(BLOCK).zip(theirs).map(is_same).collect();
        let (mut rest, mut copied) = (all.as_slice(), 0);
        for run in same.chunk_by(|one, next| one == next) {
            let (now, later) = rest.split_at((run.len() * BLOCK).min(rest.len()));
            if run.first() == Some(&true) {
                now.chunks(GROUP as usize).for_each(|now| self.copy(now.len() as u64));
                copied += now.len() as u64;
            } else {
                self.chunks(now)?;
            }
            rest = later;
        }
        Ok(copied)
    }

    /// Makes the receiver copy the next bytes from its file.
    fn copy(&mut self, len: u64) {
        self.batch.bytes.push(protocol::COPY);
        self.batch.bytes.extend((len as u32).to_be_bytes());
        self.batch.marks.push(Mark::Resumed { bytes: len, repeats: false });
    }

    fn chunks(&mut self, contents: &[u8]) -> io::Result<()> {
        for chunk in contents.chunks(MAX_CHUNK) {
            let start = self.batch.bytes.len();
            self.batch.bytes.extend(protocol::chunk_start(chunk.len() as u32));
            let body = self.batch.bytes.len();
            self.batch.bytes.extend(chunk);
            self.pack(start, body)?;
            self.batch.marks.push(Mark::Contents(chunk.len() as u64));
        }
        Ok(())
    }
}
