//! Requests that the program refuses although each part of them is valid.

use crate::common::{Place, lab, refusal, refused, text};

/// A transfer over a link with random losses.
const LOSSY: &str = r#"id = "lossy"
title = "A transfer"
source = "nobody"
runs = 1
quick-runs = 1
duration = "5s"
bottleneck = "--rate 5mbit --rtt 50ms --queue 1bdp --loss {loss}"

[[axes]]
name = "loss"
choices = ["1%", "2%"]

[[flows]]
name = "x"
congestion = "cubic"

[metrics]
goodput = { value = "goodput(x)", unit = "Mb/s" }

[[rows]]
id = "1"
metric = "goodput"
over = "loss"
order = ["1%", "2%"]
rule = "decreasing"
"#;

/// A file can have additional choices in `add` and a byte-order mark. Faults are reported with the line numbers of
/// the file.
#[test]
fn choices_are_added_to_what_the_file_has() {
    let place = Place::new("refusals-added");
    let out = place.path("out");
    let ours = |definition: &str, arguments: &[&str]| {
        let path = place.file("own.toml", definition);
        let output = lab(&[&["run", &path, "--json"], arguments].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let own = LOSSY.replace("runs = 1\nquick", "runs = 1\nadd = { loss = [\"5%\"] }\nquick");
    let own = own.replace("[\"1%\", \"2%\"]\nrule", "[\"1%\", \"5%\", \"20%\"]\nrule");
    let (code, rows, told) = ours(&own, &["--add", "loss=20%", "--out", &out]);
    assert_eq!(code, Some(0), "{rows} {told}");
    let reported = lab(&["report", &out, "--json"]);
    assert_eq!(reported.status.code(), Some(0));
    assert!(text(&reported.stdout).contains(rows.trim_end()), "it is kept with what was added");
    let (code, _, told) = ours(&format!("\u{feff}{LOSSY}"), &["--add", "loss=20%", "--overwrite", "--out", &out]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(lab(&["report", &out]).status.code(), Some(0));
    for (definition, choice, expected) in [
        (LOSSY.replace("cubic", "cubik"), "loss=20%", "own.toml:15: flows.congestion: "),
        (LOSSY.to_owned(), "loss=much", "own.toml:7: bottleneck: "),
        (LOSSY.to_owned(), "loss=1%", "own.toml:10: axes.choices: \"1%\" occurs twice"),
        (LOSSY.to_owned(), "delay=1s", "own.toml:1: add: there is no axis \"delay\""),
    ] {
        let (code, _, told) = ours(&definition, &["--add", choice]);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(expected), "{told}");
    }
}

/// If a host runs out of ports, the run fails with an error, without a panic.
#[test]
fn without_ports_a_run_ends_and_says_so() {
    let workload = "[[workloads]]\nname = 'w'\nkind = 'http'\ncongestion = 'cubic'\nload = '100%'\nresponse = '1B'\n";
    let text = LOSSY.replace("[[flows]]", &format!("{workload}\n[[flows]]"));
    let error = refusal(&["run", &Place::new("refusals-ports").file("ports.toml", &text)]);
    assert!(error.contains(", seed 1: the host at node ") && error.contains(" has no port left"), "{error}");
    assert!(!error.contains("panicked"), "{error}");
}

/// A setup that needs too much memory for all cells together is refused before the memory is allocated.
#[test]
fn more_than_memory_holds_is_refused() {
    let axes: String =
        (0..4).map(|axis| format!("[[axes]]\nname = 'a{axis}'\nchoices = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n")).collect();
    let row = "at = { a0 = '0', a1 = '0', a2 = '0', a3 = '0', loss = '1%' }\nrule = 'at least 0'";
    let text = LOSSY.replace("[\"1%\", \"2%\"]\n\n", &format!("[\"1%\"]\n\n{axes}\n"));
    let text = text.replace("over = \"loss\"\norder = [\"1%\", \"2%\"]\nrule = \"decreasing\"", row);
    let place = Place::new("refusals-memory");
    let others = "[[traffic]]\nname = 'u'\nkind = 'cbr'\nrate = '1mbit'\npacket = '100B'\ncount = 1000\n";
    let population = "[[workloads]]\nname = 'w'\nkind = 'http'\ncongestion = 'cubic'\nload = '1%'\npairs = 10000\n";
    for (added, told) in [
        (others, ":31: traffic.count: more than 200000 sources"),
        (population, ":31: workloads.pairs: more than 200000 sources"),
        ("", ":4: runs: 1001 runs in each of 10000 cells are more than 10000000"),
    ] {
        let text = if added.is_empty() { text.replace("runs = 1\nq", "runs = 1001\nq") } else { text.clone() };
        let text = text.replace("[[flows]]", &format!("{added}[[flows]]"));
        refused(&["run", &place.file("memory.toml", &text)], told);
    }
    let long = LOSSY.replace("\"5s\"", "\"80000s\"").replace("\"cubic\"", "\"cubic\"\ncount = 100");
    refused(&["run", &place.file("long.toml", &long)], ":6: duration: too long for 100 flows");
}
