//! Experiments over real sockets. What they come to depends on the machine; what is tested is what does not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod common;

use common::{Place, lab, refusal, text};
use serde_json::Value;

const SMALL: &str = r#"id = "real"
title = "Two transfers"
source = "nobody"
runs = 3
quick-runs = 1
duration = "4s"
bottleneck = "--rate {rate} --rtt 20ms --queue 1bdp"

[[axes]]
name = "rate"
choices = ["2mbit", "300mbit"]

[[flows]]
name = "x"
congestion = "cubic"
count = 2
bytes = "100kB"
start = "10ms"

[metrics]
all = { value = "time-to(x, 200kB)", unit = "s" }
carried = { value = "carried() * 4 / 8 * 1000000", unit = "bytes" }
early = { value = "carried(1s)", unit = "Mb/s" }
first = { value = "known(first-drop())", unit = "" }
read = { value = "goodput(x) * 4 / 8 * 1000000", unit = "bytes" }
sent = { value = "sent(x)", unit = "bytes" }
time = { value = "completion(x)", unit = "s" }
window = { value = "cwnd(x)", unit = "bytes" }

[[rows]]
id = "all"
metric = "all"
at = { rate = "2mbit" }
rule = "at least 0.8"

[[rows]]
id = "carried"
metric = "carried"
at = { rate = "2mbit" }
rule = "at least 200000"

[[rows]]
id = "early"
metric = "early"
at = { rate = "2mbit" }
rule = "at least 0"

[[rows]]
id = "first"
metric = "first"
at = { rate = "2mbit" }
rule = "at least 0"

[[rows]]
id = "read"
metric = "read"
at = { rate = "2mbit" }
paper = 200000
rule = "within 0.001"

[[rows]]
id = "sent"
metric = "sent"
at = { rate = "2mbit" }
paper = 200000
rule = "exact"

[[rows]]
id = "time"
metric = "time"
at = { rate = "2mbit" }
rule = "at least 0.4"

[[rows]]
id = "window"
metric = "window"
at = { rate = "2mbit" }
rule = "at least 1448"

[[rows]]
id = "both"
metric = "time"
over = "rate"
order = ["2mbit", "300mbit"]
rule = "decreasing"

[[rows]]
id = "never"
not-reproducible = "nobody can"
"#;

fn rows(stdout: &[u8]) -> Vec<Value> {
    text(stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// 200 kB of two flows and their headers need 0.8 s at 2 Mb/s, however fast the machine is; all are read, sent and carried. What sockets do
/// not tell has no verdict, and rows of cells that were not run are left out.
#[test]
fn rows_have_values_of_both_clocks() {
    let file = Place::new("real-rows").file("real.toml", SMALL);
    let output = lab(&["run", "--real", &file, "--at", "rate=2mbit", "--json"]);
    let rows = rows(&output.stdout);
    let errors = text(&output.stderr);
    let ids: Vec<&str> = rows.iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(ids, ["all", "carried", "early", "first", "read", "sent", "time", "window", "never"], "{errors}");
    for row in &rows {
        for key in ["experiment", "metric", "unit", "paper", "ours", "low", "high", "rule", "reason", "virtual"] {
            assert!(row.get(key).is_some(), "{key} in {row}");
        }
        let untold = ["early", "first", "never"].contains(&row["row"].as_str().unwrap());
        let verdict = if untold { "not-reproducible" } else { "reproduced" };
        assert_eq!((&row["verdict"], row["ours"].is_null()), (&verdict.into(), untold), "{row} {errors}");
    }
    assert_eq!(rows[2]["reason"], "the relay tells `carried` of whole runs only");
    assert_eq!(rows[3]["reason"], "real sockets do not tell `first-drop`");
    // The virtual link is the same.
    let time = rows[0]["virtual"].as_f64().unwrap();
    assert!((0.8..1.2).contains(&time), "{time}");
    assert_eq!(rows[0]["seeds"], 1);
    assert_eq!(output.status.code(), Some(0));
    for told in ["real, rate \"2mbit\", seed 1: ", " s of processors", "values", "want of other cells: 1"] {
        assert!(errors.contains(told), "{told} in {errors}");
    }
}

/// What a row demands of real time decides the exit code.
#[test]
fn a_row_that_fails_in_real_time_fails() {
    let text = SMALL.replace("at least 0.8", "at most 0.8");
    let file = Place::new("real-fails").file("real.toml", &text);
    let output = lab(&["run", "--real", &file, "--at", "rate=2mbit"]);
    let lines = common::text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{lines}");
    let failed: Vec<&str> = lines.lines().filter(|line| line.contains("NOT reproduced")).collect();
    assert!(matches!(failed[..], [line] if line.starts_with("all ") && line.contains("(in virtual time ")), "{lines}");
}

/// What does not fit is said with the cell, before anything runs.
#[test]
fn what_does_not_fit_is_refused() {
    let place = Place::new("real-refused");
    let with = |from: &str, to: &str| {
        let changed = SMALL.replacen(from, to, 1);
        assert_ne!(changed, SMALL, "{from}");
        changed
    };
    let traffic = "[[traffic]]\nname = 'udp'\nkind = 'cbr'\nrate = '1mbit'\npacket = '500B'\nstop = '1s'\n\n[metrics]";
    let after = "start = \"10ms\"\n\n[[flows]]\nname = \"y\"\ncongestion = \"cubic\"\nbytes = \"1kB\"\nafter = \"x\"";
    for (definition, told) in [
        (with("count = 2", "count = 101"), "it has 101 flows; 100 at most can be run over real sockets"),
        (with("count = 2", "left = '--delay 1ms'"), "flows \"x\" have access links of their own"),
        (with("count = 2", "right = '--rate 1mbit'"), "flows \"x\" have access links of their own"),
        (with("count = 2", "tcp = { cache = true }"), "flows \"x\" share what hosts have learnt"),
        (with("start = \"10ms\"", after), "flows \"y\" begin after others (`after`)"),
        (with("[metrics]", traffic), "it has cross traffic"),
        (with("--queue 1bdp", "--queue 1bdp --step 1s,1gbit,-"), "its bottleneck has 1000 Mb/s; the relay is sure to "),
    ] {
        let file = place.file("real.toml", &definition);
        let error = refusal(&["run", "--real", &file, "--at", "rate=2mbit"]);
        let told = format!("real, rate \"2mbit\" cannot be run in real time: {told}");
        assert!(error.contains(&told), "{told} in {error}");
        assert!(!error.contains("one at a time"), "{error}");
    }
    let file = place.file("real.toml", SMALL);
    for (arguments, told) in [
        (&["--real"][..], "real, rate \"300mbit\" cannot be run in real time: its bottleneck has 300 Mb/s"),
        (&["--real", "--at", "rate=1mbit"], "--at rate=1mbit: no choice of real; there are: 2mbit; 300mbit"),
        (&["--real", "--at", "speed=1"], "--at speed=1: real has no axis \"speed\""),
        (&["--real", "--seeds", "0"], "--seeds 0 measures nothing"),
        (&["--real", "--out", "x"], "'--real' cannot be used with '--out <DIR>'"),
        (&["--at", "rate=2mbit"], "--real"),
    ] {
        let error = refusal(&[&["run", &file], arguments].concat());
        assert!(error.contains(told), "{told} in {error}");
    }
}
