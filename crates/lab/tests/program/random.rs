//! Random scenarios, from the command line to the folder of results.

use crate::common::{Place, json_lines, lab, refusal, text};

#[test]
fn three_scenarios_are_run_stored_and_reported() {
    let place = Place::new("random");
    let out = place.path("out");
    let arguments = ["run", "--random", "training", "--seeds", "1..3", "-C", "copa-cubic,cubic", "--out", &out];
    let output = lab(&arguments);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(printed.contains("Scores: median and 5th percentile"), "{printed}");
    assert!(printed.contains("The worst 10 scenarios of copa-cubic"), "{printed}");
    let second = "2: 2.52 Mb/s, 383 ms, queue 2.31 BDP, loss 0.218 % in bursts of 2, back 0.299 Mb/s";
    assert_eq!(printed.lines().filter(|line| line.starts_with(second)).count(), 2, "{printed}");
    // Three scenarios with two controllers and nobody, one run each.
    let runs = text(&place.bytes("out/random-training/runs.jsonl"));
    assert_eq!(runs.lines().count(), 9);
    let page = text(&place.bytes("out/index.html"));
    for part in ["<h3>The worst 10 scenarios of cubic</h3>", "id=\"plot=random-training.utility\"", second] {
        assert!(page.contains(part), "{part}");
    }
    // The same command has nothing left to run, and prints the same tables; so does the report.
    assert_eq!(text(&lab(&arguments).stdout), printed);
    assert_eq!(text(&place.bytes("out/random-training/runs.jsonl")), runs);
    let report = text(&lab(&["report", &out]).stdout);
    assert!(report.contains(printed.trim_end()), "{report}");
    // Sorted by score: the first line of a table is the worst one.
    let tables = json_lines(&lab(&[&arguments[..], &["--json"]].concat()).stdout);
    let worst = tables.iter().find(|table| table["table"] == "The worst 10 scenarios of cubic").unwrap();
    let score = |line: &serde_json::Value| line["cells"][0].as_str().unwrap().parse::<f64>().unwrap();
    let scores: Vec<f64> = worst["lines"].as_array().unwrap().iter().map(score).collect();
    assert_eq!(scores.len(), 3);
    assert!(scores.is_sorted() && scores[2] < 0.1, "{scores:?}");
}

#[test]
fn wrong_requests_are_refused() {
    let told = |arguments: &[&str]| refusal(&[&["run", "--random"], arguments].concat());
    for (arguments, expected) in [
        (
            &["sealed", "-C", "cubic"][..],
            "\"sealed\" is not a set of scenarios; there are: training, test, any, changing, changing-test",
        ),
        (&["training", "-C", "cubik"], "longhaul-lab: -C cubik: "),
        (&["training", "-C", "cubic,cubic"], "longhaul-lab: -C cubic is given twice"),
        (&["training", "-C", "cubic", "--seeds", "5"], "\"5\" is not a range of seeds"),
        (&["training", "-C", "cubic", "--seeds", "5..4"], "the range of seeds 5..4 is empty"),
        (&["test", "-C", "cubic", "--seeds", "1..4"], "are not within the set test, which has 1001..1300"),
        (&["any", "-C", "cubic"], "the set any needs --seeds, as in --seeds 1..10"),
        (&["training"], "--controller <NAME,...>"),
        (&["training", "-C", "cubic", "--quick"], "cannot be used with"),
        (&["training", "-C", "cubic", "scores"], "cannot be used with"),
    ] {
        let error = told(arguments);
        assert!(error.contains(expected), "{arguments:?} {error}");
    }
    assert!(refusal(&["run", "scores", "-C", "cubic"]).contains("-C is only for --random"));
}
