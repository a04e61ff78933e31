//! Syncs a part that is being received, so that a machine that fails loses little of it.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::report::Stopwatch;
use crate::sidecar::Log;
use crate::sync::lock;

/// Time between the end of a sync and the next one. A part that is complete earlier is not synced at all.
const INTERVAL: Duration = Duration::from_secs(5);

/// The log of a part, which is synced on a thread of its own when the part takes long.
#[derive(Debug)]
pub(super) struct Synced {
    /// `None` for the thread when the part has been left. Then somebody else may write to it.
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

    /// Changes the log, which is that of `part`.
    pub(super) fn change(&mut self, part: &File, change: impl FnOnce(&mut Log) -> io::Result<()>) -> io::Result<()> {
        if self.thread.is_none() && self.watch.elapsed() >= INTERVAL {
            self.start(part)?;
        }
        lock(&self.log).as_mut().map_or(Ok(()), change)
    }

    /// Starts the thread, which syncs at once.
    pub(super) fn start(&mut self, part: &File) -> io::Result<()> {
        let (sender, ended) = channel();
        let (part, log) = (part.try_clone()?, Arc::clone(&self.log));
        // If there is no thread, or the disk fails, more is sent again after a failure of the machine.
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
            // The data has to be on the disk before the mark is.
            lock(log).as_mut().map_or(Ok(()), |log| log.synced(groups))?;
            file?.sync_data()?;
            synced = groups;
        }
        if ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}
