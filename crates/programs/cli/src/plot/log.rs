//! Reads event logs of connections, as [`longhaul::TcpSocket::set_qlog_dir`] writes them.

use std::io::{self, BufRead, Read};

use serde::Deserialize;

use super::series::{Buckets, Points};

/// Maximum length of a record in bytes. The record of a segment with all options has 400 bytes.
const MAX_RECORD: u64 = 64 << 10;
/// Maximum time in seconds.
const MAX_TIME: f64 = 1e12;
/// Limits of a sender in the log, with their names in a picture, in the order of the colours.
pub(super) const LIMITS: [(&str, &str); 7] = [
    ("app", "application"),
    ("cwnd", "congestion window"),
    ("pacing", "pacing"),
    ("peer_window", "receiver's window"),
    ("send_buffer", "send buffer"),
    ("cpu", "processor"),
    ("other", "other"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("cannot read the log: {0}")]
    Read(#[from] io::Error),
    #[error("record {number} is not one of an event log of longhaul: {reason}")]
    Record {
        /// Number of the record, from 1.
        number: u64,
        reason: String,
    },
    #[error("the log has no connection of longhaul")]
    Empty,
}

/// A connection over time, read from its event log. Times are in seconds from the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfer {
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) congestion: String,
    pub(super) end: f64,
    /// Payload sent, including retransmissions.
    pub(super) sent: Buckets,
    /// Payload that the peer has acknowledged, by ACK or SACK.
    pub(super) acked: Buckets,
    /// Payload received, including duplicates.
    pub(super) received: Buckets,
    /// Latest RTT in milliseconds.
    pub(super) latest_rtt: Points,
    /// Smoothed RTT in milliseconds.
    pub(super) smoothed_rtt: Points,
    /// Congestion window in bytes; the fields below are also in bytes.
    pub(super) cwnd: Points,
    pub(super) in_flight: Points,
    /// Cumulative bytes marked lost.
    pub(super) lost: Points,
    /// Cumulative bytes retransmitted.
    pub(super) retransmitted: Points,
    /// Seconds during which each of [`LIMITS`] applied.
    pub(super) limited: [Buckets; LIMITS.len()],
    /// Number of events that are missing in the log.
    pub(super) dropped: u64,
    /// Start and name of the current limit.
    limited_since: Option<(f64, String)>,
    has_begun: bool,
}

#[derive(Deserialize)]
struct Event {
    time: f64,
    name: String,
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    local: Option<Address>,
    remote: Option<Address>,
    congestion_control: Option<String>,
    header: Header,
    delivered_bytes: u64,
    latest_rtt: Option<f64>,
    smoothed_rtt: Option<f64>,
    congestion_window: Option<f64>,
    bytes_in_flight: Option<f64>,
    lost_bytes: Option<f64>,
    retransmitted_bytes: Option<f64>,
    limited_by: Option<String>,
    count: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    payload_length: u64,
}

#[derive(Deserialize)]
struct Address {
    ip: String,
    port: u16,
}

impl Address {
    fn text(&self) -> String {
        let Self { ip, port } = self;
        if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
    }
}

impl Transfer {
    /// Reads a log. Ignores unknown records, and an incomplete last record.
    pub(crate) fn read(mut log: impl BufRead) -> Result<Self, LogError> {
        let (mut transfer, mut record) = (Self::default(), Vec::new());
        for number in 1.. {
            record.clear();
            let fault = |reason: String| LogError::Record { number, reason };
            (&mut log).take(MAX_RECORD).read_until(b'\n', &mut record)?;
            match record.last() {
                None => break,
                Some(b'\n') => {}
                Some(_) if record.len() as u64 == MAX_RECORD => return Err(fault("it is too long".to_owned())),
                Some(_) => break,
            }
            // A JSON text sequence (RFC 7464): each record begins with RS.
            let text = record.strip_prefix(b"\x1e").ok_or_else(|| fault("it does not begin with RS".to_owned()))?;
            if number == 1 {
                // The header of the file.
                serde_json::from_slice::<serde::de::IgnoredAny>(text).map_err(|error| fault(error.to_string()))?;
                continue;
            }
            let event: Event = serde_json::from_slice(text).map_err(|error| fault(error.to_string()))?;
            if !(0.0..=MAX_TIME * 1e3).contains(&event.time) {
                return Err(fault("its time is out of range".to_owned()));
            }
            transfer.add(&event);
        }
        if !transfer.has_begun {
            return Err(LogError::Empty);
        }
        transfer.settle_limit(None);
        Ok(transfer.complete())
    }

