//! Syncs a part that is being received, so that little of it is lost if the machine fails.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::report::Stopwatch;
use crate::sidecar::Log;
use crate::sync::lock;

/// Time between the end of a sync and the next one. A part that is completed earlier is not synced at all.
const INTERVAL: Duration = Duration::from_secs(5);

/// The log of a part, which is synced on a separate thread if receiving the part takes long.
#[derive(Debug)]
pub(super) struct Synced {
    /// `None` for the thread once this connection has left the part, because another one may then write to it.
    log: Arc<Mutex<Option<Log>>>,
    watch: Stopwatch,
    /// Ends the thread when dropped. `None` before it is started.
    thread: Option<Sender<()>>,
}

impl Synced {
    pub(super) fn new(log: Log) -> Self {
        Self { log: Arc::new(Mutex::new(Some(log))), watch: Stopwatch::start(), thread: None }
    }

    pub(super) fn groups(&self) -> u64 {
        lock(&self.log).as_ref().map_or(0, Log::groups)
    }

    /// Changes the log of `part`.
    pub(super) fn change(&mut self, part: &File, change: impl FnOnce(&mut Log) -> io::Result<()>) -> io::Result<()> {
        if self.thread.is_none() && self.watch.elapsed() >= INTERVAL {
            self.start(part)?;
        }
        lock(&self.log).as_mut().map_or(Ok(()), change)
    }

    /// Starts the thread, which begins with a sync.
    pub(super) fn start(&mut self, part: &File) -> io::Result<()> {
        let (sender, ended) = channel();
        let (part, log) = (part.try_clone()?, Arc::clone(&self.log));
        // Without the thread, or if the disk fails, more data has to be sent again after a machine failure.
        let _ = thread::Builder::new().name("sync".to_owned()).spawn(move || sync_all(&part, &log, &ended));
        self.thread = Some(sender);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn synced_groups(&self) -> u64 {
        lock(&self.log).as_ref().map_or(0, Log::synced_groups)
    }
}

impl Drop for Synced {
    fn drop(&mut self) {
        *lock(&self.log) = None;
    }
}

fn sync_all(part: &File, log: &Mutex<Option<Log>>, ended: &Receiver<()>) -> io::Result<()> {
    let mut synced = 0;
    loop {
        let Some((groups, file)) = lock(log).as_ref().map(|log| (log.groups(), log.handle())) else { return Ok(()) };
        if groups > synced {
            part.sync_data()?;
            // The data must be on the disk before the mark.
            lock(log).as_mut().map_or(Ok(()), |log| log.synced(groups))?;
            file?.sync_data()?;
            synced = groups;
        }
        if ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}
