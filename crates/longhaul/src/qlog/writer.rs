//! Writes records to disk on a separate thread, because the tasks that produce them hold the endpoint's lock.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use longhaul_qlog::{Sink, write_record};
use serde::Serialize;

use super::Place;

/// Records are passed to the thread once this many bytes have been collected.
const CHUNK: usize = 64 << 10;
/// Maximum number of chunks queued for the disk by all logs together: 16 MiB. When it is reached, records are
/// dropped.
const QUEUE: usize = 256;
/// How long to wait at the end for queued records to be written, so that a hanging disk does not hang the program.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between attempts to use a full queue.
const PAUSE: Duration = Duration::from_millis(10);

/// The records of a log that have not been passed to the writing thread yet.
#[derive(Debug)]
pub(super) struct Records {
    place: Place,
    /// `None` until the name is known.
    file: Option<Arc<LogFile>>,
    records: Vec<u8>,
    dropped: u64,
    /// The last records are being appended, which are few and always accepted.
    ends: bool,
    failed: bool,
}

impl Sink for Records {
    fn record(&mut self, record: &impl Serialize) -> bool {
        if !self.has_room() {
            self.dropped += 1;
            return false;
        }
        let written = write_record(&mut self.records, record);
        if let Err(error) = &written {
            tracing::error!(%error, "a qlog record could not be serialised as JSON");
        }
        written.is_ok()
    }

    fn begin(&mut self, file_name: &str, beginning: impl FnOnce(&mut Self)) {
        let early = std::mem::take(&mut self.records);
        let Some(path) = self.place.take(file_name) else {
            // Another connection has taken the file.
            self.failed = true;
            return;
        };
        beginning(self);
        self.records.extend_from_slice(&early);
        self.file = Some(Arc::new(LogFile { path, file: Mutex::new(None), failed: AtomicBool::new(false) }));
    }

    fn reserve_last(&mut self) {
        self.ends = true;
    }

    fn take_dropped(&mut self) -> Option<u64> {
        if self.dropped == 0 || !self.has_room() {
            return None;
        }
        Some(std::mem::take(&mut self.dropped))
    }

    /// Returns whether writing has failed.
    fn is_over(&self) -> bool {
        self.failed || self.file.as_ref().is_some_and(|file| file.failed.load(Ordering::Relaxed))
    }
}

impl Records {
    pub(super) fn to(place: Place) -> Self {
        Self { place, file: None, records: Vec::new(), dropped: 0, ends: false, failed: false }
    }

    fn has_room(&mut self) -> bool {
        self.records.len() < CHUNK || self.ends || self.submit()
    }

    /// Passes the last records to the thread. If its queue is full, it gets them once the queue is empty.
    pub(super) fn submit_last(&mut self) {
        if self.submit() || self.failed {
            return;
        }
        if let (Some(file), Some(queue)) = (self.file.take(), queue()) {
            let mut last = last_records();
            if last.len() < QUEUE {
                last.push((file, std::mem::take(&mut self.records)));
            }
            drop(last);
            // If the queue is still full, the thread is not idle.
            let _ = queue.try_send(Message::Wake);
        }
    }

    /// Passes the collected records to the thread. Returns whether it has accepted them.
    pub(super) fn submit(&mut self) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| !self.failed) else { return false };
        if self.records.is_empty() {
            return true;
        }
        let Some(queue) = queue() else {
            self.failed = true;
            return false;
        };
        let records = std::mem::take(&mut self.records);
        match queue.try_send(Message::Write(Arc::clone(file), records)) {
            Ok(()) => true,
            Err(TrySendError::Full(Message::Write(_, records))) => {
                self.records = records;
                false
            }
            Err(_) => {
                self.failed = true;
                false
            }
        }
    }
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// Created with the first records, and closed when the last reference is dropped: that of the log or of its last
    /// chunk.
    file: Mutex<Option<File>>,
    failed: AtomicBool,
}

impl LogFile {
    fn write(&self, records: &[u8]) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.append(records) {
            self.failed.store(true, Ordering::Relaxed);
            tracing::warn!(path = %self.path.display(), %error, "the qlog failed and has stopped");
        }
    }

    fn append(&self, records: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *file {
            Some(file) => file,
            none => {
                if let Some(directory) = self.path.parent() {
                    std::fs::create_dir_all(directory)?;
                }
                none.insert(File::create(&self.path)?)
            }
        };
        file.write_all(records)
    }
}

enum Message {
    Write(Arc<LogFile>, Vec<u8>),
    /// Acknowledged when the queue is empty and everything has been written.
    Barrier(SyncSender<()>),
    /// There may be last records.
    Wake,
}

/// The last records of logs that ended while the queue was full. They are written after everything in the queue.
static LAST: Mutex<Vec<(Arc<LogFile>, Vec<u8>)>> = Mutex::new(Vec::new());

fn last_records() -> MutexGuard<'static, Vec<(Arc<LogFile>, Vec<u8>)>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the queue of the writing thread, which is started on the first call; `None` if that failed.
fn queue() -> Option<&'static SyncSender<Message>> {
    static QUEUE_IN: OnceLock<Option<SyncSender<Message>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("longhaul-qlog".to_owned()).spawn(move || write_all(&receiver));
        match thread {
            Ok(_) => Some(sender),
            Err(error) => {
                tracing::warn!(%error, "the thread that writes qlogs could not be started");
                None
            }
        }
    };
    QUEUE_IN.get_or_init(start).as_ref()
}

fn write_all(queue: &Receiver<Message>) {
    let mut barriers: Vec<SyncSender<()>> = Vec::new();
    loop {
        let message = match queue.try_recv() {
            Ok(message) => message,
            Err(_) => {
                // The queue is empty: write the last records of logs, then acknowledge.
                let last = std::mem::take(&mut *last_records());
                last.iter().for_each(|(file, records)| file.write(records));
                for done in barriers.drain(..) {
                    // The waiting thread may have given up.
                    let _ = done.send(());
                }
                let Ok(message) = queue.recv() else { return };
                message
            }
        };
        match message {
            Message::Write(file, records) => file.write(&records),
            Message::Barrier(done) => barriers.push(done),
            Message::Wake => {}
        }
    }
}

/// Waits until all queued records have been written or have failed, for at most [`PATIENCE`].
pub(super) fn wait() {
    let Some(queue) = queue() else { return };
    let (done, wait) = sync_channel(1);
    let mut barrier = Message::Barrier(done);
    let mut pauses = 0;
    while let Err(TrySendError::Full(refused)) = queue.try_send(barrier) {
        if PAUSE * pauses >= PATIENCE {
            return;
        }
        barrier = refused;
        pauses += 1;
        thread::sleep(PAUSE);
    }
    // A timeout is ignored: nothing else can be done for a disk that does not respond.
    let _ = wait.recv_timeout(PATIENCE);
}
