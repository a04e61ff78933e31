use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longhaul_tcp::{Batch, Config, DatagramMeta, Endpoint, EndpointConfig, Tuple};
use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, Header, SackBlock};
use serde_json::{Value, json};

use crate::metrics::limited_by;
use crate::segment::{Segment, Sent};
use crate::{Log, Reference, Role, Sequence, Sink, Start};

#[test]
fn a_segments_fields_are_those_of_the_wire() {
    let mut header = Header { flags: Flags::SYN | Flags::ACK, window: 7, seq: 1, ack: 2, ..Header::default() };
    let value = serde_json::to_value(Segment::new(&header, 12, 3, 3)).unwrap();
    let fields = json!({
        "sequence_number": 1, "acknowledgment_number": 2, "flags": ["syn", "ack"], "window": 7,
        "header_length": 20, "payload_length": 3,
    });
    assert_eq!(value, json!({ "header": fields, "ecn": "CE" }));
    header.flags = Flags::RST;
    header.options.sack.push(SackBlock { left: 5, right: 6 });
    let value = serde_json::to_value(Segment::new(&header, 24, 0, 0).retransmitted(true)).unwrap();
    assert_eq!(value["header"]["acknowledgment_number"], Value::Null, "meaningless without ACK");
    assert_eq!(value["header"]["sack"], json!([[5, 6]]));
    assert_eq!(value["retransmission"], true);
}

#[test]
fn retransmissions_are_detected_across_the_wrap() {
    let mut sent = Sent::default();
    let header = |seq: u32, flags| Header { seq, flags, ..Header::default() };
    assert!(!sent.repeats(&header(u32::MAX - 10, Flags::SYN), 0));
    assert!(sent.repeats(&header(u32::MAX - 10, Flags::SYN), 0));
    assert!(!sent.repeats(&header(u32::MAX - 9, Flags::ACK), 100));
    assert!(!sent.repeats(&header(90, Flags::ACK), 0), "a pure ACK is never a retransmission");
    assert!(sent.repeats(&header(u32::MAX - 9, Flags::ACK), 50));
    assert!(!sent.repeats(&header(u32::MAX - 9, Flags::ACK), 101), "some of it is new");
    assert!(!sent.repeats(&header(91, Flags::FIN | Flags::ACK), 0));
    assert!(sent.repeats(&header(91, Flags::FIN | Flags::ACK), 0));
}

#[test]
fn limited_by_names_the_limit_that_applied_longest() {
    let spans = |millis: [u64; 6]| millis.map(Span::from_millis);
    let before = spans([900, 1, 0, 0, 0, 0]);
    assert_eq!(limited_by(&before, &before), None);
    assert_eq!(limited_by(&spans([902, 4, 0, 0, 0, 0]), &before), Some("cwnd"));
    assert_eq!(limited_by(&spans([902, 1, 0, 0, 0, 1]), &before), Some("app"));
}

/// The format is that of RFC 7464, section 2.2. Records of the beginning precede earlier ones.
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

fn start(reference: Reference, interval: Span) -> Start {
    let [local, remote] = ADDRESSES.map(|address| address.parse().unwrap());
    let (at, epoch) = (Time::ZERO + Span::from_secs(5), Time::ZERO + Span::from_secs(4));
    let vantage_point = "here".to_owned();
    Start { role: Role::Client, local, remote, segments_before: [3, 2], at, epoch, reference, vantage_point, interval }
}

const ADDRESSES: [&str; 2] = ["192.0.2.1:7000", "[2001:db8::2]:7001"];

/// The fields are those of draft-ietf-quic-qlog-main-schema. The date was computed by `date -u -d @951782400`.
#[test]
fn the_header_has_the_epoch() {
    let of = |reference| start(reference, Span::ZERO).header("id")["trace"]["common_fields"].clone();
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

/// Returns the log of a client that sends to a server with a one-way delay of 100 us.
fn log_of_a_transfer(interval: Span) -> Vec<Value> {
    let addresses: [SocketAddr; 2] = ["192.0.2.1:7000", "192.0.2.2:7000"].map(|address| address.parse().unwrap());
    let mut now = Time::ZERO + Span::from_secs(5);
    let mut ends = [1, 2].map(|n| Endpoint::new(EndpointConfig::new([n; 32]), now));
    let config = Arc::new(Config::default());
    ends[1].listen(Arc::clone(&config));
    let tuple = Tuple { remote: addresses[1], local: addresses[0].ip() };
    let id = ends[0].connect(now, tuple, config).unwrap();
    let mut log = Log::new(start(Reference::Monotonic, interval), Sequence::new(Vec::new()));
    let (mut batch, mut accepted, mut written) = (Batch::default(), None, 0);
    for _ in 0..400 {
        for from in 0..2 {
            while let Some(destination) = ends[from].poll_transmit(now, &mut batch, 1) {
                let mut datagram = batch.headers.clone();
                if let (Some(id), Some(segment)) = (destination.connection, batch.segments.first()) {
                    ends[from].payload(id, segment, |part| datagram.extend_from_slice(part));
                }
                match from {
                    0 => log.sent(now, &datagram, datagram.len(), 0),
                    _ => log.received(now, &datagram, datagram.len(), 0),
                }
                let mut meta = DatagramMeta::new(addresses[from], datagram.len());
                meta.tuple = Tuple { remote: addresses[from], local: addresses[1 - from].ip() };
                ends[1 - from].handle_datagram(now, &meta, &datagram, None);
            }
        }
        accepted = accepted.or_else(|| ends[1].accept());
        if let Some(id) = accepted {
            let _ = ends[1].drive(now, id, |connection| connection.read(1 << 20));
        }
        written += ends[0].drive(now, id, |c| c.write(&[7; 1000]).unwrap_or(0)).unwrap();
        assert!(log.sample(now, ends[0].connection(id).unwrap(), now));
        now += Span::from_micros(100);
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
    }
    assert!(written > 100_000, "{written}");
    log.end(now, None);
    let text = String::from_utf8(log.sink_mut().finish().unwrap()).unwrap();
    text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect()
}

#[test]
fn metrics_are_sampled_at_most_once_per_interval() {
    let times = |records: &[Value]| {
        let metrics = records.iter().filter(|record| record["name"] == "tcp:recovery_metrics_updated");
        metrics.map(|record| record["time"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let [all, some] = [Span::ZERO, Span::from_millis(1)].map(log_of_a_transfer);
    let (all, seldom) = (times(&all), times(&some));
    assert!(all.len() > 5 * seldom.len() && seldom.len() > 20, "{} {}", all.len(), seldom.len());
    assert!(seldom.windows(2).all(|pair| pair[1] - pair[0] > 0.999), "{seldom:?}");
    // The epoch is one second before the start of the log.
    assert_eq!(some[1]["time"], 1000.0);
    assert_eq!(some[1]["data"]["remote"], json!({ "ip": "2001:db8::2", "port": 7001 }));
    assert_eq!(some[1]["data"]["segments_before"], json!({ "sent": 3, "received": 2 }));
    assert_eq!(some.last().unwrap()["data"], json!({ "trigger": "released" }));
}
