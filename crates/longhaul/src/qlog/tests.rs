use std::path::PathBuf;

use longhaul_wire::{Flags, Header};
use serde_json::{Value, json};

use super::segment::{Segment, Sent};
use super::writer::{self, Log};

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()))
}

fn values(text: &str) -> Vec<Value> {
    text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect()
}

#[test]
fn the_beginning_comes_first_and_early_records_after_it() {
    let path = scratch("qlog-order").join("made").join("for.sqlog");
    let mut log = Log::default();
    assert!(log.record(&"early"));
    log.open(path.clone(), |log| assert!(log.record(&"begin")));
    assert!(log.record(&"late") && log.hand_over());
    writer::wait();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "\x1e\"begin\"\n\x1e\"early\"\n\x1e\"late\"\n", "RFC 7464, section 2.2");
    std::fs::remove_dir_all(scratch("qlog-order")).unwrap();
}

/// What finds no room is counted; what found some is whole, the beginning among it.
#[test]
fn a_log_that_nobody_takes_is_bounded() {
    let mut log = Log::default();
    let record = "x".repeat(1000);
    let kept = (0..10_000).filter(|_| log.record(&record)).count();
    assert!((60..70).contains(&kept), "{kept} of a kilobyte each");
    assert_eq!(log.take_dropped(), None, "there is still no room");
    let path = scratch("qlog-bound");
    log.open(path.clone(), |log| assert!(log.record(&"begin")));
    assert_eq!(log.take_dropped(), Some(10_000 - kept as u64));
    assert!(log.hand_over());
    writer::wait();
    let values = values(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(values[0], "begin");
    assert_eq!(values.len(), 1 + kept);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_place_that_cannot_be_written_ends_the_log() {
    let mut log = Log::default();
    // A file cannot be a directory.
    let path = std::env::current_exe().unwrap().join("log");
    log.open(path, |log| assert!(log.record(&"begin")));
    assert!(!log.has_failed() && log.hand_over());
    writer::wait();
    assert!(log.has_failed());
}

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
    header.options.sack.push(longhaul_wire::SackBlock { left: 5, right: 6 });
    let value = serde_json::to_value(Segment::new(&header, 24, 0, 0).retransmitted(true)).unwrap();
    assert_eq!(value["header"]["acknowledgment_number"], Value::Null, "it is of no meaning without ACK");
    assert_eq!(value["header"]["sack"], json!([[5, 6]]));
    assert_eq!(value["retransmission"], true);
}

#[test]
fn retransmissions_are_told_across_the_wrap() {
    let mut sent = Sent::default();
    let header = |seq: u32, flags| Header { seq, flags, ..Header::default() };
    assert!(!sent.repeats(&header(u32::MAX - 10, Flags::SYN), 0));
    assert!(sent.repeats(&header(u32::MAX - 10, Flags::SYN), 0));
    assert!(!sent.repeats(&header(u32::MAX - 9, Flags::ACK), 100));
    assert!(!sent.repeats(&header(90, Flags::ACK), 0), "a pure ACK is never one");
    assert!(sent.repeats(&header(u32::MAX - 9, Flags::ACK), 50));
    assert!(!sent.repeats(&header(u32::MAX - 9, Flags::ACK), 101), "some of it is new");
    assert!(!sent.repeats(&header(91, Flags::FIN | Flags::ACK), 0));
    assert!(sent.repeats(&header(91, Flags::FIN | Flags::ACK), 0));
}
