//! Writes to a file with one blocking call at a time, so that a stalled upload occupies no thread.

use std::io::{self, Write};

use blake3::hazmat::ChainingValue;
use tokio::task::JoinHandle;

use crate::files::TempFile;
use crate::groups::GroupHasher;

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
}

impl Sink {
    pub(super) fn discard(self) {
        if let Self::File(temp) = self {
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

type Written = (Box<Target>, Vec<u8>, io::Result<()>);

enum State {
    Idle(Box<Target>),
    Busy(JoinHandle<Written>),
    Failed,
}

/// Writes and hashes a file in the background: one chunk is written while the next one is received.
pub(super) struct Disk {
    state: State,
    spare: Vec<u8>,
}

pub(super) async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

impl Disk {
    /// Creates a writer for `sink`. `hasher` has hashed the present contents of `sink`.
    pub(super) fn new(sink: Sink, hasher: GroupHasher) -> Self {
        Self { state: State::Idle(Box::new(Target { sink, hasher })), spare: Vec::new() }
    }

    pub(super) fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    /// Starts to write `chunk` once the previous one is written.
    pub(super) async fn write(&mut self, chunk: Vec<u8>) -> io::Result<()> {
        let mut target = self.idle().await?;
        self.state = State::Busy(tokio::task::spawn_blocking(move || {
            let Target { sink, hasher } = &mut *target;
            let written = sink.write_all(&chunk);
            // A group is recorded after it has been written.
            let result = written.and_then(|()| hasher.update(&chunk, |group| sink.record(group)));
            (target, chunk, result)
        }));
        Ok(())
    }

    /// Waits for the last write; returns the file and the hasher of its contents.
    pub(super) async fn finish(mut self) -> io::Result<(Sink, GroupHasher)> {
        let Target { sink, hasher } = *self.idle().await?;
        Ok((sink, hasher))
    }

    async fn idle(&mut self) -> io::Result<Box<Target>> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle(target) => Ok(target),
            State::Busy(writing) => {
                let written = writing.await;
                let (target, chunk, result) =
                    written.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                self.spare = chunk;
                match result {
                    Ok(()) => Ok(target),
                    Err(error) => {
                        // A part that is left would keep the disk full.
                        target.sink.discard();
                        Err(error)
                    }
                }
            }
            State::Failed => Err(io::Error::other("it could not be written before")),
        }
    }
}
