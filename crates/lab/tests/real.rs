//! Experiments over real sockets. Their results depend on the machine; the tests check only properties that do not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "program/common.rs"]
#[allow(dead_code, reason = "these tests need a part of it")]
mod common;

use common::{Place, json_lines as rows, lab, refusal, refused, text};
use serde_json::{Value, json};

const SMALL: &str = r#"id = "real"
title = "Two transfers"
source = "nobody"
runs = 3
quick-runs = 1
duration = "4s"
bottleneck = "--rate {rate} --rtt 20ms --queue 1bdp"
rows = [
    { id = "all", metric = "all", at = { rate = "2mbit" }, rule = "at least 0.8" },
    { id = "carried", metric = "carried", at = { rate = "2mbit" }, rule = "at least 200000" },
    { id = "early", metric = "early", at = { rate = "2mbit" }, rule = "at least 0" },
    { id = "first", metric = "first", at = { rate = "2mbit" }, rule = "at least 0" },
    { id = "read", metric = "read", at = { rate = "2mbit" }, paper = 200000, rule = "within 0.001" },
    { id = "sent", metric = "sent", at = { rate = "2mbit" }, paper = 200000, rule = "exact" },
    { id = "time", metric = "time", at = { rate = "2mbit" }, rule = "at least 0.4" },
    { id = "window", metric = "window", at = { rate = "2mbit" }, rule = "at least 1448" },
    { id = "both", metric = "time", over = "rate", order = ["2mbit", "300mbit"], rule = "decreasing" },
    { id = "never", not-reproducible = "nobody can" },
]

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
"#;

/// 200 kB of two flows with their headers take at least 0.8 s at 2 Mb/s on any machine, and all bytes are read, sent
/// and carried. Metrics that real sockets cannot measure have no verdict, and rows that need other cells are skipped.
#[test]
fn rows_have_values_of_both_clocks() {
    let file = Place::new("real-rows").file("real.toml", SMALL);
    let output = lab(&["run", "--real", &file, "--at", "rate=2mbit", "--json"]);
    let rows = rows(&output.stdout);
    let errors = text(&output.stderr);
    let ids: Vec<&str> = rows.iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(ids, ["all", "carried", "early", "first", "read", "sent", "time", "window", "never"], "{errors}");
    for row in &rows {
        for key in ["experiment", "metric", "unit", "paper", "ours", "interval", "rule", "reason", "virtual"] {
            assert!(row.get(key).is_some(), "{key} in {row}");
        }
        let untold = ["early", "first", "never"].contains(&row["row"].as_str().unwrap());
        let verdict = if untold { "not-reproducible" } else { "reproduced" };
        assert_eq!((&row["verdict"], row["ours"].is_null()), (&verdict.into(), untold), "{row} {errors}");
    }
    assert_eq!(rows[2]["reason"], "the relay provides `carried` only for whole runs");
    assert_eq!(rows[3]["reason"], "real sockets do not provide `first-drop`");
    let run = &rows[0]["runs"][0];
    let number = |key: &str| run[key].as_f64().unwrap_or_else(|| panic!("{key} in {run}"));
    assert_eq!((&run["cell"], &run["seed"], &run["failures"]), (&json!({ "rate": "2mbit" }), &1.into(), &json!([])));
    assert_eq!(number("read_bytes"), 200_000.0);
    assert!(number("seconds") >= 0.8 && number("memory_bytes") >= 1e6 && run["kept_up"].is_boolean(), "{run}");
    let [all, ends] = ["processor_seconds", "ends_processor_seconds"].map(number);
    assert!(0.0 < ends && ends < all, "{run}");
    assert!((number("ends_processor_seconds_per_gb") / (ends / 0.0002) - 1.0).abs() < 1e-9, "{run}");
    for key in ["lateness_seconds", "lost_datagrams", "starved_seconds"] {
        assert!(number(key) >= 0.0);
    }
    assert_eq!(rows[8]["runs"], json!([]));
    // In virtual time, the link is the same.
    let time = rows[0]["virtual"].as_f64().unwrap();
    assert!((0.8..1.2).contains(&time), "{time}");
    assert_eq!(rows[0]["seeds"], 1);
    assert_eq!(output.status.code(), Some(0));
    for told in ["real, rate \"2mbit\", seed 1: ", "processor time ", "need other cells: 1"] {
        assert!(errors.contains(told), "{told} in {errors}");
    }
}