    /// Gives all buckets the same width and the same end.
    pub(super) fn complete(mut self) -> Self {
        let Self { end, sent, acked, received, limited, .. } = &mut self;
        for buckets in [sent, acked, received].into_iter().chain(limited) {
            buckets.add(*end, 0.0);
        }
        self
    }

    /// Adds `seconds` during which the limit `name` applied between `from` and `to`.
    pub(super) fn limit(&mut self, name: &str, from: f64, to: f64, seconds: f64) {
        let nth = LIMITS.iter().position(|(limit, _)| *limit == name).unwrap_or(LIMITS.len() - 1);
        if let Some(limited) = self.limited.get_mut(nth).filter(|_| seconds > 0.0) {
            limited.spread(from, to, seconds);
        }
    }

    /// Adds the known ones of these values: the latest and the smoothed round-trip time in milliseconds; the congestion
    /// window, the bytes in flight, and the bytes marked lost and retransmitted so far.
    pub(super) fn sample(&mut self, now: f64, millis: [Option<f64>; 2], bytes: [Option<f64>; 4]) {
        let Self { latest_rtt, smoothed_rtt, cwnd, in_flight, lost, retransmitted, .. } = self;
        let series = [latest_rtt, smoothed_rtt, cwnd, in_flight, lost, retransmitted];
        for (points, value) in series.into_iter().zip(millis.into_iter().chain(bytes)) {
            value.inspect(|value| points.push(now, *value));
        }
    }

    fn add(&mut self, event: &Event) {
        // Times never decrease in a log.
        let now = (event.time / 1e3).max(self.end);
        self.end = now;
        let data = &event.data;
        match event.name.as_str() {
            "tcp:connection_started" => {
                let text = |address: &Option<Address>| address.as_ref().map(Address::text).unwrap_or_default();
                (self.local, self.remote) = (text(&data.local), text(&data.remote));
                self.has_begun = true;
            }
            "tcp:parameters_set" => self.congestion = data.congestion_control.clone().unwrap_or_default(),
            "tcp:segment_sent" => self.sent.add(now, data.header.payload_length as f64),
            "tcp:segment_received" => self.received.add(now, data.header.payload_length as f64),
            "tcp:segments_acked" => self.acked.add(now, data.delivered_bytes as f64),
            "tcp:events_dropped" => self.dropped = self.dropped.saturating_add(data.count),
            "tcp:recovery_metrics_updated" => self.measure(now, data),
            _ => {}
        }
    }

    /// Adds metrics. An event contains only those that have changed.
    fn measure(&mut self, now: f64, data: &Data) {
        let bytes = [data.congestion_window, data.bytes_in_flight, data.lost_bytes, data.retransmitted_bytes];
        self.sample(now, [data.latest_rtt, data.smoothed_rtt], bytes);
        if let Some(limit) = &data.limited_by {
            self.settle_limit(Some(limit.clone()));
        }
    }

