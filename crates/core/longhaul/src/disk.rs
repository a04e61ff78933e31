//! Writes logs and captures to disk on a separate thread, because the tasks that produce them hold the endpoint's lock.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use longhaul_units::{Span, Time};

use crate::sync::Mutex;

/// Data is passed to the thread once this many bytes have been collected.
const CHUNK: usize = 64 << 10;
/// Maximum number of chunks queued for the disk by all files: 16 MiB.
const QUEUE: usize = 256;
/// Maximum wait at the end for queued data to be written, so that a stalled disk does not stall the program.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which collected data is passed to the thread, while there is something to record.
const FLUSH_INTERVAL: Span = Span::from_millis(500);
/// Interval between attempts to use a full queue.
const PAUSE: Duration = Duration::from_millis(10);

/// Data of a log or capture that has not yet been passed to the thread. On drop, the rest is passed to it.
#[derive(Debug)]
pub(crate) struct Output {
    /// The output file; `None` until its name is known.
    file: Option<Arc<DiskFile>>,
    pub(crate) data: Vec<u8>,
    pub(crate) dropped: u64,
    flushed_at: Time,
}

#[derive(Debug)]
struct DiskFile {
    path: PathBuf,
    /// Created with the first data, unless it was already open, and closed when the last reference is dropped, that of
    /// the log or of its last chunk.
    file: Mutex<Option<File>>,
    failed: AtomicBool,
}

impl Output {
    pub(crate) fn new(now: Time) -> Self {
        Self { file: None, data: Vec::new(), dropped: 0, flushed_at: now }
    }

    /// Sets the file, which is created with the first data or already open.
    pub(crate) fn to(&mut self, path: PathBuf, open: Option<File>) {
        self.file = Some(Arc::new(DiskFile { path, file: Mutex::new(open), failed: AtomicBool::new(false) }));
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.has_failed())
    }

    /// Returns whether there is room for a record; if not, counts the record as dropped.
    pub(crate) fn admits(&mut self) -> bool {
        let admits = self.has_room();
        self.dropped += u64::from(!admits);
        admits
    }

    pub(crate) fn has_room(&mut self) -> bool {
        self.data.len() < CHUNK || self.submit()
    }

    pub(crate) fn submit_sometimes(&mut self, now: Time) {
        if now - self.flushed_at >= FLUSH_INTERVAL {
            self.flushed_at = now;
            self.submit();
        }
    }

    /// Passes the data to the thread. Returns `false`, and keeps the data, if the file has no name yet, if the queue is
    /// full, or if there is no thread, which counts as a write failure.
    pub(crate) fn submit(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        if self.data.is_empty() {
            return true;
        }
        let Some(queue) = queue() else {
            file.failed.store(true, Ordering::Relaxed);
            return false;
        };
        match queue.try_send(Message::Write(Arc::clone(file), std::mem::take(&mut self.data))) {
            Ok(()) => true,
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                if let Message::Write(_, refused) = message {
                    self.data = refused;
                }
                false
            }
        }
    }
}

/// Passes the rest to the thread, or, if its queue is full, leaves the rest for the time when the queue is empty.
impl Drop for Output {
    fn drop(&mut self) {
        if !self.submit()
            && let (Some(file), Some(queue)) = (self.file.take(), queue())
        {
            let mut last = LAST.lock();
            if last.len() < QUEUE {
                last.push((file, std::mem::take(&mut self.data)));
            }
            drop(last);
            // If the queue is still full, the thread need not be woken.
            let _ = queue.try_send(Message::Wake);
        }
    }
}

impl DiskFile {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn write(&self, data: &[u8]) {
        if self.has_failed() {
            return;
        }
        if let Err(error) = self.append(data) {
            self.failed.store(true, Ordering::Relaxed);
            tracing::warn!(path = %self.path.display(), %error, "a log or capture could not be written and has stopped");
        }
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock();
        let file = match &mut *file {
            Some(file) => file,
            none => {
                if let Some(directory) = self.path.parent() {
                    std::fs::create_dir_all(directory)?;
                }
                none.insert(File::create(&self.path)?)
            }
        };
        file.write_all(data)
    }
}

enum Message {
    Write(Arc<DiskFile>, Vec<u8>),
    /// Acknowledged when the queue is empty and everything has been written.
    Barrier(SyncSender<()>),
    /// Wakes the thread, because there may be last chunks.
    Wake,
}

/// The last chunks of files that ended while the queue was full. They are written after all queued chunks.
static LAST: Mutex<Vec<(Arc<DiskFile>, Vec<u8>)>> = Mutex::new(Vec::new());

/// Returns the queue of the writing thread, which is started on the first call; `None` if that failed.
fn queue() -> Option<&'static SyncSender<Message>> {
    static QUEUE_IN: OnceLock<Option<SyncSender<Message>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("longhaul-disk".to_owned()).spawn(move || write_all(&receiver));
        match thread {
            Ok(_) => Some(sender),
            Err(error) => {
                tracing::warn!(%error, "the thread that writes logs and captures could not be started");
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
                // The queue is empty: write the last chunks of files, then acknowledge.
                let last = std::mem::take(&mut *LAST.lock());
                last.iter().for_each(|(file, data)| file.write(data));
                for done in barriers.drain(..) {
                    // The waiting thread may have timed out.
                    let _ = done.send(());
                }
                let Ok(message) = queue.recv() else { return };
                message
            }
        };
        match message {
            Message::Write(file, data) => file.write(&data),
            Message::Barrier(done) => barriers.push(done),
            Message::Wake => {}
        }
    }
}

/// Waits, when it is dropped, until the logs and captures of an endpoint are written, because the process may exit next.
#[derive(Debug)]
pub(crate) struct WaitForDisk;

impl Drop for WaitForDisk {
    fn drop(&mut self) {
        wait();
    }
}

/// Waits until all queued data has been written or writing it has failed, but at most [`PATIENCE`].
pub(crate) fn wait() {
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
    // A timeout is ignored, because nothing can be done about a disk that does not respond.
    let _ = wait.recv_timeout(PATIENCE.saturating_sub(PAUSE * pauses));
}
