//! Report in iperf3's text format.

use std::fmt::Write as _;

use super::protocol::{Direction, Protocol};
use super::report::{Report, bits_per_second, pairs, stream_id, sums};
use super::results::{Interval, Results, StreamResult, Sum, UdpSample};
use super::session::Facts;
use super::units::{Scale, rate, size};

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";
const LINE: &str = "-----------------------------------------------------------";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) scale: Scale,
    /// Whether processor use, congestion control and start-up scheme are shown.
    pub(super) details: bool,
}

pub(super) fn listening(port: u16, number: u64) -> String {
    format!("{LINE}\nServer listening on {port} (test #{number})\n{LINE}")
}

pub(super) fn connecting(report: &Report) -> String {
    let (host, port) = &report.peer;
    let connecting = format!("Connecting to host {host}, port {port}");
    match report.params.direction {
        Direction::Reverse => format!("{connecting}\nReverse mode, remote host {host} is sending"),
        _ => connecting,
    }
}

pub(super) fn accepted(report: &Report) -> String {
    format!("Accepted connection from {}, port {}", report.peer.0, report.peer.1)
}

pub(super) fn begin(report: &Report) -> String {
    let mut text = String::new();
    for (number, Facts { addresses: (local, remote), .. }) in report.streams.iter().enumerate() {
        let [local, remote] = [local, remote].map(|address| {
            address.map_or_else(|| "?".to_owned(), |a| format!("{} port {}", a.ip().to_canonical(), a.port()))
        });
        // Writing to a string does not fail, here and below.
        let _ = writeln!(text, "[{:3}] local {local} connected to {remote}", stream_id(number));
    }
    text + &header(report, false)
}

fn header(report: &Report, is_summary: bool) -> String {
    let (params, sends) = (&report.params, report.sends());
    let role = if params.direction == Direction::Both { "[Role]" } else { "" };
    let rest = match (params.protocol, is_summary) {
        (Protocol::Tcp, _) if !sends.contains(&true) && !report.client => "",
        (Protocol::Tcp, false) => "         Retr  Cwnd",
        (Protocol::Tcp, true) => "         Retr",
        (Protocol::Udp, false) if !sends.contains(&false) => "         Total Datagrams",
        (Protocol::Udp, _) => "         Jitter    Lost/Total Datagrams",
    };
    format!("[ ID]{role} Interval           Transfer     Bitrate{rest}")
}

/// Returns a line for the stream `number`, or for the sum of all if there is no number. `sends` states whether this end
/// sends.
fn line(
    (report, scale): (&Report, Scale),
    number: Option<usize>,
    sends: bool,
    (start, end): (f64, f64),
    bytes: u64,
    rest: &str,
) -> String {
    let id = number.map_or_else(|| "SUM".to_owned(), |number| format!("{:3}", stream_id(number)));
    let role = match (report.params.direction, sends, report.client) {
        (Direction::Both, true, true) => "[TX-C]",
        (Direction::Both, false, true) => "[RX-C]",
        (Direction::Both, true, false) => "[TX-S]",
        (Direction::Both, false, false) => "[RX-S]",
        _ => "",
    };
    let rate = rate(bits_per_second(bytes, end - start), scale);
    format!("[{id}]{role} {start:6.2}-{end:<6.2} sec  {}  {rate}{rest}", size(bytes as f64))
}

