//! Where records go.

use std::io::{self, Write};

use serde::Serialize;

/// Takes the records of one log.
///
/// A log has its name only once the handshake is over; what passed before is recorded before.
pub trait Sink: Sized {
    /// Takes a record. `false` if there was no room for it.
    fn record(&mut self, record: &impl Serialize) -> bool;

    /// The log has a name: that of its file would be `<id>_<client|server>.sqlog`. What `beginning` records comes before
    /// all that was recorded so far. Called once.
    fn begin(&mut self, file_name: &str, beginning: impl FnOnce(&mut Self));

    /// How many records found no room since this was last asked, if there is room again.
    fn take_dropped(&mut self) -> Option<u64> {
        None
    }

    /// Whether nothing is taken any more.
    fn is_over(&self) -> bool {
        false
    }
}

/// Appends a record of a JSON text sequence (RFC 7464, section 2.2): the separator, the text, a line feed.
///
/// # Errors
/// If `record` cannot be written as JSON. Nothing is appended then.
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

/// A [`Sink`] that writes to `W` at once.
#[derive(Debug)]
pub struct Sequence<W> {
    /// `None` once it was given back.
    out: Option<W>,
    /// The first that writing met.
    error: Option<io::Error>,
    has_begun: bool,
    /// Until it has begun, all records; then room for one.
    records: Vec<u8>,
}

impl<W: Write> Sequence<W> {
    /// A sequence that has no record yet.
    pub fn new(out: W) -> Self {
        Self { out: Some(out), error: None, has_begun: false, records: Vec::new() }
    }

    /// Ends the sequence and gives the output back. What was recorded before it began is not written if it never did.
    ///
    /// # Errors
    /// The first that writing met; also if the output was given back before.
    pub fn finish(&mut self) -> io::Result<W> {
        let mut out = self.out.take().ok_or_else(|| io::Error::other("the sequence has ended before"))?;
        match self.error.take() {
            Some(error) => Err(error),
            None => out.flush().map(|()| out),
        }
    }

    /// Brings what was written on its way, as [`Write::flush`] does.
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
