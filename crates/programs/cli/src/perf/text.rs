//! Report in iperf3's text format.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tokio::sync::watch;

use super::json;
use super::options::Options;
use super::protocol::{Direction, Params, Protocol};
use super::results::{Interval, MAX_SAMPLES, Results, StreamInterval, StreamResult, UdpSample, total};
use super::session::{Event, Start};
use super::units::{Scale, rate, size};
use crate::names::escaped;
use crate::output;

/// Maximum number of bytes of a server's report that are stored for the client.
const WRITTEN: usize = 1 << 20;

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";
const LINE: &str = "-----------------------------------------------------------";

/// Prints events of a test as they happen, or all in JSON at the end.
#[derive(Debug)]
pub struct Reporter {
    json: bool,
    /// Whether JSON is printed event by event.
    stream: bool,
    /// Log file; `None` is standard output.
    file: Option<File>,
    /// Output so far, limited to what a client may request.
    written: RefCell<String>,
    verbose: bool,
    scale: Scale,
    /// Whether this end is the client.
    pub client: bool,
    /// Parameters of the test.
    pub params: Params,
    /// Start of the test.
    pub start: Start,
    /// Intervals so far, for the JSON document at the end.
    pub intervals: Vec<Interval>,
    begun: bool,
    /// The server's report, if requested.
    pub server_output: Option<String>,
    /// Ends the test if the reader of the report has exited.
    pub stop: Option<watch::Sender<bool>>,
    failure: RefCell<Option<io::Error>>,
}

struct Line<'a> {
    id: Option<usize>,
    sends: bool,
    span: (f64, f64),
    bytes: u64,
    rest: &'a str,
}

/// Returns a stream's identifier in reports, where iperf3 prints its socket's number.
#[must_use]
pub fn stream_id(number: usize) -> usize {
    5 + 2 * number
}

/// Returns a rate in bit/s, or 0 for a duration of zero.
#[must_use]
pub fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// Returns the results of the sender and those of the receiver, in this order.
pub fn by_role<'a>(ours: &'a StreamResult, theirs: &'a StreamResult) -> (&'a StreamResult, &'a StreamResult) {
    if ours.sender { (ours, theirs) } else { (theirs, ours) }
}

