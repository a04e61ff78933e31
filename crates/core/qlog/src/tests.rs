use std::time::Duration;

use longhaul_cc::SendLimit;
use longhaul_tcp::{
    ConnectionError, ConnectionEvent, Ecn, InitialSequence, LossTrigger, Metrics, NegotiatedOptions, Parameters,
    RecoveryState, SegmentRecord, State, TimerKind,
};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{Flags, Header, SackBlock};
use serde_json::{Value, json};

use crate::segment::Segment;
use crate::{Log, Reference, Role, Sequence, Sink, Start};

fn record(header: &Header, header_len: usize, payload_len: usize, ecn: Ecn) -> SegmentRecord<'_> {
    SegmentRecord { header, header_len, payload_len, ecn }
}

#[test]
fn a_segments_fields_are_those_of_the_wire() {
    let mut header = Header { flags: Flags::SYN | Flags::ACK, window: 7, seq: 1, ack: 2, ..Header::default() };
    let value = serde_json::to_value(Segment::new(&record(&header, 12, 3, Ecn::Ce), false)).unwrap();
    let fields = json!({
        "sequence_number": 1, "acknowledgment_number": 2, "flags": ["syn", "ack"], "window": 7,
        "header_length": 20, "payload_length": 3,
    });
    assert_eq!(value, json!({ "header": fields, "ecn": "CE" }));
    header.flags = Flags::RST;
    header.options.sack.push(SackBlock { left: 5, right: 6 });
    let value = serde_json::to_value(Segment::new(&record(&header, 24, 0, Ecn::NotEct), true)).unwrap();
    assert_eq!(value["header"]["acknowledgment_number"], Value::Null, "meaningless without ACK");
    assert_eq!(value["header"]["sack"], json!([[5, 6]]));
    assert_eq!(value["retransmission"], true);
}

/// Checks the format of RFC 7464, section 2.2. Records of the beginning precede those of the handshake.
#[test]
fn records_of_the_beginning_come_first() {
    let mut sequence = Sequence::new(Vec::new());
    assert!(sequence.record(&"early"));
    sequence.begin("", |sequence| assert!(sequence.record(&"begin")));
    assert!(sequence.record(&json!({ "late": 1 })) && !sequence.is_over());
    let text = String::from_utf8(sequence.finish().unwrap()).unwrap();
    assert_eq!(text, "\x1e\"begin\"\n\x1e\"early\"\n\x1e{\"late\":1}\n");
    assert!(sequence.is_over() && !sequence.record(&"too late") && sequence.finish().is_err());
}

/// Writer that accepts a limited number of bytes.
struct Disk(usize);

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let len = bytes.len().min(self.0);
        self.0 -= len;
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sequence_ends_with_the_first_error() {
    let mut sequence = Sequence::new(Disk(20));
    sequence.begin("", |sequence| assert!(sequence.record(&"begin")));
    assert!(sequence.record(&"second"));
    assert!(!sequence.record(&"third") && sequence.is_over());
    assert_eq!(sequence.finish().err().map(|error| error.kind()), Some(std::io::ErrorKind::WriteZero));
}

fn start(reference: Reference) -> Start {
    let [local, remote] = ADDRESSES.map(|address| address.parse().unwrap());
    let (at, epoch) = (Time::ZERO + Span::from_secs(5), Time::ZERO + Span::from_secs(4));
    let vantage_point = "here".to_owned();
    Start { role: Role::Client, local, remote, segments_before: [3, 2], at, epoch, reference, vantage_point }
}

const ADDRESSES: [&str; 2] = ["192.0.2.1:7000", "[2001:db8::2]:7001"];

/// The fields are those of draft-ietf-quic-qlog-main-schema. The date was computed by `date -u -d @951782400`.
#[test]
fn the_header_has_the_epoch() {
    let of = |reference| start(reference).header("id")["trace"]["common_fields"].clone();
    let system = json!({ "clock_type": "system", "epoch": "2000-02-29T00:00:00.000Z" });
    let format = "relative_to_epoch";
    assert_eq!(
        of(Reference::System(Duration::from_secs(951_782_400))),
        json!({ "group_id": "id", "time_format": format, "reference_time": system })
    );
    let monotonic = json!({ "clock_type": "monotonic", "epoch": "unknown" });
    assert_eq!(
        of(Reference::Monotonic),
        json!({ "group_id": "id", "time_format": format, "reference_time": monotonic })
    );
}