/// The values in real time determine the exit code.
#[test]
fn a_row_that_fails_in_real_time_fails() {
    let text = SMALL.replace("at least 0.8", "at most 0.8");
    let file = Place::new("real-fails").file("real.toml", &text);
    let output = lab(&["run", "--real", "--strict", &file, "--at", "rate=2mbit"]);
    let lines = common::text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{lines}");
    let failed: Vec<&str> = lines.lines().filter(|line| line.contains("NOT reproduced")).collect();
    assert!(matches!(failed[..], [line] if line.starts_with("all ") && line.contains("(in virtual time ")), "{lines}");
}

/// A cell that cannot be run in real time is reported before anything runs.
#[test]
fn unsuitable_experiments_are_refused() {
    let place = Place::new("real-refused");
    let with = |from: &str, to: &str| common::with(SMALL, from, to);
    let traffic = |more: &str| {
        let traffic = format!("[[traffic]]\nname = 'udp'\nkind = 'cbr'\npacket = '500B'\n{more}\n\n[metrics]");
        with("[metrics]", &traffic)
    };
    for (definition, told) in [
        (with("count = 2", "count = 101"), "it has 101 flows; at most 100 can be run over real sockets"),
        (with("count = 2", "left = '--delay 1ms'"), "flows \"x\" have access links;"),
        (with("count = 2", "right = '--rate 1mbit'"), "flows \"x\" have access links;"),
        (
            with("count = 2", "tcp = { receive-hold = '1ms' }"),
            "flows \"x\" have a `receive-hold`, which over real sockets",
        ),
        (traffic("rate = '1mbit'\nright = '--delay 1ms'"), "its cross traffic \"udp\" has access links;"),
        (traffic("rate = '201mbit'"), "its cross traffic \"udp\" has 201 Mb/s"),
        (with("--queue 1bdp", "--queue 1bdp --step 1s,1gbit,-"), "its bottleneck has 1000 Mb/s; the relay supports "),
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
        (
            &["--real", "--at", "rate=1mbit"],
            "--at rate=1mbit: real: \"1mbit\" is not a choice on the axis \"rate\"; there are: 2mbit, 300mbit",
        ),
        (&["--real", "--at", "speed=1"], "--at speed=1: real: there is no axis \"speed\""),
        (&["--real", "--jobs", "2"], "'--real' cannot be used with '--jobs <N>'"),
    ] {
        refused(&[&["run", &file], arguments].concat(), told);
    }
}

const BESIDE: &str = r#"id = "beside"
title = "Beside UDP"
source = "nobody"
runs = 1
quick-runs = 1
duration = "2500ms"
bottleneck = "--rate-up 2mbit --rate-down 100kbit --rtt 40ms --queue 200p"
rows = [
    { id = "carried", metric = "carried", each = "udp", rule = "at least 0" },
    { id = "read", metric = "read", each = "udp", rule = "at least 0" },
]

[[axes]]
name = "udp"
choices = [
    { name = "none", rate = "0bit", way = "there" },
    { name = "there", rate = "800kbit", way = "there" },
    { name = "back", rate = "800kbit", way = "back" },
    { name = "both", rate = "800kbit", way = "both" },
]

[[flows]]
name = "x"
congestion = "cubic"
bytes = "50kB"
start = "500ms"

[[traffic]]
name = "udp"
kind = "cbr"
rate = "{rate}"
packet = "500B"
way = "{way}"
dscp = "46"
stop = "1500ms"

[metrics]
carried = { value = "carried() * 2.5 / 8 * 1000000", unit = "bytes" }
read = { value = "goodput(x) * 2.5 / 8 * 1000000", unit = "bytes" }
"#;

/// Forward cross traffic of 800 kb/s for 1.5 s consists of 300 packets of 500 bytes, which the link carries in
/// addition to the flow's. The reverse link has only 100 kb/s: when the flow starts, its queue holds 3.5 s of cross
/// traffic, so that ACKs arrive after the end of the run.
#[test]
fn cross_traffic_crosses_the_link() {
    let place = Place::new("real-beside");
    let file = place.file("beside.toml", BESIDE);
    let output = lab(&["run", "--real", &file, "--json"]);
    let (rows, errors) = (rows(&output.stdout), text(&output.stderr));
    let ours = |row: &Value| row["ours"].as_f64().unwrap_or_else(|| panic!("{row} {errors}")).round();
    let ours: Vec<f64> = rows.iter().map(ours).collect();
    let [alone, there, back, both, read @ ..] = &ours[..] else { panic!("{rows:?} {errors}") };
    // Bytes sent by the flow: 50 kB with headers, and a number of handshake and retransmitted packets that varies
    // between runs.
    let own = 50_000.0..60_000.0;
    let beside = |carried: &f64, least: f64| (150_000.0 + least..150_000.0 + own.end).contains(carried);
    assert!(own.contains(alone) && *back < own.end, "{ours:?} {errors}");
    assert!(beside(there, own.start) && beside(both, 0.0), "{ours:?} {errors}");
    assert!(matches!(read, [50_000.0, 50_000.0, back, both] if back.max(*both) < 50_000.0), "{ours:?} {errors}");
}

