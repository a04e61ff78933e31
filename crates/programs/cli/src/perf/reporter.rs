//! Writes the report of a test: as text, or as JSON of events or of the whole test.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tokio::sync::watch;

use super::json;
use super::options::Options;
use super::protocol::Params;
use super::report::Report;
use super::results::{Interval, MAX_SAMPLES, Results};
use super::session::Facts;
use super::text::{self, Style};
use crate::names::escaped;
use crate::output;

/// Maximum number of bytes of a server's report that are stored for the client.
const WRITTEN: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text(Style),
    /// One document at the end.
    Json,
    /// An object per event.
    Events,
}

/// Shows the events of a test as they happen, or all at the end.
pub struct Reporter {
    pub report: Report,
    form: Form,
    /// Log file; `None` is standard output.
    file: Option<File>,
    /// Output so far, limited to the size that a client may request.
    written: RefCell<String>,
    has_intervals: bool,
    /// Stops the test if the reader of the report has exited.
    pub(crate) stop: Option<watch::Sender<bool>>,
    failure: RefCell<Option<io::Error>>,
}

impl Reporter {
    pub fn new(options: &Options, client: bool) -> Result<Self> {
        let open = |path: &PathBuf| {
            let file = File::options().append(true).create(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        };
        let params = options.params().unwrap_or_else(|_| Params::default());
        let style = Style { scale: options.format.unwrap_or_default(), details: options.details };
        Ok(Self {
            report: Report { client, params, ..Report::default() },
            form: match (options.json, options.json_stream) {
                (_, true) => Form::Events,
                (true, false) => Form::Json,
                (false, false) => Form::Text(style),
            },
            file: options.logfile.as_ref().map(open).transpose()?,
            written: RefCell::default(),
            has_intervals: false,
            stop: None,
            failure: RefCell::default(),
        })
    }

    /// Writes text. Part of it may originate from the other end, which must not be able to control the terminal.
    fn say(&self, text: impl FnOnce(&Style) -> String) {
        if let Form::Text(style) = &self.form {
            self.write(&text(style).split('\n').map(escaped).collect::<Vec<_>>().join("\n"));
        }
    }

    fn write(&self, text: &str) {
        let text = format!("{text}\n");
        let result = match self.file.as_ref() {
            Some(mut file) => file.write_all(text.as_bytes()),
            None => output::write(&text),
        };
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
            && let Some(stop) = &self.stop
        {
            stop.send_replace(true);
        }
        if let Err(error) = output::unless_unread(result) {
            self.failure.borrow_mut().get_or_insert(error);
        }
        let mut written = self.written.borrow_mut();
        if !self.report.client && written.len() + text.len() <= WRITTEN {
            written.push_str(&text);
        }
    }

    /// Checks that everything was written. It is not an error if the reader of standard output has exited.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err).context("cannot write the report")
    }

    pub(super) fn written(&self) -> String {
        self.written.borrow().clone()
    }

    pub(super) fn listening(&self, port: u16, number: u64) {
        self.say(|_| text::listening(port, number));
    }

    pub(super) fn connecting(&mut self, host: &str, port: u16) {
        self.report.peer = (host.to_owned(), port);
        self.say(|_| text::connecting(&self.report));
    }

    pub(super) fn accepted(&mut self, peer: SocketAddr) {
        self.report.peer = (peer.ip().to_canonical().to_string(), peer.port());
        self.say(|_| text::accepted(&self.report));
    }

    /// Reports that all streams are ready.
    pub(super) fn begin(&mut self, streams: Vec<Facts>) {
        self.report.streams = streams;
        if self.form == Form::Events {
            self.write(&json::start_event(&self.report));
        }
        self.say(|_| text::begin(&self.report));
    }

    /// Reports an interval.
    pub fn interval(&mut self, interval: &Interval) {
        let is_first = !std::mem::replace(&mut self.has_intervals, true);
        // Limits memory on a server, where the client determines the number of intervals.
        let room = self.report.client || self.report.intervals.len() < MAX_SAMPLES / interval.streams.len().max(1);
        match self.form {
            Form::Text(_) => self.say(|style| text::interval(&self.report, interval, is_first, style)),
            Form::Events => self.write(&json::interval_event(interval, &self.report.params)),
            Form::Json if room => self.report.intervals.push(interval.clone()),
            Form::Json => {}
        }
    }

    /// Reports the end of the test, by a summary, a JSON document, or an error.
    pub fn end(&self, outcome: &Result<(Results, Results)>) {
        match (self.form, outcome) {
            (Form::Text(_), Ok((ours, theirs))) => self.say(|style| text::summary(&self.report, ours, theirs, style)),
            (Form::Text(_), Err(_)) => {}
            (Form::Events, _) => json::last_events(&self.report, outcome).iter().for_each(|line| self.write(line)),
            // After a failure, iperf3's server prints the error and the known part of the report; so does this one.
            (Form::Json, _) => self.write(&json::document(&self.report, outcome)),
        }
        if let Err(error) = outcome
            && (matches!(self.form, Form::Text(_)) || !self.report.client)
        {
            output::say(&format!("longhaul perf: error - {}", escaped(&format!("{error:#}"))));
        }
    }
}