/// Sink whose room the test controls.
#[derive(Debug, Default)]
struct Room {
    records: Vec<Value>,
    left: usize,
    dropped: u64,
    ends: bool,
}

impl Sink for Room {
    fn record(&mut self, record: &impl serde::Serialize) -> bool {
        if self.left == 0 && !self.ends {
            self.dropped += 1;
            return false;
        }
        self.left = self.left.saturating_sub(1);
        self.records.push(serde_json::to_value(record).unwrap());
        true
    }

    fn begin(&mut self, _: &str, beginning: impl FnOnce(&mut Self)) {
        let early = std::mem::take(&mut self.records);
        beginning(self);
        self.records.extend(early);
    }

    fn reserve_last(&mut self) {
        self.ends = true;
    }

    fn take_dropped(&mut self) -> Option<u64> {
        (self.dropped > 0 && (self.left > 0 || self.ends)).then(|| std::mem::take(&mut self.dropped))
    }
}

fn parameters() -> Parameters {
    let mut options = NegotiatedOptions::default();
    (options.sack, options.timestamps, options.wscale) = (true, true, true);
    Parameters {
        congestion: "cubic".to_owned(),
        mss: 1000,
        options,
        initial_sequence: InitialSequence { iss: 1, irs: 2 },
    }
}

fn metrics(cwnd: u64) -> Metrics {
    Metrics {
        min_rtt: Some(Span::from_millis(10)),
        srtt: Some(Span::from_millis(20)),
        latest_rtt: Some(Span::from_millis(30)),
        rttvar: Span::from_millis(5),
        rto: Span::from_millis(200),
        backoff: 0,
        cwnd: Bytes(cwnd),
        ssthresh: None,
        in_flight: Bytes(100),
        unacked_segments: 1,
        pacing_rate: None,
        delivery_rate: None,
        peer_window: Bytes(65_535),
        bytes_lost: 0,
        bytes_retransmitted: 0,
        phase: "slow-start",
        recovery: RecoveryState::Open,
        limit: SendLimit::Cwnd,
    }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_secs(5) + Span::from_millis(millis)
}

/// Returns the log of a client whose handshake has just ended.
fn established(left: usize) -> Log<Room> {
    let mut log = Log::new(start(Reference::Monotonic), Room { left, ..Room::default() });
    log.log(at(10), &ConnectionEvent::ParametersSet(parameters()));
    log.log(at(10), &ConnectionEvent::StateChanged { old: Some(State::SynSent), new: State::Established });
    log
}

fn names(log: &mut Log<Room>) -> Vec<String> {
    let records = log.sink_mut().records.iter().skip(1);
    records.map(|record| record["name"].as_str().unwrap().strip_prefix("tcp:").unwrap().to_owned()).collect()
}

#[test]
fn a_log_begins_when_the_handshake_has_ended() {
    let mut log = established(100);
    assert_eq!(names(&mut log), ["connection_started", "parameters_set", "connection_state_updated"]);
    let records = &log.sink_mut().records;
    // The epoch is one second before the start of the log.
    assert_eq!((&records[1]["time"], &records[2]["time"]), (&json!(1000.0), &json!(1010.0)));
    assert_eq!(records[1]["data"]["remote"], json!({ "ip": "2001:db8::2", "port": 7001 }));
    assert_eq!(records[1]["data"]["segments_before"], json!({ "sent": 3, "received": 2 }));
    assert_eq!(records[3]["data"], json!({ "old": "syn-sent", "new": "established" }));
    log.end();
    log.end();
    assert_eq!(log.sink_mut().records.last().unwrap()["data"], json!({ "trigger": "released" }));
    assert_eq!(names(&mut log).len(), 4);
    // A forged SYN must not leave a log.
    let mut server = Log::new(Start { role: Role::Server, ..start(Reference::Monotonic) }, Sequence::new(Vec::new()));
    server.log(at(1), &ConnectionEvent::TimerExpired(TimerKind::Retransmission));
    server.log(at(2), &ConnectionEvent::ParametersSet(parameters()));
    server.log(at(2), &ConnectionEvent::StateChanged { old: Some(State::SynReceived), new: State::Closed });
    server.log(at(2), &ConnectionEvent::Closed(None));
    assert!(server.has_ended() && server.sink_mut().finish().unwrap().is_empty());
}

