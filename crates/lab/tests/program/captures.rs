//! Captures of the flows of a run.

use std::fs;

use crate::common::{Place, SMALL, lab, refused, text};

/// Returns the times of the packets of a capture in nanoseconds.
fn times(pcap: &[u8]) -> Vec<u64> {
    let field = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes[..4].try_into().unwrap()));
    let (mut rest, mut times) = (&pcap[24..], Vec::new());
    while !rest.is_empty() {
        times.push(field(rest) * 1_000_000_000 + field(&rest[4..]));
        rest = &rest[16 + field(&rest[8..]) as usize..];
    }
    times
}

#[test]
fn each_flow_has_a_capture_and_a_log() {
    let place = Place::new("captures");
    let file = place.file("small.toml", SMALL);
    let run = lab(&["run", &file, "--quick", "--at", "rate=2mbit", "--captures", &place.path("captured")]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    for run in ["0-1-0", "0-2-0", "1-1-0", "1-2-0"] {
        let pcap = place.bytes(&format!("captured/small/{run}.pcap"));
        let times = times(&pcap);
        // Ten seconds of at most 2 Mb/s, with an ACK per two segments.
        assert!((500..4000).contains(&times.len()), "{run}: {}", times.len());
        assert!(times[0] == 0 && times.is_sorted() && *times.last().unwrap() <= 10_000_000_000, "{run}");
        let log = text(&place.bytes(&format!("captured/small/{run}.sqlog")));
        let events: Vec<serde_json::Value> =
            log.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
        let sent = events.iter().filter(|event| event["name"].as_str().is_some_and(|name| name.ends_with("_sent")));
        assert!(sent.count() > 400, "{run}: {} events", events.len());
    }
    assert_eq!(fs::read_dir(place.path("captured/small")).unwrap().count(), 8);
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let place = Place::new("captures-in-a-file");
    let file = place.file("small.toml", SMALL);
    refused(&["run", &file, "--quick", "--captures", &file], "captures of cell ");
}
