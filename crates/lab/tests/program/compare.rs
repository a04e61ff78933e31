//! The `report` and `compare` commands.

use std::fs;

use crate::common::{Place, SMALL, json_lines, lab, refused, text};
use serde_json::Value;

fn run(place: &Place, text: &str, out: &str, more: &[&str]) -> Option<i32> {
    let file = place.file(&format!("{out}.toml"), text);
    lab(&[&["run", &file, "--strict", "--out", &place.path(out)], more].concat()).status.code()
}

fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = lab(arguments);
    (
        output.status.code(),
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr))),
    )
}

/// The same algorithm with the same losses gives equal results. With a window limited to two segments by the receive
/// buffer, the row is not reproduced, and each cell is worse.
#[test]
fn worse_results_are_found() {
    let place = Place::new("worse");
    let strict =
        SMALL.replace("\"at least 0.5\"", "\"at least 0.9\"").replace("metric = \"share\"", "metric = \"goodput\"");
    assert_eq!(run(&place, &strict, "before", &[]), Some(0));
    assert_eq!(run(&place, &strict, "again", &["--jobs", "1"]), Some(0));
    let worse = strict.replace("congestion = \"cubic\"", "congestion = \"cubic\"\ntcp = { window = 2896 }");
    assert_ne!(worse, strict);
    assert_eq!(run(&place, &worse, "after", &[]), Some(1));
    let [before, again, after] = ["before", "again", "after"].map(|name| place.path(name));

    let (code, same) = json(&["compare", &before, &again, "--json"]);
    assert_eq!(code, Some(0));
    assert_eq!(same["verdicts"], Value::Array(Vec::new()));
    for change in same["rows"].as_array().unwrap().iter().chain(same["metrics"].as_array().unwrap()) {
        assert_eq!(change["change"], "same", "{change}");
    }
    assert_eq!((same["rows"].as_array().unwrap().len(), same["metrics"].as_array().unwrap().len()), (3, 8));

    let (code, changed) = json(&["compare", &before, &after, "--json"]);
    assert_eq!(code, Some(1), "{changed}");
    let goodput = |comparison: &Value, change: &str| {
        let metrics = comparison["metrics"].as_array().unwrap().clone();
        metrics.iter().filter(|one| one["metric"] == "goodput" && one["change"] == change).count()
    };
    assert_eq!(goodput(&changed, "worse"), 4, "{changed}");
    let lost = &changed["verdicts"][0];
    assert_eq!(
        (&lost["before"], &lost["after"], &lost["change"]),
        (&"reproduced".into(), &"not-reproduced".into(), &"worse".into())
    );
    assert_eq!(changed["unlike"]["other_text"], serde_json::json!(["small"]));
    let (code, back) = json(&["compare", &after, &before, "--json"]);
    assert_eq!((code, goodput(&back, "better")), (Some(0), 4));
    assert_eq!(back["verdicts"][0]["change"], "better");

    let printed = text(&lab(&["compare", &before, &after]).stdout);
    assert!(printed.starts_with("verdicts\n  worse    small "), "{printed}");
    assert!(printed.contains("reproduced -> NOT reproduced"), "{printed}");
    assert!(printed.contains("rows: 0 better, ") && printed.contains("metrics: 0 better, 4 worse, "), "{printed}");
}

/// Other random losses at the same rate are not distinguishable from chance, although all values differ.
#[test]
fn chance_is_no_change() {
    let place = Place::new("chance");
    assert_eq!(run(&place, SMALL, "before", &[]), Some(0));
    // The second folder has the runs with seeds 7 to 12, renamed to 1 to 6.
    assert_eq!(run(&place, SMALL, "after", &["--seeds", "12"]), Some(0));
    let renamed: String = text(&place.bytes("after/small/runs.jsonl"))
        .lines()
        .filter_map(|line| {
            let mut run: Value = serde_json::from_str(line).unwrap();
            let seed = run["seed"].as_u64().unwrap().checked_sub(6).filter(|seed| *seed > 0)?;
            run["seed"] = seed.into();
            Some(format!("{run}\n"))
        })
        .collect();
    fs::write(place.path("after/small/runs.jsonl"), renamed).unwrap();
    let lab_json = text(&place.bytes("after/lab.json")).replace("\"runs\": 12", "\"runs\": 6");
    fs::write(place.path("after/lab.json"), lab_json).unwrap();
    let (code, changes) = json(&["compare", &place.path("before"), &place.path("after"), "--json"]);
    assert_eq!(code, Some(0));
    let metrics = changes["metrics"].as_array().unwrap();
    let same = metrics.iter().filter(|one| one["change"] == "same").count();
    assert!(metrics.iter().all(|one| one["medians"][0] != one["medians"][1]), "{changes}");
    assert!(same >= 7, "{same} of 8, at 95 %: {changes}");
}

