//! Experiments in real time with the senders in a network namespace. They need root and TUN devices. Their results depend on the machine; the tests check only properties that do not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "program/common.rs"]
#[allow(dead_code, reason = "these tests need a part of it")]
mod common;

use std::fs;

use common::{Place, lab, program, refused, text, with};
use longhaul_lab::record::Record;

const BOTH: &str = r#"id = "both"
title = "100 kB by the kernel's TCP and by longhaul"
source = "nobody"
runs = 1
quick-runs = 1
duration = "6s"
real-time = true
bottleneck = "--rate 2mbit --rtt 20ms --queue 1bdp"

[[axes]]
name = "sender"
defaults = { transport = "longhaul", congestion = "cubic", earlier = 0 }
choices = [
    { name = "kernel", transport = "kernel", congestion = "reno" },
    "longhaul",
    { name = "known", congestion = "cached-start+cubic", earlier = 1 },
]

[[flows]]
name = "earlier"
count = "{earlier}"
congestion = "{congestion}"
transport = "{transport}"
bytes = "50kB"
tcp = { cache = true }

[[flows]]
name = "x"
transport = "{transport}"
congestion = "{congestion}"
after = "earlier"
hosts = "earlier"
bytes = "100kB"

[metrics]
carried = { value = "carried() * 6 / 8 * 1000000", unit = "bytes" }
read = { value = "goodput(x) * 6 / 8 * 1000000", unit = "bytes" }
sent = { value = "sent(x)", unit = "bytes" }
time = { value = "time-to(x, 100kB)", unit = "s" }

[series]
goodput = { value = "goodput(x)", unit = "Mb/s" }
read = { value = "read(x)", unit = "bytes" }

[[tables]]
id = "read"
lines = "sender"
columns = [{ head = "bytes", value = "median(read)", digits = 0 }]
"#;