#[test]
fn only_changed_metrics_are_logged() {
    let mut log = established(100);
    for cwnd in [4000, 4000, 5000] {
        log.log(at(20), &ConnectionEvent::MetricsUpdated(metrics(cwnd)));
    }
    assert_eq!(
        names(&mut log)[3..],
        ["congestion_state_updated", "recovery_metrics_updated", "recovery_metrics_updated"]
    );
    let records = &log.sink_mut().records;
    let full = json!({
        "min_rtt": 10.0, "smoothed_rtt": 20.0, "latest_rtt": 30.0, "rtt_variance": 5.0, "rto": 200.0, "pto_count": 0,
        "congestion_window": 4000, "bytes_in_flight": 100, "packets_in_flight": 1, "peer_window": 65_535,
        "lost_bytes": 0, "retransmitted_bytes": 0, "startup_phase": "slow-start", "limited_by": "cwnd",
    });
    assert_eq!(records[5]["data"], full);
    assert_eq!(records[6]["data"], json!({ "congestion_window": 5000 }));
}

/// After drops, the log tells the number of missing records and all current values. It repeats even values whose
/// records were not dropped, because it does not know which were.
#[test]
fn a_log_catches_up_after_drops() {
    let mut log = established(6);
    log.log(at(20), &ConnectionEvent::MetricsUpdated(metrics(4000)));
    assert_eq!(log.sink_mut().left, 0);
    let lost = ConnectionEvent::SegmentLost { sequence: 7, bytes: 1000, trigger: LossTrigger::TimeThreshold };
    log.log(at(30), &ConnectionEvent::StateChanged { old: Some(State::Established), new: State::FinWait1 });
    log.log(at(30), &lost);
    log.log(at(30), &ConnectionEvent::MetricsUpdated(Metrics { recovery: RecoveryState::Recovery, ..metrics(4000) }));
    log.log(at(31), &ConnectionEvent::MetricsUpdated(Metrics { recovery: RecoveryState::Recovery, ..metrics(3000) }));
    assert_eq!(log.sink_mut().records.len(), 6);
    log.sink_mut().left = 100;
    log.log(at(40), &lost);
    let expected = [
        ("events_dropped", json!({ "count": 5 })),
        ("connection_state_updated", json!({ "old": "established", "new": "fin-wait-1" })),
        ("congestion_state_updated", json!({ "old": "slow-start", "new": "recovery" })),
    ];
    let records = &log.sink_mut().records[6..];
    for (record, (name, data)) in records.iter().zip(expected) {
        assert_eq!((record["name"].as_str(), &record["data"]), (Some(&*format!("tcp:{name}")), &data));
        assert_eq!(record["time"], 1040.0);
    }
    let repeated = &records[3]["data"];
    assert_eq!((&repeated["congestion_window"], &repeated["min_rtt"]), (&json!(3000), &json!(10.0)));
    assert_eq!(records[4]["name"], "tcp:segment_lost");
    assert_eq!(records.len(), 5);
}

/// A sink accepts the last records of a log even if it is full.
#[test]
fn drops_are_counted_at_the_end() {
    let mut log = established(4);
    for _ in 0..3 {
        log.log(at(20), &ConnectionEvent::RecoveryEnded);
    }
    log.log(at(50), &ConnectionEvent::Closed(Some(ConnectionError::Reset)));
    assert_eq!(names(&mut log)[3..], ["events_dropped", "connection_closed"]);
    let records = &log.sink_mut().records;
    assert_eq!(records[4]["data"], json!({ "count": 3 }));
    assert_eq!(records[5]["data"], json!({ "trigger": "connection reset by peer" }));
}
