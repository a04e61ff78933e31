//! Report in iperf3's JSON format. Members that iperf3 does not have are under the keys `longhaul`.

#![expect(non_camel_case_types, reason = "type parameters of objects have the names of members")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::protocol::{Direction, Params, Protocol};
use super::report::{Pair, Report, bits_per_second, pairs, stream_id, sums};
use super::results::{Interval, Results, StreamInterval, StreamResult, Sum, UdpSample};
use super::session::Facts;
use crate::report::{json_line, object};

/// Returns the complete report of a test, or the known part of it after an error.
pub(super) fn document(report: &Report, outcome: &Result<(Results, Results)>) -> String {
    let intervals = report.intervals.iter().map(|it| interval(it, &report.params));
    let results = outcome.as_ref().ok();
    let document = object! {
        start: start(report),
        intervals: intervals.collect::<Vec<_>>(),
        end: object! { #[serde(flatten)] results: results.map(|(ours, theirs)| end(report, ours, theirs)) },
        #[serde(flatten)] output: results.and_then(|_| server_output(report)).map(|output| BTreeMap::from([output])),
        #[serde(flatten)] error: outcome.as_ref().err().map(|error| object! { error: format!("{error:#}") }),
    };
    serde_json::to_string_pretty(&document).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

fn event(event: &str, data: impl Serialize) -> String {
    json_line(&object! { event: event, data: data })
}

pub(super) fn start_event(report: &Report) -> String {
    event("start", start(report))
}

pub(super) fn interval_event(it: &Interval, params: &Params) -> String {
    event("interval", interval(it, params))
}

pub(super) fn last_events(report: &Report, outcome: &Result<(Results, Results)>) -> Vec<String> {
    let last = match outcome {
        Ok((ours, theirs)) => event("end", end(report, ours, theirs)),
        Err(error) => event("error", format!("{error:#}")),
    };
    let output = server_output(report).map(|(name, output)| event(name, output));
    std::iter::once(last).chain(output).collect()
}

fn server_output(report: &Report) -> Option<(&'static str, Value)> {
    let text = report.server_output.as_ref()?;
    Some(match serde_json::from_str(text) {
        Ok(Value::Object(object)) => ("server_output_json", Value::Object(object)),
        _ => ("server_output_text", text.as_str().into()),
    })
}

fn start(report: &Report) -> impl Serialize {
    let Report { peer, cookie, streams, params, client, .. } = report;
    let connected = streams.iter().enumerate().map(|(number, Facts { addresses: (local, remote), .. })| {
        let host = |address: &Option<SocketAddr>| address.map(|address| address.ip().to_canonical().to_string());
        let port = |address: &Option<SocketAddr>| address.map(|address| address.port());
        object! {
            socket: stream_id(number),
            local_host: host(local), local_port: port(local),
            remote_host: host(remote), remote_port: port(remote),
        }
    });
    let Facts { mss, buffers: (send, receive), .. } = streams.first().copied().unwrap_or_default();
    let now = milliseconds_since_1970();
    let peer = || object! { host: &peer.0, port: peer.1 };
    object! {
        connected: connected.collect::<Vec<_>>(),
        version: concat!("longhaul perf ", env!("CARGO_PKG_VERSION")),
        system_info: system_info(),
        timestamp: object! {
            time: httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now)),
            timemillisecs: now, timesecs: now / 1000,
        },
        #[serde(flatten)] connecting: client.then(|| object! { connecting_to: peer() }),
        #[serde(flatten)] accepted: (!client).then(|| object! { accepted_connection: peer() }),
        cookie: cookie,
        #[serde(flatten)] mss: (params.protocol == Protocol::Tcp).then(|| object! { tcp_mss_default: mss }),
        // iperf3's rate for pacing by the kernel is 0: the transport paces itself.
        target_bitrate: params.rate, fq_rate: 0,
        sock_bufsize: params.window.unwrap_or(0),
        sndbuf_actual: send, rcvbuf_actual: receive,
        test_start: test_start(params),
        longhaul: object! { congestion: &params.congestion, poisson: params.poisson, seed: params.seed },
    }
}

#[expect(clippy::disallowed_methods, reason = "reports for people say when it was")]
fn milliseconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn test_start(params: &Params) -> impl Serialize {
    let seconds = if params.bytes.is_some() { 0.0 } else { params.seconds };
    object! {
        protocol: if params.protocol == Protocol::Tcp { "TCP" } else { "UDP" },
        num_streams: params.streams,
        blksize: params.length,
        omit: params.omit,
        // iperf3 writes whole seconds as an integer.
        duration: if seconds.fract() == 0.0 { Value::from(seconds as u64) } else { seconds.into() },
        bytes: params.bytes.unwrap_or(0), blocks: 0,
        reverse: u8::from(params.direction == Direction::Reverse),
        tos: params.tos,
        target_bitrate: params.rate,
        bidir: u8::from(params.direction == Direction::Both),
        fqrate: 0, interval: params.interval, gso: 0, gro: 0,
    }
}

