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
use super::results::{Interval, MAX_SAMPLES, Results, StreamResult, Sum, UdpSample};
use super::session::{Facts, Start};
use super::units::{Scale, rate, size};
use crate::names::escaped;
use crate::output;

/// Maximum number of bytes of a server's report that are stored for the client.
const WRITTEN: usize = 1 << 20;

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";
const LINE: &str = "-----------------------------------------------------------";

/// Prints events of a test as they happen, or all in JSON at the end.
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
    pub(crate) client: bool,
    pub params: Params,
    pub(crate) start: Start,
    /// Intervals so far, for the JSON document at the end.
    pub(crate) intervals: Vec<Interval>,
    begun: bool,
    /// The server's report, if requested.
    pub(crate) server_output: Option<String>,
    /// Ends the test if the reader of the report has exited.
    pub(crate) stop: Option<watch::Sender<bool>>,
    failure: RefCell<Option<io::Error>>,
}

/// Returns a stream's identifier in reports, where iperf3 prints its socket's number.
pub(super) fn stream_id(number: usize) -> usize {
    5 + 2 * number
}

/// Returns a rate in bit/s, or 0 if the duration is too short for a finite one.
pub(super) fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    let rate = bytes as f64 * 8.0 / seconds;
    if seconds > 0.0 && rate.is_finite() { rate } else { 0.0 }
}

/// Returns the results of the sender and those of the receiver, in this order.
pub(super) fn by_role<'a>(ours: &'a StreamResult, theirs: &'a StreamResult) -> (&'a StreamResult, &'a StreamResult) {
    if ours.sender { (ours, theirs) } else { (theirs, ours) }
}

impl Reporter {
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
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err).context("cannot write the report")
    }

    pub(super) fn written(&self) -> String {
        self.written.borrow().clone()
    }

    pub(super) fn listening(&self, port: u16, number: u64) {
        self.say(&format!("{LINE}\nServer listening on {port} (test #{number})\n{LINE}"));
    }

    pub(super) fn connecting(&mut self, host: &str, port: u16) {
        self.start.peer = (host.to_owned(), port);
        self.say(&format!("Connecting to host {host}, port {port}"));
        if self.params.direction == Direction::Reverse {
            self.say(&format!("Reverse mode, remote host {host} is sending"));
        }
    }

    pub(super) fn accepted(&mut self, peer: SocketAddr) {
        self.start.peer = (peer.ip().to_canonical().to_string(), peer.port());
        self.say(&format!("Accepted connection from {}, port {}", self.start.peer.0, self.start.peer.1));
    }

    /// Reports that all streams are ready.
    pub(super) fn begin(&mut self, streams: Vec<Facts>) {
        self.start.streams = streams;
        if self.stream {
            self.write(&json::start_event(self));
        }
        for (number, Facts { addresses: (local, remote), .. }) in self.start.streams.iter().enumerate() {
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
    pub(super) fn sends(&self) -> Vec<bool> {
        self.params.client_sends().into_iter().map(|client| client == self.client).collect()
    }

    /// Prints a line for the stream `number`, or for the sum of all if there is no number. `sends` is whether this end
    /// sends.
    fn line(&self, number: Option<usize>, sends: bool, (start, end): (f64, f64), bytes: u64, rest: &str) {
        let id = number.map_or_else(|| "SUM".to_owned(), |number| format!("{:3}", stream_id(number)));
        let role = match (self.params.direction, sends, self.client) {
            (Direction::Both, true, true) => "[TX-C]",
            (Direction::Both, false, true) => "[RX-C]",
            (Direction::Both, true, false) => "[TX-S]",
            (Direction::Both, false, false) => "[RX-S]",
            _ => "",
        };
        let rate = rate(bits_per_second(bytes, end - start), self.scale);
        self.say(&format!("[{id}]{role} {start:6.2}-{end:<6.2} sec  {}  {rate}{rest}", size(bytes as f64)));
    }

    /// Reports an interval.
    pub fn interval(&mut self, interval: &Interval) {
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
            let cwnd = stream.tcp.as_ref().map(|tcp| tcp.snd_cwnd);
            let rest = self.rest(&Sum::from(stream), stream.sender, cwnd, tail);
            self.line(Some(number), stream.sender, span, stream.bytes, &rest);
        }
        for sends in [true, false] {
            let of: Vec<_> = interval.streams.iter().filter(|stream| stream.sender == sends).collect();
            if several && !of.is_empty() {
                let sum = Sum::of(of);
                self.line(None, sends, span, sum.bytes, &self.rest(&sum, sends, None, tail));
            }
        }
    }

    /// Returns the end of an interval's line.
    fn rest(&self, sum: &Sum, sends: bool, cwnd: Option<u64>, tail: &str) -> String {
        match (self.params.protocol, sends, cwnd) {
            (Protocol::Udp, true, _) => format!("  {}  {tail}", sum.udp.unwrap_or_default().packets),
            (Protocol::Udp, false, _) => udp_rest(sum.udp, tail),
            (Protocol::Tcp, true, Some(cwnd)) => {
                format!("  {:3}   {}       {tail}", sum.retransmits.unwrap_or(0), size(cwnd as f64))
            }
            (Protocol::Tcp, ..) => tcp_rest(sends, sum, tail),
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
            let sum = Sum::of(of.iter().copied());
            let rest = match self.params.protocol {
                Protocol::Tcp => tcp_rest(sending, &sum, role),
                Protocol::Udp => udp_rest(sum.udp, role),
            };
            self.line(id, sends, (0.0, sum.seconds), sum.bytes, &rest);
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

fn tcp_rest(sends: bool, sum: &Sum, tail: &str) -> String {
    match sum.retransmits.unwrap_or(0) {
        retransmits if sends => format!("  {retransmits:3}             {tail}"),
        _ => format!("                  {tail}"),
    }
}

fn udp_rest(udp: Option<UdpSample>, tail: &str) -> String {
    let udp = udp.unwrap_or_default();
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