const AFTER: &str = r#"id = "after"
title = "One after the other"
source = "nobody"
runs = 1
quick-runs = 1
duration = "8s"
bottleneck = "--rate 10mbit --rtt 100ms --queue 1bdp"
rows = [
    { id = "time", metric = "time", over = "memory", order = ["false", "true"], rule = "decreasing by 5%" },
    { id = "alone", metric = "time", at = { memory = "false" }, rule = "at most 1" },
]

[[axes]]
name = "memory"
choices = ["true", "false"]

[[flows]]
name = "first"
congestion = "startup=careful-resume,slow-start=hystart-pp,avoidance=cubic,recovery=prr"
bytes = "3MB"
tcp = { cache = "{memory}" }

[[flows]]
name = "second"
congestion = "startup=careful-resume,slow-start=hystart-pp,avoidance=cubic,recovery=prr"
bytes = "400kB"
after = "first"
hosts = "first"
start = "500ms"

[metrics]
time = { value = "completion(second)", unit = "s" }
"#;

/// The second flow sends 400 kB after the first one has sent 3 MB. It takes less than 1 s (0.33 s at 10 Mb/s, plus five
/// round trips of slow start) only if the first one has ended. With a path cache, it knows the path from the first one,
/// and Careful Resume needs fewer round trips. Real and virtual time must agree.
///
/// Runs in which the machine was too busy to emulate the link in time do not count. The median of the others must agree.
#[test]
fn flows_begin_after_others_and_know_what_those_learnt() {
    const RUNS: usize = 3;
    const TRIES: usize = 6;
    let place = Place::new("real-after");
    let file = place.file("after.toml", AFTER);
    let out = place.path("kept");
    let run = || lab(&["run", "--real", &file, "--json", "--out", &out, "--seeds", "1", "--overwrite"]);
    let (mut ratios, mut reproduced) = (<[Vec<f64>; 2]>::default(), 0);
    for _ in 0..TRIES {
        let output = run();
        let (rows, errors) = (rows(&output.stdout), text(&output.stderr));
        let kept: Value = serde_json::from_slice(&std::fs::read(format!("{out}/after.real.json")).unwrap()).unwrap();
        assert_eq!((&kept["rows"], &kept["experiment"]), (&Value::from(rows.clone()), &"after".into()));
        let runs = kept["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        // Both flows transfer all bytes, however long it takes.
        assert!(runs.iter().all(|run| run["read_bytes"] == 3_400_000 && run["failures"] == json!([])), "{errors}");
        if runs.iter().all(|run| run["kept_up"] == true) {
            let number = |values: &Value, place: usize| values[place].as_f64().unwrap();
            for (place, ratios) in ratios.iter_mut().enumerate() {
                ratios.push(number(&rows[0]["ours"], place) / number(&rows[0]["virtual"], place));
            }
            reproduced += usize::from(rows.iter().all(|row| row["verdict"] == "reproduced"));
            if ratios[0].len() == RUNS {
                break;
            }
        }
    }
    if needs::quiet_machine(ratios[0].len() == RUNS) {
        assert!(reproduced > RUNS / 2, "{reproduced} of {RUNS} runs reproduce the rows: {ratios:?}");
        for ratios in &mut ratios {
            ratios.sort_by(f64::total_cmp);
            assert!((ratios[RUNS / 2] - 1.0).abs() < 0.05, "the times in both worlds disagree: {ratios:?}");
        }
    }
    // Existing files are replaced only on request, and are not mixed with results in virtual time.
    refused(&["run", "--real", &file, "--out", &out], "after.real.json exists; --overwrite replaces it");
    refused(&["run", &file, "--out", &out], "after.real.json");
}
