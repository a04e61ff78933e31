//! Writes to a file with one blocking call at a time, so that a stalled upload occupies no thread.

use std::future::ready;
use std::io::{self, Write};
use std::pin::Pin;

use blake3::hazmat::ChainingValue;

use crate::files::TempFile;
use crate::groups::GroupHasher;
use crate::sync::completed;

pub(super) enum Sink {
    File(TempFile),
    Stdout,
}

impl Sink {
    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::File(temp) => temp.write_all(data),
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(data)?;
                stdout.flush()
            }
        }
    }

    pub(super) fn discard(self) {
        if let Self::File(temp) = self {
            temp.discard();
        }
    }

    /// Shortens a part to its first `groups` groups, or to nothing if that fails.
    pub(super) fn shorten(self, groups: u64) {
        if let Self::File(mut temp) = self
            && temp.continue_at(groups).is_err()
        {
            temp.discard();
        }
    }

    fn record(&mut self, group: &ChainingValue) -> io::Result<()> {
        match self {
            Self::File(temp) => temp.record(group),
            Self::Stdout => Ok(()),
        }
    }
}

struct Target {
    sink: Sink,
    hasher: GroupHasher,
}

/// A file whose last write is complete, and the buffer of that write.
type Written = io::Result<(Box<Target>, Vec<u8>)>;

/// Writes and hashes a file in the background: one chunk is written while the next one is received.
pub(super) struct Disk {
    written: Pin<Box<dyn Future<Output = Written> + Send>>,
    spare: Vec<u8>,
}

impl Disk {
    /// Creates a writer for `sink`. `hasher` has hashed the present contents of `sink`.
    pub(super) fn new(sink: Sink, hasher: GroupHasher) -> Self {
        let target = Box::new(Target { sink, hasher });
        Self { written: Box::pin(ready(Ok((target, Vec::new())))), spare: Vec::new() }
    }

    pub(super) fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    /// Starts to write `chunk` once the previous one is written.
    pub(super) async fn write(&mut self, chunk: Vec<u8>) -> io::Result<()> {
        let mut target = self.idle().await?;
        let writing = tokio::task::spawn_blocking(move || {
            let Target { sink, hasher } = &mut *target;
            let written = sink.write_all(&chunk);
            // A group is recorded after it has been written.
            match written.and_then(|()| hasher.update(&chunk, |group| sink.record(group))) {
                Ok(()) => Ok((target, chunk)),
                Err(error) => {
                    // Keeping the part would keep the disk full.
                    target.sink.discard();
                    Err(error)
                }
            }
        });
        self.written = Box::pin(completed(writing));
        Ok(())
    }

    /// Waits for the last write; returns the file and the hasher of its contents.
    pub(super) async fn finish(mut self) -> io::Result<(Sink, GroupHasher)> {
        let Target { sink, hasher } = *self.idle().await?;
        Ok((sink, hasher))
    }

    async fn idle(&mut self) -> io::Result<Box<Target>> {
        let failed = ready(Err(io::Error::other("it could not be written before")));
        let (target, spare) = std::mem::replace(&mut self.written, Box::pin(failed)).await?;
        self.spare = spare;
        Ok(target)
    }
}
