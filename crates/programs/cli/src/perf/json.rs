//! Report in iperf3's JSON format. Members that iperf3 does not have are under the keys `longhaul`.

mod ordered;

use std::net::SocketAddr;

use anyhow::Result;
use ordered::Object;
use serde::Serialize;
use serde_json::{Value, json};

use super::protocol::{Direction, Params, Protocol};
use super::results::{Interval, Results, StreamInterval, StreamResult, UdpSample, total};
use super::text::{Reporter, bits_per_second, by_role, stream_id};
use super::usage::Cpu;
use crate::report::{WallClock, json_line};

/// Returns the complete report of a test, or the known part of it after an error.
#[must_use]
pub fn document(report: &Reporter, outcome: &Result<(Results, Results)>) -> String {
    let mut document = Object::new();
    let intervals: Vec<_> = report.intervals.iter().map(|interval| interval_object(interval, &report.params)).collect();
    document.put("start", start(report));
    document.put("intervals", intervals);
    match outcome {
        Ok((ours, theirs)) => {
            document.put("end", end(report, ours, theirs));
            if let Some((name, output)) = server_output(report) {
                document.put(name, output);
            }
        }
        Err(error) => {
            document.put("end", Object::new());
            document.put("error", format!("{error:#}"));
        }
    }
    serde_json::to_string_pretty(&document).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

#[derive(Serialize)]
struct Event<'a, T> {
    event: &'a str,
    data: T,
}

fn event(event: &str, data: impl Serialize) -> String {
    json_line(&Event { event, data })
}

pub(super) fn start_event(report: &Reporter) -> String {
    event("start", start(report))
}

pub(super) fn interval_event(interval: &Interval, params: &Params) -> String {
    event("interval", interval_object(interval, params))
}

pub(super) fn last_events(report: &Reporter, outcome: &Result<(Results, Results)>) -> Vec<String> {
    let last = match outcome {
        Ok((ours, theirs)) => event("end", end(report, ours, theirs)),
        Err(error) => event("error", format!("{error:#}")),
    };
    let output = server_output(report).map(|(name, output)| event(name, output));
    std::iter::once(last).chain(output).collect()
}

fn server_output(report: &Reporter) -> Option<(&'static str, Value)> {
    let text = report.server_output.as_ref()?;
    Some(match serde_json::from_str(text) {
        Ok(Value::Object(object)) => ("server_output_json", Value::Object(object)),
        _ => ("server_output_text", text.as_str().into()),
    })
}

fn start(report: &Reporter) -> Object {
    let Reporter { start, params, client, .. } = report;
    let mut object = Object::new();
    let connected = start.connected.iter().enumerate().map(|(number, (local, remote))| {
        let host = |address: &Option<SocketAddr>| address.map(|address| address.ip().to_canonical().to_string());
        let port = |address: &Option<SocketAddr>| address.map(|address| address.port());
        let mut object = Object::new();
        object.put("socket", stream_id(number));
        object.put("local_host", host(local)).put("local_port", port(local));
        object.put("remote_host", host(remote)).put("remote_port", port(remote));
        object
    });
    object.put("connected", connected.collect::<Vec<_>>());
    object.put("version", format!("longhaul perf {}", env!("CARGO_PKG_VERSION")));
    object.put("system_info", system_info());
    let now = WallClock::now();
    object
        .put("timestamp", json!({ "time": now.http_date(), "timesecs": now.seconds(), "timemillisecs": now.millis() }));
    let (host, port) = &start.peer;
    let peer = if *client { "connecting_to" } else { "accepted_connection" };
    object.put(peer, json!({ "host": host, "port": port }));
    object.put("cookie", start.cookie.as_str());
    if params.protocol == Protocol::Tcp {
        object.put("tcp_mss_default", start.mss);
    }
    // iperf3's rate for pacing by the kernel is 0: the transport paces itself.
    object.put("target_bitrate", params.rate).put("fq_rate", 0);
    object.put("sock_bufsize", params.window.unwrap_or(0));
    object.put("sndbuf_actual", start.buffers.0).put("rcvbuf_actual", start.buffers.1);
    object.put("test_start", test_start(params));
    object.put("longhaul", json!({ "congestion": params.congestion, "poisson": params.poisson, "seed": params.seed }));
    object
}

fn test_start(params: &Params) -> Object {
    let mut object = Object::new();
    object.put("protocol", if params.protocol == Protocol::Tcp { "TCP" } else { "UDP" });
    object.put("num_streams", params.streams);
    object.put("blksize", params.length);
    object.put("omit", params.omit);
    let seconds = if params.bytes.is_some() { 0.0 } else { params.seconds };
    // iperf3 writes whole seconds as an integer.
    if seconds.fract() == 0.0 {
        object.put("duration", seconds as u64)
    } else {
        object.put("duration", seconds)
    };
    object.put("bytes", params.bytes.unwrap_or(0)).put("blocks", 0);
    object.put("reverse", u8::from(params.direction == Direction::Reverse));
    object.put("tos", params.tos);
    object.put("target_bitrate", params.rate);
    object.put("bidir", u8::from(params.direction == Direction::Both));
    object.put("fqrate", 0).put("interval", params.interval).put("gso", 0).put("gro", 0);
    object
}

