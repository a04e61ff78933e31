//! Destinations of records.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

/// Destination of the records of a log.
///
/// The name of a log is known only after the handshake, but the events of the handshake are recorded during it.
pub trait Sink: Sized {
    /// Appends a record. Returns `false` if the record was dropped.
    fn record(&mut self, record: &impl Serialize) -> bool;

    /// Names the log. The records appended by `beginning` must come before all earlier ones. Called once.
    ///
    /// `file_name` has the form `<id>_<client|server>.sqlog`.
    fn begin(&mut self, file_name: &str, beginning: impl FnOnce(&mut Self));

    /// Accepts the next records even if the sink is full, because they are the last ones of the log.
    fn reserve_last(&mut self) {}

    /// If the sink has room again, returns the number of records dropped since the last call.
    fn take_dropped(&mut self) -> Option<u64> {
        None
    }

    /// Returns whether the sink drops all further records.
    fn is_over(&self) -> bool {
        false
    }
}

/// Appends a record of a JSON text sequence (RFC 7464, section 2.2): record separator, JSON text, line feed.
///
/// # Errors
/// Returns an error if `record` cannot be serialized as JSON. Nothing is appended in this case.
pub fn write_record(out: &mut Vec<u8>, record: &impl Serialize) -> io::Result<()> {
    let start = out.len();
    out.push(0x1e);
    if let Err(error) = serde_json::to_writer(&mut *out, record) {
        out.truncate(start);
        return Err(error.into());
    }
    out.push(b'\n');
    Ok(())
}

/// [`Sink`] that writes each record to `W` immediately.
pub struct Sequence<W> {
    /// `None` after [`finish`](Sequence::finish).
    out: Option<W>,
    error: Option<io::Error>,
    has_begun: bool,
    /// All records before [`Sink::begin`] is called; after that, a buffer for one record.
    records: Vec<u8>,
}

impl<W> fmt::Debug for Sequence<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<W: Write> Sequence<W> {
    /// Creates an empty sequence.
    pub fn new(out: W) -> Self {
        Self { out: Some(out), error: None, has_begun: false, records: Vec::new() }
    }

    /// Ends the sequence and returns the output. If [`Sink::begin`] was never called, no record is written.
    ///
    /// # Errors
    /// Returns the first write error, or an error if the sequence has already ended.
    pub fn finish(&mut self) -> io::Result<W> {
        let mut out = self.out.take().ok_or_else(|| io::Error::other("the sequence has already ended"))?;
        match self.error.take() {
            Some(error) => Err(error),
            None => out.flush().map(|()| out),
        }
    }

    /// Calls [`Write::flush`] on the output.
    pub fn flush(&mut self) {
        if let Some(out) = self.out.as_mut().filter(|_| self.error.is_none()) {
            self.error = out.flush().err();
        }
    }

    fn write_out(&mut self) {
        if let Some(out) = self.out.as_mut().filter(|_| self.error.is_none()) {
            self.error = out.write_all(&self.records).err();
        }
        self.records.clear();
    }
}

impl<W: Write> Sink for Sequence<W> {
    fn record(&mut self, record: &impl Serialize) -> bool {
        if self.is_over() {
            return false;
        }
        if let Err(error) = write_record(&mut self.records, record) {
            self.error = Some(error);
            return false;
        }
        if self.has_begun {
            self.write_out();
        }
        !self.is_over()
    }

    fn begin(&mut self, _: &str, beginning: impl FnOnce(&mut Self)) {
        let early = std::mem::take(&mut self.records);
        beginning(self);
        self.records.extend_from_slice(&early);
        self.write_out();
        self.has_begun = true;
    }

    fn is_over(&self) -> bool {
        self.out.is_none() || self.error.is_some()
    }
}