pub(super) fn interval(report: &Report, interval: &Interval, is_first: bool, style: &Style) -> String {
    let (several, span) = (report.params.streams > 1, (interval.start, interval.end));
    let line = |number, sends, sum: Sum, cwnd: Option<u64>| {
        let tail = if interval.omitted { "(omitted)" } else { "" };
        let rest = match (report.params.protocol, sends, cwnd) {
            (Protocol::Udp, true, _) => format!("  {}  {tail}", sum.udp.unwrap_or_default().packets),
            (Protocol::Udp, false, _) => udp_rest(sum.udp, tail),
            (Protocol::Tcp, true, Some(cwnd)) => {
                format!("  {:3}   {}       {tail}", sum.retransmits.unwrap_or(0), size(cwnd as f64))
            }
            (Protocol::Tcp, ..) => tcp_rest(sends, &sum, tail),
        };
        line((report, style.scale), number, sends, span, sum.bytes, &rest)
    };
    let mut lines: Vec<_> = (!is_first && several).then(|| SEPARATOR.to_owned()).into_iter().collect();
    for (number, stream) in interval.streams.iter().enumerate() {
        let cwnd = stream.tcp.as_ref().map(|tcp| tcp.snd_cwnd);
        lines.push(line(Some(number), stream.sender, Sum::from(stream), cwnd));
    }
    for sends in [true, false] {
        let mut of = interval.streams.iter().filter(|stream| stream.sender == sends).peekable();
        if several && of.peek().is_some() {
            lines.push(line(None, sends, Sum::of(of), None));
        }
    }
    lines.join("\n")
}

pub(super) fn summary(report: &Report, ours: &Results, theirs: &Results, style: &Style) -> String {
    let (params, pairs) = (&report.params, pairs(ours, theirs));
    let mut lines = vec![SEPARATOR.to_owned(), header(report, true)];
    // Lines of the sender and of the receiver; a server prints only its own.
    let mut both = |number: Option<usize>, sends: bool, (sender, receiver): (Sum, Sum)| {
        for (role, sum) in [("sender", sender), ("receiver", receiver)] {
            let is_sender = role == "sender";
            if report.client || sends == is_sender {
                let rest = match params.protocol {
                    Protocol::Tcp => tcp_rest(is_sender, &sum, role),
                    Protocol::Udp => udp_rest(sum.udp, role),
                };
                lines.push(line((report, style.scale), number, sends, (0.0, sum.seconds), sum.bytes, &rest));
            }
        }
    };
    for (number, pair) in pairs.iter().enumerate() {
        both(Some(number), pair.sends, (Sum::of([pair.sender]), Sum::of([pair.receiver])));
    }
    for sends in [true, false] {
        if params.streams > 1 && pairs.iter().any(|pair| pair.sends == sends) {
            both(None, sends, sums(&pairs, sends));
        }
    }
    let senders =
        || pairs.iter().enumerate().filter_map(|(nth, pair)| Some((stream_id(nth), pair.sender.tcp.as_ref()?)));
    if style.details {
        let role = |streams: &[StreamResult]| match streams.first() {
            Some(stream) if stream.sender => "sender",
            _ => "receiver",
        };
        let cpu = |of: &Results| format!("{:.1}% ({:.1}%u/{:.1}%s)", of.cpu.total, of.cpu.user, of.cpu.system);
        let (here, there) = (role(&ours.streams), role(&theirs.streams));
        lines.push(format!("CPU Utilization: local/{here} {}, remote/{there} {}", cpu(ours), cpu(theirs)));
        for (id, tcp) in senders() {
            let [min, p50, p99, max] =
                ["min", "p50", "p99", "max"].map(|name| tcp.rtt.get(name).map_or(0.0, |&us| us as f64 / 1e3));
            let rtt = format!("rtt min/p50/p99/max {min:.3}/{p50:.3}/{p99:.3}/{max:.3} ms");
            let limits = tcp.limited_by.iter().filter(|(_, seconds)| **seconds >= 0.005);
            let limits: String = limits.map(|(name, seconds)| format!(" {name} {seconds:.2} s")).collect();
            lines.push(format!("[{id:3}] {}, {rtt}, limited by{limits}", tcp.congestion));
            lines.extend(tcp.startup_given_up.as_ref().map(|why| format!("[{id:3}] start-up scheme given up: {why}")));
        }
    }
    lines.extend(report.server_output.iter().map(|output| format!("\nServer output:\n{}", output.trim_end())));
    lines.extend(report.client.then(|| "\niperf Done.".to_owned()));
    lines.join("\n")
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