impl Reporter {
    /// Creates the reporter of a client or a server.
    ///
    /// # Errors
    /// Returns an error if the log file cannot be written.
    pub fn new(options: &Options, client: bool) -> Result<Self> {
        let open = |path: &PathBuf| {
            let file = File::options().append(true).create(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Self {
            json: options.json || options.json_stream,
            stream: options.json_stream,
            file: options.logfile.as_ref().map(open).transpose()?,
            written: RefCell::default(),
            verbose: options.details,
            scale: options.format.unwrap_or_default(),
            client,
            params: options.params().unwrap_or_else(|_| Params::default()),
            start: Start::default(),
            intervals: Vec::new(),
            begun: false,
            server_output: None,
            stop: None,
            failure: RefCell::default(),
        })
    }

    fn say(&self, line: &str) {
        if !self.json {
            self.write(&escaped_lines(line));
        }
    }

    fn write(&self, line: &str) {
        let text = format!("{line}\n");
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
        if !self.client && written.len() + line.len() < WRITTEN {
            written.push_str(line);
            written.push('\n');
        }
    }

    /// Checks that everything was written. That a reader of standard output has exited is not an error.
    pub fn check(&self) -> Result<()> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err).context("cannot write the report")
    }

    /// Returns the output so far.
    #[must_use]
    pub fn written(&self) -> String {
        self.written.borrow().clone()
    }

    /// Reports an event of the test.
    pub fn observe(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(streams) => {
                self.start.streams_are(streams);
                self.begin();
            }
            Event::Interval(interval) => self.interval(interval),
        }
    }

    /// Reports that a server waits for a client.
    pub fn listening(&self, port: u16, number: u64) {
        self.say(&format!("{LINE}\nServer listening on {port} (test #{number})\n{LINE}"));
    }

    /// Reports that a client connects.
    pub fn connecting(&mut self, host: &str, port: u16) {
        self.start.peer = (host.to_owned(), port);
        self.say(&format!("Connecting to host {host}, port {port}"));
        if self.params.direction == Direction::Reverse {
            self.say(&format!("Reverse mode, remote host {host} is sending"));
        }
    }

    /// Reports that a client has connected.
    pub fn accepted(&mut self, peer: SocketAddr) {
        self.start.peer = (peer.ip().to_canonical().to_string(), peer.port());
        self.say(&format!("Accepted connection from {}, port {}", self.start.peer.0, self.start.peer.1));
    }

    fn begin(&mut self) {
        if self.stream {
            self.write(&json::start_event(self));
        }
        for (number, (local, remote)) in self.start.connected.iter().enumerate() {
            let place = |address: &Option<SocketAddr>| {
                address.map_or_else(|| "?".to_owned(), |a| format!("{} port {}", a.ip().to_canonical(), a.port()))
            };
            let id = stream_id(number);
            self.say(&format!("[{id:3}] local {} connected to {}", place(local), place(remote)));
        }
        self.say(&self.header(false));
    }

    fn header(&self, summary: bool) -> String {
        let role = if self.params.direction == Direction::Both { "[Role]" } else { "" };
        let all_receive = !self.sends().contains(&true);
        let rest = match (self.params.protocol, summary) {
            (Protocol::Tcp, _) if all_receive && !self.client => "",
            (Protocol::Tcp, false) => "         Retr  Cwnd",
            (Protocol::Tcp, true) => "         Retr",
            (Protocol::Udp, false) if !self.sends().contains(&false) => "         Total Datagrams",
            (Protocol::Udp, _) => "         Jitter    Lost/Total Datagrams",
        };
        format!("[ ID]{role} Interval           Transfer     Bitrate{rest}")
    }

    /// Returns, for each stream, whether this end sends.
    #[must_use]
    pub fn sends(&self) -> Vec<bool> {
        self.params.client_sends().into_iter().map(|client| client == self.client).collect()
    }

    fn line(&self, line: &Line<'_>) -> String {
        let id = line.id.map_or_else(|| "SUM".to_owned(), |number| format!("{:3}", stream_id(number)));
        let role = match (self.params.direction, line.sends, self.client) {
            (Direction::Both, true, true) => "[TX-C]",
            (Direction::Both, false, true) => "[RX-C]",
            (Direction::Both, true, false) => "[TX-S]",
            (Direction::Both, false, false) => "[RX-S]",
            _ => "",
        };
        let ((start, end), bytes) = (line.span, line.bytes);
        let rate = rate(bits_per_second(bytes, end - start), self.scale);
        format!("[{id}]{role} {start:6.2}-{end:<6.2} sec  {}  {rate}{}", size(bytes as f64), line.rest)
    }

    fn interval(&mut self, interval: &Interval) {
        if self.stream {
            self.write(&json::interval_event(interval, &self.params));
        }
        // Limits memory on a server, where the client determines the number of intervals.
        let room = self.client || self.intervals.len() < MAX_SAMPLES / interval.streams.len().max(1);
        if self.json && !self.stream && room {
            self.intervals.push(interval.clone());
        }
        let several = self.params.streams > 1;
        if std::mem::replace(&mut self.begun, true) && several {
            self.say(SEPARATOR);
        }
        let span = (interval.start, interval.end);
        let tail = if interval.omitted { "(omitted)" } else { "" };
        for (number, stream) in interval.streams.iter().enumerate() {
            let rest = interval_rest(stream, tail);
            self.say(&self.line(&Line {
                id: Some(number),
                sends: stream.sender,
                span,
                bytes: stream.bytes,
                rest: &rest,
            }));
        }
        for sends in [true, false] {
            let of: Vec<_> = interval.streams.iter().filter(|stream| stream.sender == sends).collect();
            if several && !of.is_empty() {
                let bytes = total(of.iter().map(|stream| stream.bytes));
                let retransmits = total(of.iter().filter_map(|stream| Some(stream.tcp.as_ref()?.retransmits)));
                let udp = UdpSample::sum(of.iter().filter_map(|stream| stream.udp));
                let rest = match self.params.protocol {
                    Protocol::Tcp => tcp_rest(sends, retransmits, tail),
                    Protocol::Udp if sends => format!("  {}  {tail}", udp.packets),
                    Protocol::Udp => udp_rest(udp, tail),
                };
                self.say(&self.line(&Line { id: None, sends, span, bytes, rest: &rest }));
            }
        }
    }

    /// Reports the end of the test, by a summary, a JSON document, or an error.
    pub fn end(&self, outcome: &Result<(Results, Results)>) {
        if self.stream {
            json::last_events(self, outcome).iter().for_each(|line| self.write(line));
        } else if self.json {
            // After a failure, iperf3's server prints the error and the known part of the report; so does this one.
            self.write(&json::document(self, outcome));
        }
        match outcome {
            Ok((ours, theirs)) if !self.json => self.summary(ours, theirs),
            Ok(_) => {}
            Err(error) if !self.json || !self.client => {
                output::say(&format!("longhaul perf: error - {}", escaped(&format!("{error:#}"))));
            }
            Err(_) => {}
        }
    }

    fn summary(&self, ours: &Results, theirs: &Results) {
        self.say(SEPARATOR);
        self.say(&self.header(true));
        let pairs: Vec<_> = ours.streams.iter().zip(&theirs.streams).collect();
        for (number, (ours, theirs)) in pairs.iter().enumerate() {
            let (sender, receiver) = by_role(ours, theirs);
            self.summary_lines(Some(number), ours.sender, &[sender], &[receiver]);
        }
        for sends in [true, false] {
            let of = pairs.iter().filter(|(ours, _)| ours.sender == sends).map(|(ours, theirs)| by_role(ours, theirs));
            let (senders, receivers): (Vec<_>, Vec<_>) = of.unzip();
            if self.params.streams > 1 && !senders.is_empty() {
                self.summary_lines(None, sends, &senders, &receivers);
            }
        }
        for (number, (ours, theirs)) in pairs.iter().enumerate() {
            let tcp = by_role(ours, theirs).0.tcp.as_ref();
            if let Some((tcp, why)) = tcp.and_then(|tcp| Some((tcp, tcp.startup_given_up.as_ref()?))) {
                let id = stream_id(number);
                self.say(&format!("[{id:3}] {}: the start-up scheme was given up: {why}", tcp.congestion));
            }
        }
        if self.verbose {
            self.details(ours, theirs);
        }
        if let Some(output) = &self.server_output {
            self.say(&format!("\nServer output:\n{}", output.trim_end()));
        }
        if self.client {
            self.say("\niperf Done.");
        }
    }

    /// Prints the lines of sender and receiver; a server prints only its own.
    fn summary_lines(&self, id: Option<usize>, sends: bool, senders: &[&StreamResult], receivers: &[&StreamResult]) {
        for (role, of) in [("sender", senders), ("receiver", receivers)] {
            let sending = role == "sender";
            if !self.client && sends != sending {
                continue;
            }
            let bytes = total(of.iter().map(|stream| stream.bytes));
            let seconds = of.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
            let retransmits = total(of.iter().filter_map(|stream| Some(stream.tcp.as_ref()?.retransmits)));
            let udp = UdpSample::sum(of.iter().filter_map(|stream| stream.udp));
            let rest = match self.params.protocol {
                Protocol::Tcp => tcp_rest(sending, retransmits, role),
                Protocol::Udp => udp_rest(udp, role),
            };
            self.say(&self.line(&Line { id, sends, span: (0.0, seconds), bytes, rest: &rest }));
        }
    }

    fn details(&self, ours: &Results, theirs: &Results) {
        let role = |sends: &[StreamResult]| match sends.first() {
            Some(stream) if stream.sender => "sender",
            _ => "receiver",
        };
        let cpu = |of: &Results| format!("{:.1}% ({:.1}%u/{:.1}%s)", of.cpu.total, of.cpu.user, of.cpu.system);
        let (here, there) = (role(&ours.streams), role(&theirs.streams));
        self.say(&format!("CPU Utilization: local/{here} {}, remote/{there} {}", cpu(ours), cpu(theirs)));
        for (number, (ours, theirs)) in ours.streams.iter().zip(&theirs.streams).enumerate() {
            let Some(tcp) = &by_role(ours, theirs).0.tcp else { continue };
            let at = |name| tcp.rtt.get(name).map_or(0.0, |&us| us as f64 / 1e3);
            let mut text = format!("[{:3}] {}, ", stream_id(number), tcp.congestion);
            let (min, p50, p99, max) = (at("min"), at("p50"), at("p99"), at("max"));
            let _ = write!(text, "rtt min/p50/p99/max {min:.3}/{p50:.3}/{p99:.3}/{max:.3} ms, limited by");
            for (name, seconds) in tcp.limited_by.iter().filter(|(_, seconds)| **seconds >= 0.005) {
                let _ = write!(text, " {name} {seconds:.2} s");
            }
            self.say(&text);
        }
    }
}