fn system_info() -> String {
    let parts = ["ostype", "hostname", "osrelease", "version"].map(|name| {
        let part = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        part.trim().to_owned()
    });
    let uname = parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ");
    if uname.is_empty() { std::env::consts::OS.to_owned() } else { format!("{uname} {}", std::env::consts::ARCH) }
}

/// Returns the figures at the start of all of iperf3's objects.
fn figures((start, end): (f64, f64), bytes: u64) -> impl Serialize {
    let seconds = end - start;
    object! {
        start: start, end: end, seconds: seconds,
        bytes: bytes, bits_per_second: bits_per_second(bytes, seconds),
    }
}

fn datagrams(udp: UdpSample) -> impl Serialize {
    object! {
        jitter_ms: udp.jitter_ms, lost_packets: udp.lost, packets: udp.packets, lost_percent: udp.lost_percent(),
    }
}

/// Returns iperf3's counts for an interval of one or more streams of the same direction.
fn counts(sum: &Sum, sends: bool) -> impl Serialize + use<> {
    let (sent, received) = if sends { (sum.udp, None) } else { (None, sum.udp) };
    object! {
        #[serde(flatten)] received: received.map(datagrams),
        #[serde(flatten)] sent: sent.map(|udp| object! { packets: udp.packets }),
        #[serde(flatten)] tcp: sum.retransmits.filter(|_| sends).map(|count| object! { retransmits: count }),
    }
}

fn interval(interval: &Interval, params: &Params) -> impl Serialize {
    let span = (interval.start, interval.end);
    let sum = |sends: bool| {
        let sum = Sum::of(interval.streams.iter().filter(|stream| stream.sender == sends));
        object! {
            #[serde(flatten)] figures: figures(span, sum.bytes),
            #[serde(flatten)] counts: counts(&sum, sends),
            omitted: interval.omitted, sender: sends,
        }
    };
    let streams = interval.streams.iter().enumerate();
    let first = interval.streams.first().is_some_and(|stream| stream.sender);
    let is_bidirectional = params.direction == Direction::Both;
    object! {
        streams: streams.map(|(number, it)| stream_interval(number, it, span, interval.omitted)).collect::<Vec<_>>(),
        sum: sum(first),
        #[serde(flatten)] reverse: is_bidirectional.then(|| object! { sum_bidir_reverse: sum(!first) }),
        longhaul: object! { cpu_percent: interval.cpu_percent, rss: interval.rss },
    }
}

fn stream_interval(number: usize, stream: &StreamInterval, span: (f64, f64), omitted: bool) -> impl Serialize {
    let sends = stream.sender;
    object! {
        socket: stream_id(number),
        #[serde(flatten)] figures: figures(span, stream.bytes),
        #[serde(flatten)] counts: counts(&Sum::from(stream), sends),
        #[serde(flatten)] state: stream.tcp.as_ref().filter(|_| sends).map(|tcp| object! {
            snd_cwnd: tcp.snd_cwnd, snd_wnd: tcp.snd_wnd, rtt: tcp.rtt, rttvar: tcp.rttvar, pmtu: tcp.pmtu,
        }),
        omitted: omitted, sender: sends,
        #[serde(flatten)] tcp: stream.tcp.as_ref().map(|tcp| object! {
            longhaul: object! {
                bytes_acked: tcp.bytes_acked, in_flight: tcp.in_flight, ssthresh: tcp.ssthresh,
                pacing_rate: tcp.pacing_rate, delivery_rate: tcp.delivery_rate,
                phase: &tcp.phase, limited_by: &tcp.limited_by,
            },
        }),
        #[serde(flatten)] udp: stream.udp.map(|udp| object! {
            longhaul: object! { out_of_order: udp.out_of_order },
        }),
    }
}