    /// Adds the duration of the current limit, and replaces the limit.
    fn settle_limit(&mut self, next: Option<String>) {
        let end = self.end;
        if let Some((since, name)) = std::mem::replace(&mut self.limited_since, next.map(|name| (end, name))) {
            self.limit(&name, since, end, end - since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(records: &[&str]) -> String {
        let header = "{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\"}";
        let start = "{\"time\":0.0,\"name\":\"tcp:connection_started\",\"data\":{\"local\":{\"ip\":\"::1\",\"port\":5},\
                     \"remote\":{\"ip\":\"192.0.2.1\",\"port\":7000}}}";
        let all = [&[header, start], records].concat();
        all.iter().map(|record| format!("\x1e{record}\n")).collect()
    }

    #[test]
    fn values_are_those_of_the_events() {
        let metrics = |time: f64, data: &str| {
            format!("{{\"time\":{time},\"name\":\"tcp:recovery_metrics_updated\",\"data\":{{{data}}}}}")
        };
        let events = [
            "{\"time\":0,\"name\":\"tcp:parameters_set\",\"data\":{\"congestion_control\":\"bbr\",\"sack\":true}}".to_owned(),
            metrics(100.0, "\"congestion_window\":14600,\"bytes_in_flight\":0,\"limited_by\":\"app\",\"lost_bytes\":0"),
            "{\"time\":200,\"name\":\"tcp:segment_sent\",\"data\":{\"header\":{\"payload_length\":1000,\"flags\":[\"ack\"]}}}"
                .to_owned(),
            metrics(300.5, "\"latest_rtt\":42.5,\"limited_by\":\"cwnd\""),
            "{\"time\":400,\"name\":\"tcp:segments_acked\",\"data\":{\"acked_bytes\":600,\"delivered_bytes\":900}}".to_owned(),
            "{\"time\":450,\"name\":\"tcp:segment_lost\",\"data\":{\"lost_bytes\":100}}".to_owned(),
            metrics(450.0, "\"lost_bytes\":100,\"limited_by\":\"new\""),
            "{\"time\":500,\"name\":\"tcp:events_dropped\",\"data\":{\"count\":3}}".to_owned(),
            "{\"time\":500,\"name\":\"tcp:unknown\",\"data\":{\"more\":[1]}}".to_owned(),
        ];
        let text = log(&events.iter().map(String::as_str).collect::<Vec<_>>());
        let transfer = Transfer::read(text.as_bytes()).unwrap();
        let Transfer { local, remote, congestion, dropped, .. } = &transfer;
        assert_eq!((local.as_str(), remote.as_str(), congestion.as_str()), ("[::1]:5", "192.0.2.1:7000", "bbr"));
        assert_eq!((transfer.end, *dropped), (0.5, 3));
        assert_eq!((transfer.sent.total(), transfer.acked.total(), transfer.received.total()), (1000.0, 900.0, 0.0));
        assert_eq!(transfer.cwnd.get(), [(0.1, 14600.0)]);
        assert_eq!(transfer.latest_rtt.get(), [(0.3005, 42.5)]);
        assert_eq!(transfer.lost.get(), [(0.1, 0.0), (0.45, 100.0)]);
        let seconds = transfer.limited.each_ref().map(|limited| (limited.total() * 1e4).round() / 1e4);
        assert_eq!(seconds, [0.2005, 0.1495, 0.0, 0.0, 0.0, 0.0, 0.05]);
        // An incomplete record at the end was still being written.
        let cut = Transfer::read(&text.as_bytes()[..text.len() - 5]).unwrap();
        assert_eq!(cut.acked.total(), 900.0);
    }

    #[test]
    fn what_is_no_log_is_refused_with_the_record() {
        let fault = |text: &str| Transfer::read(text.as_bytes()).unwrap_err().to_string();
        let begun = "record 3 is not one of an event log of longhaul: ";
        for (record, reason) in [
            ("{\"time\":-1,\"name\":\"tcp:x\"}", "its time is out of range"),
            ("{\"time\":1e300,\"name\":\"tcp:x\"}", "its time is out of range"),
            ("{\"time\":1}", "missing field `name`"),
            ("[", "EOF"),
        ] {
            let said = fault(&log(&[record]));
            assert!(said.starts_with(begun) && said.contains(reason), "{said}");
        }
        assert!(fault(&log(&[&"x".repeat(1 << 20)])).ends_with("it is too long"));
        assert_eq!(fault(""), "the log has no connection of longhaul");
        assert_eq!(fault("\x1e{}\n"), "the log has no connection of longhaul");
        assert_eq!(fault("PK\n"), "record 1 is not one of an event log of longhaul: it does not begin with RS");
        // Numbers of any size can be drawn.
        let large = "{\"time\":1e14,\"name\":\"tcp:recovery_metrics_updated\",\"data\":{\"congestion_window\":1e308}}";
        assert!(roxmltree::Document::parse(&Transfer::read(log(&[large]).as_bytes()).unwrap().draw()).is_ok());
        assert!(roxmltree::Document::parse(&Transfer::read(log(&[]).as_bytes()).unwrap().draw()).is_ok());
    }
}
