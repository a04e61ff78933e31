use std::path::PathBuf;

use longhaul_qlog::Sink;
use longhaul_units::Time;
use serde_json::Value;

use super::Place;
use super::writer::Records;
use crate::disk;

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()))
}

fn values(text: &str) -> Vec<Value> {
    text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect()
}

#[test]
fn the_header_precedes_early_records() {
    let directory = scratch("qlog-order").join("made");
    let mut log = Records::to(Place::Dir(directory.clone()), Time::ZERO);
    assert!(log.record(&"early"));
    log.begin("for.sqlog", |log| assert!(log.record(&"begin")));
    assert!(log.record(&"late") && log.output.submit());
    disk::wait();
    let text = std::fs::read_to_string(directory.join("for.sqlog")).unwrap();
    assert_eq!(text, "\x1e\"begin\"\n\x1e\"early\"\n\x1e\"late\"\n", "RFC 7464, section 2.2");
    std::fs::remove_dir_all(scratch("qlog-order")).unwrap();
}

/// Records that find no room are counted; those that found room, including the first, are complete.
#[test]
fn a_log_without_a_destination_is_bounded() {
    let path = scratch("qlog-bound");
    let mut log = Records::to(Place::file(path.clone()), Time::ZERO);
    let record = "x".repeat(1000);
    let kept = (0..10_000).filter(|_| log.record(&record)).count();
    assert!((60..70).contains(&kept), "{kept} of a kilobyte each");
    assert_eq!(log.take_dropped(), None, "there is still no room");
    log.begin("unused", |log| assert!(log.record(&"begin")));
    assert_eq!(log.take_dropped(), Some(10_000 - kept as u64));
    assert!(log.output.submit());
    disk::wait();
    let values = values(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(values[0], "begin");
    assert_eq!(values.len(), 1 + kept);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_unwritable_file_ends_the_log() {
    // The executable is a file, so it cannot be used as a directory.
    let mut log = Records::to(Place::Dir(std::env::current_exe().unwrap()), Time::ZERO);
    log.begin("log", |log| assert!(log.record(&"begin")));
    assert!(!log.is_over() && log.output.submit());
    disk::wait();
    assert!(log.is_over());
}