fn system_info() -> String {
    let parts = ["ostype", "hostname", "osrelease", "version"].map(|name| {
        let part = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        part.trim().to_owned()
    });
    let uname = parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ");
    if uname.is_empty() { std::env::consts::OS.to_owned() } else { format!("{uname} {}", std::env::consts::ARCH) }
}

/// Returns an object with the figures at the start of all of iperf3's objects.
fn figures((start, end): (f64, f64), bytes: u64) -> Object {
    let mut object = Object::new();
    let seconds = end - start;
    object.put("start", start).put("end", end).put("seconds", seconds);
    object.put("bytes", bytes).put("bits_per_second", bits_per_second(bytes, seconds));
    object
}

fn put_udp(object: &mut Object, udp: UdpSample) {
    object.put("jitter_ms", udp.jitter_ms).put("lost_packets", udp.lost).put("packets", udp.packets);
    object.put("lost_percent", udp.lost_percent());
}

fn interval_object(interval: &Interval, params: &Params) -> Object {
    let span = (interval.start, interval.end);
    let streams = interval.streams.iter().enumerate().map(|(number, stream)| {
        let mut object = Object::new();
        object.put("socket", stream_id(number)).extend(figures(span, stream.bytes));
        put_interval(&mut object, &[stream]);
        object.put("omitted", interval.omitted).put("sender", stream.sender);
        if let Some(tcp) = &stream.tcp {
            let mut extra = Object::new();
            extra.put("bytes_acked", tcp.bytes_acked).put("in_flight", tcp.in_flight).put("ssthresh", tcp.ssthresh);
            extra.put("pacing_rate", tcp.pacing_rate).put("delivery_rate", tcp.delivery_rate);
            extra.put("phase", tcp.phase.as_str()).put("limited_by", json!(tcp.limited_by));
            object.put("longhaul", extra);
        } else if let Some(udp) = stream.udp {
            object.put("longhaul", json!({ "out_of_order": udp.out_of_order }));
        }
        object
    });
    let mut object = Object::new();
    object.put("streams", streams.collect::<Vec<_>>());
    let first = interval.streams.first().is_some_and(|stream| stream.sender);
    let roles = if params.direction == Direction::Both { vec![first, !first] } else { vec![first] };
    for (name, sends) in ["sum", "sum_bidir_reverse"].into_iter().zip(roles) {
        let of: Vec<_> = interval.streams.iter().filter(|stream| stream.sender == sends).collect();
        let mut sum = figures(span, total(of.iter().map(|stream| stream.bytes)));
        put_interval(&mut sum, &of);
        // Members that cannot be added are left out of a sum.
        sum.retain(|name| !matches!(name, "snd_cwnd" | "snd_wnd" | "rtt" | "rttvar" | "pmtu"));
        sum.put("omitted", interval.omitted).put("sender", sends);
        object.put(name, sum);
    }
    object.put("longhaul", json!({ "cpu_percent": interval.cpu_percent, "rss": interval.rss }));
    object
}

/// Adds iperf3's members for an interval of one or more streams of the same direction.
fn put_interval(object: &mut Object, streams: &[&StreamInterval]) {
    let Some(first) = streams.first() else { return };
    if first.udp.is_some() {
        let udp = UdpSample::sum(streams.iter().filter_map(|stream| stream.udp));
        if first.sender {
            object.put("packets", udp.packets);
        } else {
            put_udp(object, udp);
        }
    } else if let (true, Some(tcp)) = (first.sender, &first.tcp) {
        let retransmits = total(streams.iter().filter_map(|stream| Some(stream.tcp.as_ref()?.retransmits)));
        object.put("retransmits", retransmits);
        object.put("snd_cwnd", tcp.snd_cwnd).put("snd_wnd", tcp.snd_wnd);
        object.put("rtt", tcp.rtt).put("rttvar", tcp.rttvar).put("pmtu", tcp.pmtu);
    }
}