#[test]
fn experiments_in_only_one_folder_are_listed() {
    let place = Place::new("only");
    assert_eq!(run(&place, SMALL, "a", &["--quick"]), Some(0));
    assert_eq!(run(&place, &SMALL.replace("\"small\"", "\"second\""), "b", &["--quick"]), Some(0));
    let (code, changes) = json(&["compare", &place.path("a"), &place.path("b"), "--json"]);
    assert_eq!(code, Some(2), "nothing was compared");
    assert_eq!(changes["unlike"]["only_before"], serde_json::json!(["small"]));
    assert_eq!(changes["unlike"]["only_after"], serde_json::json!(["second"]));
    let printed = text(&lab(&["compare", &place.path("a"), &place.path("b")]).stdout);
    assert!(printed.contains("/a\n  small\n") && printed.contains("/b\n  second\n"), "{printed}");

    assert_eq!(run(&place, &SMALL.replace("\"small\"", "\"second\""), "a", &["--quick"]), Some(0));
    assert_eq!(json(&["compare", &place.path("a"), &place.path("b"), "--json"]).0, Some(0), "what both have");

    fs::create_dir(place.path("empty")).unwrap();
    for (command, path) in [("compare", "empty"), ("compare", "nothing"), ("report", "empty")] {
        let folders = [place.path(path), place.path("a")];
        let arguments = if command == "compare" { &folders[..] } else { &folders[..1] };
        let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
        let told = format!("{path} has no lab.json: it is not a folder of results");
        refused(&[&[command], &arguments[..]].concat(), &told);
    }
}

/// If an experiment is incomplete in the second folder, it is unknown whether its reproduced rows still are.
#[test]
fn an_experiment_without_an_end_has_lost_its_rows() {
    let place = Place::new("without-end");
    assert_eq!(run(&place, SMALL, "before", &[]), Some(0));
    assert_eq!(run(&place, SMALL, "after", &["--at", "rate=2mbit"]), Some(0));
    let (code, changes) = json(&["compare", &place.path("before"), &place.path("after"), "--json"]);
    assert_eq!(code, Some(1));
    assert_eq!(changes["unlike"]["incomplete"], serde_json::json!(["small"]));
    let lost: Vec<&Value> = changes["verdicts"].as_array().unwrap().iter().map(|row| &row["row"]).collect();
    assert!(!lost.is_empty(), "{changes}");
    assert_eq!(json(&["compare", &place.path("after"), &place.path("before"), "--json"]).0, Some(0));
}

#[test]
fn a_report_summarises_a_folder() {
    let place = Place::new("report");
    assert_eq!(run(&place, &SMALL.replace("at least 0.5", "at least 50"), "folder", &[]), Some(1));
    let other = SMALL.replace("\"small\"", "\"second\"").replace("table 1", "figure 2");
    assert_eq!(run(&place, &other, "folder", &["--quick"]), Some(0));
    // Remove one run.
    let runs = text(&place.bytes("folder/second/runs.jsonl"));
    let all_but_one: String = runs.split_inclusive('\n').skip(1).collect();
    fs::write(place.path("folder/second/runs.jsonl"), all_but_one).unwrap();
    let folder = place.path("folder");
    let (code, report) = json(&["report", &folder, "--json", "--strict"]);
    assert_eq!(code, Some(1), "a claim is not reproduced");
    assert_eq!(json(&["report", &folder, "--json"]).0, Some(0), "the report has been made");
    let none = serde_json::json!({
        "reproduced": 0, "undecided": 0, "not_reproduced": 0, "not_reproducible": 0, "incomplete": 0
    });
    assert_eq!(
        report["papers"],
        serde_json::json!([{ "paper": "nobody", "model": none, "robustness": none, "claims": {
            "reproduced": 1, "undecided": 0, "not_reproduced": 1, "not_reproducible": 1, "incomplete": 3
        } }])
    );
    let [second, small] = [0, 1].map(|place| &report["experiments"][place]);
    assert_eq!((&second["experiment"], &second["ended"], &second["all"]), (&"second".into(), &7.into(), &8.into()));
    assert_eq!(second["rows"], serde_json::json!([]));
    assert_eq!(small["rows"], serde_json::from_slice::<Value>(&place.bytes("folder/small/rows.json")).unwrap());
    assert_eq!(small["times"], serde_json::from_slice::<Value>(&place.bytes("folder/small/times.json")).unwrap());
    let speed = small["flow_seconds_per_second"].as_f64().unwrap();
    assert!((speed * small["times"]["computed_seconds"].as_f64().unwrap() / 240.0 - 1.0).abs() < 1e-9);

    let printed = text(&lab(&["report", &folder]).stdout);
    assert!(
        printed.contains("NOT reproduced") && printed.contains("nobody") && printed.contains("1 / 0 / 1 / 1 / 3"),
        "{printed}"
    );
    assert!(printed.contains("\nincomplete\n  second ") && printed.contains(" 7 of 8 runs\n"), "{printed}");
    // The stored text must be that of the runs.
    fs::write(place.path("folder/second/experiment.toml"), SMALL).unwrap();
    refused(&["report", &folder], "second/experiment.toml: it is not the text of the runs");
}

#[test]
fn speed_is_measured() {
    let points = json_lines(&lab(&["speed", "--seconds", "0.001", "--jobs", "2", "--json"]).stdout);
    assert_eq!(points.len(), 3 * 4 * 2);
    for point in points {
        let [flows, simulated, at_a_time, processor, speed] =
            ["flows", "simulated", "at_a_time", "processor", "speed"].map(|key| point[key].as_f64().unwrap());
        assert!((flows * simulated * at_a_time / processor / speed - 1.0).abs() < 1e-9, "{point}");
    }
    let table = text(&lab(&["speed", "--seconds", "0.001", "--jobs", "1"]).stdout);
    assert_eq!(table.lines().count(), 2 + 12);
    assert!(table.starts_with("| flows | Mb/s | 1 at a time |\n|---:|---:|---:|\n| 1 | 1 | "), "{table}");
    refused(&["speed", "--seconds", "0"], "--seconds 0 is not within 0 to 3600");
}
