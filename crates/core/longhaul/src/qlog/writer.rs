//! Collects the records of logs for the thread that writes them.

use std::sync::Arc;

use longhaul_qlog::{Sink, write_record};
use serde::Serialize;

use super::Place;
use crate::disk::{CHUNK, DiskFile};

/// The records of a log that have not been passed to the writing thread yet.
#[derive(Debug)]
pub(super) struct Records {
    place: Place,
    /// `None` until the name is known.
    file: Option<Arc<DiskFile>>,
    records: Vec<u8>,
    dropped: u64,
    /// The last records are being appended, which are few and always accepted.
    ends: bool,
    /// Another connection has taken the file.
    is_taken: bool,
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
            self.is_taken = true;
            return;
        };
        beginning(self);
        self.records.extend_from_slice(&early);
        self.file = Some(DiskFile::new(path, None));
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

    /// Returns whether another connection has the file, or writing has failed.
    fn is_over(&self) -> bool {
        self.is_taken || self.file.as_ref().is_some_and(|file| file.has_failed())
    }
}

impl Records {
    pub(super) fn to(place: Place) -> Self {
        Self { place, file: None, records: Vec::new(), dropped: 0, ends: false, is_taken: false }
    }

    fn has_room(&mut self) -> bool {
        self.records.len() < CHUNK || self.ends || self.submit()
    }

    /// Passes the last records to the thread. If its queue is full, it gets them once the queue is empty.
    pub(super) fn submit_last(&mut self) {
        if let Some(file) = self.file.take() {
            file.submit_last(std::mem::take(&mut self.records));
        }
    }

    /// Passes the collected records to the thread. Returns whether it has accepted them.
    pub(super) fn submit(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        self.records.is_empty() || file.submit(&mut self.records)
    }
}