/// At 2 Mb/s, 100 kB take at least 0.4 s, and the link carries them with their headers. The earlier connection of the
/// same hosts is not part of the time, but of what the link has carried.
#[test]
fn the_kernels_tcp_crosses_the_same_link() {
    if !needs::tun() {
        return;
    }
    let place = Place::new("namespace");
    let (file, out) = (place.file("both.toml", BOTH), place.path("out"));
    let output = lab(&["run", &file, "--out", &out]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let runs = text(&place.bytes("out/both/runs.jsonl"));
    let records: Vec<Record> = runs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |cell| records.iter().find(|record| record.cell == cell).unwrap();
    for (cell, least_carried) in [(0, 100_000.0), (1, 100_000.0), (2, 150_000.0)] {
        let record = of(cell);
        let [carried, read, sent, time] = record.values[..] else { panic!("{record:?}") };
        assert_eq!(read.map(f64::round), Some(100_000.0), "{record:?}");
        assert_eq!(sent, (cell != 0).then_some(100_000.0), "the kernel's sender has no counters");
        assert!(carried.unwrap() > least_carried && carried.unwrap() < least_carried + 100_000.0, "{record:?}");
        assert!((0.4..6.0).contains(&time.unwrap()), "{record:?}");
        assert_eq!((record.series["read"][0], record.series["read"][6]), ((0.0, 0.0), (6.0, 100_000.0)));
        let megabits: f64 = record.series["goodput"].iter().map(|(_, rate)| rate).sum();
        assert!((megabits - 0.8).abs() < 1e-9 && record.series["goodput"].len() == 6, "{record:?}");
    }
    // The same command continues from what exists, and documents are filled from it.
    let again = lab(&["run", &file, "--out", &out]);
    assert_eq!((again.status.code(), text(&place.bytes("out/both/runs.jsonl"))), (Some(0), runs));
    fs::create_dir_all(place.path("docs")).unwrap();
    let document = place.file("docs/a.md", "<!-- table: both read -->\n<!-- end of table -->\n");
    assert_eq!(lab(&["report", &out, "--docs", &place.path("docs")]).status.code(), Some(0));
    let filled = fs::read_to_string(document).unwrap().replace('*', "");
    assert!(filled.contains("| kernel | 100000 |\n| longhaul | 100000 |\n| known | 100000 |\n"), "{filled}");
}

/// Two flows of picoquic, one after the other, beside one of the kernel's TCP.
const PICOQUIC: &str = r#"id = "quic"
title = "picoquic"
source = "nobody"
runs = 1
quick-runs = 1
duration = "3s"
real-time = true
bottleneck = "--rate 8mbit --rtt 20ms --queue 1bdp"

[[axes]]
name = "controller"
choices = ["c4", "bbr", "cubic"]

[[flows]]
name = "short"
transport = "picoquic"
congestion = "{controller}"
bytes = "100kB"

[[flows]]
name = "endless"
transport = "picoquic"
congestion = "{controller}"
after = "short"

[[flows]]
name = "kernel"
transport = "kernel"
congestion = "reno"
bytes = "100kB"

[metrics]
carried = { value = "carried() * 3 / 8 * 1000000", unit = "bytes" }
endless = { value = "goodput(endless) * 3 / 8 * 1000000", unit = "bytes" }
sent = { value = "sent(short)", unit = "bytes" }
short = { value = "goodput(short) * 3 / 8 * 1000000", unit = "bytes" }
time = { value = "completion(short)", unit = "s" }
"#;

/// At 8 Mb/s, 100 kB take at least 0.1 s, and after the other 200 kB there is time for half of 2.8 MB. All bytes have
/// crossed the link, with their headers.
#[test]
fn picoquic_crosses_the_same_link() {
    let program = "picoquic's demo program; .ci/picoquic builds it, and LONGHAUL_PICOQUIC names it";
    let is_found = std::env::var_os("LONGHAUL_PICOQUIC").is_some();
    if !needs::tun() || !needs::that(is_found, "picoquic", program) {
        return;
    }
    let place = Place::new("namespace-picoquic");
    let (file, out) = (place.file("quic.toml", PICOQUIC), place.path("out"));
    let output = lab(&["run", &file, "--out", &out]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let runs = text(&place.bytes("out/quic/runs.jsonl"));
    let records: Vec<Record> = runs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 3);
    for record in records {
        let [carried, endless, None, Some(short), Some(time)] = record.values[..] else { panic!("{record:?}") };
        let (carried, endless) = (carried.unwrap(), endless.unwrap());
        assert_eq!(short.round(), 100_000.0);
        assert!((0.1..3.0).contains(&time), "{record:?}");
        assert!((1_000_000.0..carried - 200_000.0).contains(&endless), "{record:?}");
    }
}

/// Without the program, its cells are skipped, which is not an error.
#[test]
fn cells_of_picoquic_are_skipped_without_its_program() {
    let place = Place::new("namespace-no-picoquic");
    let file = place.file("quic.toml", PICOQUIC);
    let output = program(&["run", &file]).env("LONGHAUL_PICOQUIC", place.path("nothing")).output().unwrap();
    let told = "quic: cells skipped: 3, because picoquicdemo is not found: `.ci/picoquic FOLDER` builds it";
    let errors = text(&output.stderr);
    assert!(output.status.success() && errors.contains(told), "{errors}");
}

/// A congestion control that the kernel does not have ends the experiment with its name.
#[test]
fn an_unknown_congestion_control_of_the_kernel_is_reported() {
    if !needs::tun() {
        return;
    }
    let file = Place::new("namespace-unknown").file("both.toml", &BOTH.replace("\"reno\"", "\"rino\""));
    refused(&["run", &file, "--at", "sender=kernel"], "both, cell 0, seed 1: the kernel's \"rino\": ");
}

#[test]
fn what_cannot_be_run_is_refused() {
    let place = Place::new("namespace-refused");
    let traffic = "[[traffic]]\nname = 'udp'\nkind = 'cbr'\nrate = '1mbit'\npacket = '500B'\n\n[metrics]";
    for (from, to, told) in [
        ("real-time = true\n", "", "both.toml:22: flows.transport: the kernel's TCP needs `real-time = true`"),
        (
            "transport = \"kernel\"",
            "transport = \"quic\"",
            "flows.transport: \"quic\" is none of longhaul, kernel, picoquic",
        ),
        ("cache = true", "known-path = true", "flows \"earlier\" have `known-path`, which exists only in virtual time"),
        ("cache = true", "receive-hold = '1ms'", "flows \"x\" have another `receive-hold` than the first ones"),
        ("read(x)", "cwnd(x)", "its series \"read\" is recorded only in virtual time"),
        ("--rate 2mbit", "--rate 2gbit", "its bottleneck has 2000 Mb/s"),
        ("[metrics]", traffic, "its cross traffic \"udp\" cannot cross a network namespace"),
    ] {
        refused(&["run", &place.file("both.toml", &with(BOTH, from, to))], told);
    }
    let messages = "after = \"short\"\nmessage = '1kB'\nmessage-every = '1s'";
    for (from, to, told) in [
        ("real-time = true\n", "", "flows.transport: picoquic needs `real-time = true`"),
        ("\"bbr\"", "\"reno\"", "flows.congestion: picoquic has c4, bbr and cubic, not \"reno\""),
        ("after = \"short\"", messages, "flows \"endless\" have messages, which picoquic's demo program cannot send"),
    ] {
        refused(&["run", &place.file("quic.toml", &with(PICOQUIC, from, to))], told);
    }
    let real = ["run", "--real", &place.file("both.toml", BOTH)];
    refused(&real, "it has `real-time = true`, and `run` without --real");
}