fn end<'a>(report: &'a Report, ours: &'a Results, theirs: &'a Results) -> impl Serialize + use<'a> {
    let params = &report.params;
    let (is_udp, is_bidirectional) = (params.protocol == Protocol::Udp, params.direction == Direction::Both);
    let pairs = pairs(ours, theirs);
    let first = ours.streams.first().is_some_and(|stream| stream.sender);
    // The sums of the senders and of the receivers of the streams on which this end sends or receives.
    let sums = |sends: bool| {
        let (sent, received) = sums(&pairs, sends);
        let sum = |sum: &Sum, at_sender| end_sum(sum, sends, at_sender);
        (is_udp.then(|| sum(&received, false)), sum(&sent, true), sum(&received, false))
    };
    let (all, sent, received) = sums(first);
    let reverse = is_bidirectional.then(|| sums(!first)).map(|(all, sent, received)| {
        object! {
            #[serde(flatten)] all: all.map(|all| object! { sum_bidir_reverse: all }),
            sum_sent_bidir_reverse: sent, sum_received_bidir_reverse: received,
        }
    });
    let congestion = |of: fn(&Pair<'a>) -> &'a StreamResult| Some(&of(pairs.first()?).tcp.as_ref()?.congestion);
    let (sender, receiver) = (congestion(|pair| pair.sender), congestion(|pair| pair.receiver));
    object! {
        streams: pairs.iter().enumerate().map(|(n, pair)| stream_end(n, *pair, is_udp)).collect::<Vec<_>>(),
        #[serde(flatten)] all: all.map(|all| object! { sum: all }),
        sum_sent: sent, sum_received: received,
        #[serde(flatten)] reverse: reverse,
        cpu_utilization_percent: object! {
            host_total: ours.cpu.total, host_user: ours.cpu.user, host_system: ours.cpu.system,
            remote_total: theirs.cpu.total, remote_user: theirs.cpu.user, remote_system: theirs.cpu.system,
        },
        #[serde(flatten)] sender: sender.map(|name| object! { sender_tcp_congestion: name }),
        #[serde(flatten)] receiver: receiver.map(|name| object! { receiver_tcp_congestion: name }),
        longhaul: object! {
            remote: object! {
                intervals: theirs.intervals.iter().map(|it| interval(it, params)).collect::<Vec<_>>(),
                intervals_left_out: theirs.intervals_left_out,
            },
        },
    }
}

fn end_sum(sum: &Sum, sends: bool, at_sender: bool) -> impl Serialize + use<> {
    let retransmits = sum.retransmits.unwrap_or(0);
    object! {
        #[serde(flatten)] figures: figures((0.0, sum.seconds), sum.bytes),
        #[serde(flatten)] udp: sum.udp.map(datagrams),
        #[serde(flatten)] tcp: (at_sender && sum.udp.is_none()).then(|| object! { retransmits: retransmits }),
        sender: sends,
    }
}

fn stream_end<'a>(number: usize, pair: Pair<'a>, is_udp: bool) -> impl Serialize + use<'a> {
    let Pair { sends, sender, receiver } = pair;
    let udp = receiver.udp.unwrap_or_default();
    object! {
        // Like iperf3, uses the receiver's loss and jitter, and the sender's other figures.
        #[serde(flatten)] udp: is_udp.then(|| object! {
            udp: object! {
                socket: stream_id(number),
                #[serde(flatten)] figures: figures((0.0, sender.seconds), sender.bytes),
                #[serde(flatten)] datagrams: datagrams(udp),
                out_of_order: udp.out_of_order, sender: sends,
            },
        }),
        #[serde(flatten)] tcp: (!is_udp).then(|| object! {
            sender: tcp_end(number, sender, true, sends),
            receiver: tcp_end(number, receiver, false, sends),
        }),
    }
}

/// Returns the figures of one end of a stream, which is its sender if `at_sender` is true.
fn tcp_end(number: usize, stream: &StreamResult, at_sender: bool, sender: bool) -> impl Serialize {
    let sent = stream.tcp.as_ref().filter(|_| at_sender);
    object! {
        socket: stream_id(number),
        #[serde(flatten)] figures: figures((0.0, stream.seconds), stream.bytes),
        #[serde(flatten)] sent: sent.map(|tcp| object! {
            retransmits: tcp.retransmits, max_snd_cwnd: tcp.max_snd_cwnd, max_snd_wnd: tcp.max_snd_wnd,
            max_rtt: tcp.max_rtt, min_rtt: tcp.min_rtt, mean_rtt: tcp.mean_rtt,
        }),
        sender: sender,
        longhaul: object! {
            first_byte: stream.first_byte, last_byte: stream.last_byte,
            #[serde(flatten)] sent: sent.map(|tcp| object! {
                confirmed: stream.confirmed, rtt: &tcp.rtt, limited_by: &tcp.limited_by,
                startup: &tcp.startup, startup_given_up: &tcp.startup_given_up,
            }),
            #[serde(flatten)] tcp: stream.tcp.as_ref().map(|tcp| object! {
                congestion: &tcp.congestion, counters: &tcp.counters,
            }),
        },
    }
}