fn end(report: &Reporter, ours: &Results, theirs: &Results) -> Object {
    let params = &report.params;
    let pairs: Vec<_> = ours.streams.iter().zip(&theirs.streams).collect();
    let streams = pairs.iter().enumerate().map(|(number, (ours, theirs))| match params.protocol {
        Protocol::Tcp => tcp_end(number, ours, theirs),
        Protocol::Udp => udp_end(number, ours, theirs),
    });
    let mut object = Object::new();
    object.put("streams", streams.collect::<Vec<_>>());
    let first = ours.streams.first().is_some_and(|stream| stream.sender);
    let roles = if params.direction == Direction::Both { vec![first, !first] } else { vec![first] };
    for (suffix, sends) in ["", "_bidir_reverse"].into_iter().zip(roles) {
        let of = pairs.iter().filter(|(ours, _)| ours.sender == sends).map(|(ours, theirs)| by_role(ours, theirs));
        let (senders, receivers): (Vec<_>, Vec<_>) = of.unzip();
        if params.protocol == Protocol::Udp {
            object.put(&format!("sum{suffix}"), sum(&receivers, sends, false));
        }
        object.put(&format!("sum_sent{suffix}"), sum(&senders, sends, true));
        object.put(&format!("sum_received{suffix}"), sum(&receivers, sends, false));
    }
    let mut cpu = Object::new();
    for (name, Cpu { total, user, system }) in [("host", ours.cpu), ("remote", theirs.cpu)] {
        cpu.put(&format!("{name}_total"), total).put(&format!("{name}_user"), user);
        cpu.put(&format!("{name}_system"), system);
    }
    object.put("cpu_utilization_percent", cpu);
    if let Some((ours, theirs)) = pairs.first() {
        let (sender, receiver) = by_role(ours, theirs);
        for (name, stream) in [("sender_tcp_congestion", sender), ("receiver_tcp_congestion", receiver)] {
            if let Some(tcp) = &stream.tcp {
                object.put(name, tcp.congestion.as_str());
            }
        }
    }
    let mut remote = Object::new();
    let intervals = theirs.intervals.iter().map(|interval| interval_object(interval, params));
    remote.put("intervals", intervals.collect::<Vec<_>>()).put("intervals_left_out", theirs.intervals_left_out);
    let mut extra = Object::new();
    extra.put("remote", remote);
    object.put("longhaul", extra);
    object
}

fn tcp_end(number: usize, ours: &StreamResult, theirs: &StreamResult) -> Object {
    let (sender, receiver) = by_role(ours, theirs);
    let both = [("sender", sender), ("receiver", receiver)].map(|(role, stream)| {
        let mut object = Object::new();
        object.put("socket", stream_id(number)).extend(figures((0.0, stream.seconds), stream.bytes));
        let tcp = stream.tcp.as_ref();
        if let Some(tcp) = tcp.filter(|_| role == "sender") {
            object.put("retransmits", tcp.retransmits);
            object.put("max_snd_cwnd", tcp.max_snd_cwnd).put("max_snd_wnd", tcp.max_snd_wnd);
            object.put("max_rtt", tcp.max_rtt).put("min_rtt", tcp.min_rtt).put("mean_rtt", tcp.mean_rtt);
        }
        object.put("sender", ours.sender);
        let mut extra = Object::new();
        extra.put("first_byte", stream.first_byte).put("last_byte", stream.last_byte);
        if let Some(tcp) = tcp {
            if role == "sender" {
                extra.put("confirmed", stream.confirmed).put("rtt", json!(tcp.rtt));
                extra.put("limited_by", json!(tcp.limited_by));
                extra.put("startup", tcp.startup.clone()).put("startup_given_up", tcp.startup_given_up.clone());
            }
            extra.put("congestion", tcp.congestion.as_str()).put("counters", json!(tcp.counters));
        }
        object.put("longhaul", extra);
        (role, object)
    });
    let mut object = Object::new();
    for (role, figures) in both {
        object.put(role, figures);
    }
    object
}

/// Like iperf3, takes the loss and the jitter from the receiver, and the other figures from the sender.
fn udp_end(number: usize, ours: &StreamResult, theirs: &StreamResult) -> Object {
    let (sender, receiver) = by_role(ours, theirs);
    let udp = receiver.udp.unwrap_or_default();
    let mut figures_object = Object::new();
    figures_object.put("socket", stream_id(number)).extend(figures((0.0, sender.seconds), sender.bytes));
    put_udp(&mut figures_object, udp);
    figures_object.put("out_of_order", udp.out_of_order).put("sender", ours.sender);
    let mut object = Object::new();
    object.put("udp", figures_object);
    object
}

fn sum(streams: &[&StreamResult], sends: bool, at_sender: bool) -> Object {
    let seconds = streams.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
    let mut object = figures((0.0, seconds), total(streams.iter().map(|stream| stream.bytes)));
    if streams.iter().any(|stream| stream.udp.is_some()) {
        put_udp(&mut object, UdpSample::sum(streams.iter().filter_map(|stream| stream.udp)));
    } else if at_sender {
        let retransmits = total(streams.iter().filter_map(|stream| Some(stream.tcp.as_ref()?.retransmits)));
        object.put("retransmits", retransmits);
    }
    object.put("sender", sends);
    object
}

/// JSON has no infinity and no NaN; they become 0.
impl From<f64> for ordered::Node {
    fn from(number: f64) -> Self {
        Self::Value(Value::from(if number.is_finite() { number } else { 0.0 }))
    }
}
