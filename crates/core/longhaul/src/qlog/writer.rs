//! Collects the records of logs for the thread that writes them.

use longhaul_qlog::{Sink, write_record};
use longhaul_units::Time;
use serde::Serialize;

use super::Place;
use crate::disk::Output;

#[derive(Debug)]
pub(super) struct Records {
    place: Place,
    pub(super) output: Output,
    /// Whether the last records are being appended; they are few and always accepted.
    ends: bool,
    /// Whether another connection uses the file.
    is_taken: bool,
}

impl Sink for Records {
    fn record(&mut self, record: &impl Serialize) -> bool {
        if !self.ends && !self.output.admits() {
            return false;
        }
        let written = write_record(&mut self.output.data, record);
        if let Err(error) = &written {
            tracing::error!(%error, "a qlog record could not be serialised as JSON");
        }
        written.is_ok()
    }

    fn begin(&mut self, file_name: &str, beginning: impl FnOnce(&mut Self)) {
        let early = std::mem::take(&mut self.output.data);
        let Some(path) = self.place.take(file_name) else {
            self.is_taken = true;
            return;
        };
        beginning(self);
        self.output.data.extend_from_slice(&early);
        self.output.to(path, None);
    }

    fn reserve_last(&mut self) {
        self.ends = true;
    }

    fn take_dropped(&mut self) -> Option<u64> {
        let is_told = self.output.dropped > 0 && (self.ends || self.output.has_room());
        is_told.then(|| std::mem::take(&mut self.output.dropped))
    }

    fn is_over(&self) -> bool {
        self.is_taken || self.output.has_failed()
    }
}

impl Records {
    pub(super) fn to(place: Place, now: Time) -> Self {
        Self { place, output: Output::new(now), ends: false, is_taken: false }
    }
}