/// Escapes a text for a terminal, except for line ends. Part of it may come from the other end, which must not be able
/// to control the terminal.
fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

fn interval_rest(stream: &StreamInterval, tail: &str) -> String {
    match (&stream.tcp, stream.udp, stream.sender) {
        (_, Some(udp), true) => format!("  {}  {tail}", udp.packets),
        (_, Some(udp), false) => udp_rest(udp, tail),
        (Some(tcp), None, true) => {
            format!("  {:3}   {}       {tail}", tcp.retransmits, size(tcp.snd_cwnd as f64))
        }
        _ => tcp_rest(false, 0, tail),
    }
}

fn tcp_rest(sender: bool, retransmits: u64, tail: &str) -> String {
    if sender { format!("  {retransmits:3}             {tail}") } else { format!("                  {tail}") }
}

fn udp_rest(udp: UdpSample, tail: &str) -> String {
    let percent = udp.lost_percent();
    let percent = match percent.abs() {
        _ if udp.lost == 0 => "0".to_owned(),
        p if p < 0.095 => format!("{percent:.3}"),
        p if p < 0.95 => format!("{percent:.2}"),
        p if p < 9.5 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    };
    format!("  {:5.3} ms  {}/{} ({percent}%)  {tail}", udp.jitter_ms, udp.lost, udp.packets)
}
