//! Folders of results: continuation after any interruption, and refusal of mismatched contents.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Place, SMALL, begin, json_lines, lab, refusal, refused, text};

/// The files of a complete experiment that are identical after every execution.
const SAME: [&str; 4] = ["small/rows.json", "small/rows.csv", "small/values.csv", "small/experiment.toml"];

/// Runs the small experiment without interruption into `whole`, and returns its file.
fn whole(place: &Place) -> String {
    whole_of(place, SMALL)
}

/// Does the same with more runs, for tests that interrupt it.
fn long_whole(place: &Place) -> String {
    whole_of(place, &SMALL.replace("\nruns = 6\n", "\nruns = 20\n"))
}

fn whole_of(place: &Place, definition: &str) -> String {
    let file = place.file("small.toml", definition);
    assert_eq!(lab(&["run", &file, "--out", &place.path("whole")]).status.code(), Some(0));
    file
}

fn assert_as_whole(place: &Place, folder: &str) {
    for name in SAME {
        let (ours, whole) = (place.bytes(&format!("{folder}/{name}")), place.bytes(&format!("whole/{name}")));
        assert_eq!(text(&ours), text(&whole), "{name}");
    }
    assert_eq!(place.bytes(&format!("{folder}/lab.json")), place.bytes("whole/lab.json"));
}

#[test]
fn a_folder_contains_the_rows_and_the_values() {
    let place = Place::new("contents");
    let file = whole(&place);
    let printed = text(&lab(&["run", &file, "--json"]).stdout);
    let rows = text(&place.bytes("whole/small/rows.json"));
    let lines: Vec<&str> =
        rows.lines().filter(|line| line.starts_with('{')).map(|line| line.trim_end_matches(',')).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines, "what is printed is what is written");
    let parsed: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
    let keys: Vec<&str> = parsed[0].as_object().unwrap().keys().map(String::as_str).collect();
    let mut asked = [
        "experiment",
        "row",
        "paper",
        "claim",
        "kind",
        "metric",
        "unit",
        "paper_value",
        "ours",
        "interval",
        "margins",
        "rule",
        "verdict",
        "reason",
        "isolated_by",
        "seeds",
    ];
    asked.sort_unstable();
    assert_eq!(keys, asked);
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab.md")).unwrap();
    let fields = &manual[manual.find("| field of a row |").unwrap()..manual.find("The same seeds give").unwrap()];
    assert!(keys.iter().all(|key| fields.contains(&format!("`{key}`"))), "docs/lab.md explains each field: {keys:?}");

    let values = text(&place.bytes("whole/small/values.csv"));
    assert_eq!(values.lines().next(), Some("rate,loss,seed,goodput,share"));
    assert!(values.lines().nth(7).unwrap().starts_with("2mbit,3%,1,"), "{values}");
    assert_eq!(values.lines().count(), 1 + 4 * 6);
    let rows = text(&place.bytes("whole/small/rows.csv"));
    assert_eq!(rows.lines().count(), 1 + 2 + 1 + 1, "a value a line");
    assert!(rows.contains(",\"a share, and a comma\"\n"), "{rows}");
    let times: serde_json::Value = serde_json::from_slice(&place.bytes("whole/small/times.json")).unwrap();
    assert_eq!((times["runs"].as_u64(), times["flow_seconds"].as_f64()), (Some(24), Some(240.0)));
    assert!(times["computed_seconds"].as_f64().unwrap() > 0.0 && times["wall_seconds"].as_f64().unwrap() > 0.0);
}

/// Selected cells have the same runs and rows as in a full sweep, and the remaining runs can be added to the same
/// folder.
#[test]
fn cells_that_are_chosen_are_a_part_of_the_whole() {
    let place = Place::new("chosen");
    let file = whole(&place);
    let rows = |printed: &[u8]| text(printed).lines().map(str::to_owned).collect::<Vec<_>>();
    let all = rows(&lab(&["run", &file, "--json"]).stdout);
    let some = ["run", &file, "--at", "rate=2mbit", "--json", "--out", &place.path("part")];
    let output = lab(&some);
    let chosen = rows(&output.stdout);
    assert!(!chosen.is_empty() && chosen.len() < all.len() && chosen.iter().all(|row| all.contains(row)), "{chosen:?}");
    let left_out = format!("small: rows skipped because they need other cells: {}", all.len() - chosen.len());
    assert!(text(&output.stderr).contains(&left_out), "{}", text(&output.stderr));
    assert_eq!(text(&place.bytes("part/small/runs.jsonl")).lines().count(), 2 * 6, "two losses, six runs of each");
    assert!(!Path::new(&place.path("part/small/rows.json")).exists());

    assert_eq!(rows(&lab(&some).stdout), chosen, "of runs that are there");
    assert_eq!(rows(&lab(&["run", &file, "--json", "--out", &place.path("part")]).stdout), all);
    assert_as_whole(&place, "part");
    assert_eq!(rows(&lab(&some).stdout), chosen, "of a folder that has more");

    for (arguments, told) in [
        (
            &["--at", "rate=3mbit"][..],
            "--at rate=3mbit: small: \"3mbit\" is not a choice on the axis \"rate\"; there are: ",
        ),
        (&["--at", "speed=1"], "--at speed=1: small: there is no axis \"speed\""),
        (
            &["--at", "rate=2mbit", "--out", "x", "--shard", "1/2"],
            "'--at <AXIS=CHOICE>' cannot be used with '--shard <I/N>'",
        ),
    ] {
        refused(&[&["run", &file], arguments].concat(), told);
    }
}

/// A program killed after the first, several and most runs can be continued to the same result.
#[test]
fn killed_runs_are_resumed() {
    let place = Place::new("killed");
    let file = long_whole(&place);
    let run = ["run", &file, "--jobs", "1", "--out", &place.path("killed")];
    for lines in [1, 10, 30] {
        let mut child = begin(&run);
        place.wait_for("killed/small/runs.jsonl", lines);
        // This sends SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(!place.exists("killed/small/rows.json"), "it ended before it was killed");
    let before = place.bytes("killed/small/runs.jsonl");
    let kept = before.iter().rposition(|byte| *byte == b'\n').unwrap();
    assert_eq!(lab(&run).status.code(), Some(0));
    assert_as_whole(&place, "killed");
    let after = place.bytes("killed/small/runs.jsonl");
    assert_eq!(after[..kept], before[..kept], "what was there is as it was, its times included");
    assert_eq!(after.iter().filter(|byte| **byte == b'\n').count(), 80, "and nothing ran twice");
}

/// A file of runs truncated anywhere is cut to complete lines and completed. A folder without the files derived from
/// all runs is completed, too.
#[test]
fn truncated_results_are_completed() {
    let place = Place::new("cut");
    let file = whole(&place);
    let runs = place.bytes("whole/small/runs.jsonl");
    let line_ends = runs.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    let ends: Vec<usize> = line_ends.collect();
    for length in [0, 1, ends[0], ends[0] + 1, ends[3] + 20, ends[11] - 1, ends[20] + 2, runs.len() - 1, runs.len()] {
        let folder = place.path("whole");
        let rows = place.bytes("whole/small/rows.json");
        fs::write(place.path("whole/small/runs.jsonl"), &runs[..length]).unwrap();
        fs::write(place.path("whole/small/rows.json"), &rows[..length.min(rows.len()) / 2]).unwrap();
        fs::remove_file(place.path("whole/small/values.csv")).unwrap();
        assert_eq!(lab(&["run", &file, "--out", &folder]).status.code(), Some(0));
        assert_eq!(place.bytes("whole/small/rows.json"), rows, "cut to {length}");
        let now = place.bytes("whole/small/runs.jsonl");
        let kept = runs[..length].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        assert_eq!(now[..kept], runs[..kept], "cut to {length}");
        assert_eq!(now.iter().filter(|byte| **byte == b'\n').count(), 24, "cut to {length}");
        let report = lab(&["report", &folder]);
        assert_eq!(report.status.code(), Some(0), "cut to {length}: {}", text(&report.stderr));
        assert!(place.exists("whole/small/values.csv"));
    }
}

/// SIGINT (Ctrl-C) and SIGTERM end the program with the completed runs stored, and it prints how to continue.
#[cfg(unix)]
#[test]
fn interrupted_runs_are_resumed() {
    let place = Place::new("interrupted");
    let file = long_whole(&place);
    let run = ["run", &file, "--jobs", "1", "--out", &place.path("interrupted")];
    for (signal, lines) in [("-INT", 2), ("-TERM", 20)] {
        let child = begin(&run);
        place.wait_for("interrupted/small/runs.jsonl", lines);
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{told}");
        assert!(
            told.contains("; the same command continues from there") && told.contains(" runs are kept in "),
            "{told}"
        );
        let runs = place.bytes("interrupted/small/runs.jsonl");
        assert_eq!(runs.last(), Some(&b'\n'));
        assert!(place.exists("interrupted/small/times.json"));
    }
    assert_eq!(lab(&run).status.code(), Some(0));
    assert_as_whole(&place, "interrupted");
}

#[test]
fn more_seeds_add_runs_and_fewer_are_refused() {
    let place = Place::new("seeds");
    let file = whole(&place);
    let folder = place.path("more");
    assert_eq!(lab(&["run", &file, "--quick", "--out", &folder]).status.code(), Some(0));
    let quick = place.bytes("more/small/runs.jsonl");
    assert_eq!(lab(&["run", &file, "--seeds", "6", "--out", &folder]).status.code(), Some(0));
    assert_as_whole(&place, "more");
    assert!(place.bytes("more/small/runs.jsonl").starts_with(&quick));
    let told = "small has 6 runs per cell, but 2 are requested; request at least 6 with --seeds";
    refused(&["run", &file, "--quick", "--out", &folder], told);
    assert_as_whole(&place, "more");
}

/// Results of another text or program are kept until overwriting is requested, which does not affect other
/// experiments.
#[test]
fn different_results_are_not_overwritten_unless_requested() {
    let place = Place::new("differs");
    let file = whole(&place);
    let folder = place.path("whole");
    let second = place.file("second.toml", &SMALL.replace("\"small\"", "\"second\""));
    assert_eq!(lab(&["run", &second, "--quick", "--out", &folder]).status.code(), Some(0));
    let (rows, runs) = (place.bytes("whole/small/rows.json"), place.bytes("whole/small/runs.jsonl"));

    let other = place.file("other.toml", &SMALL.replace("\"second\"", "\"small\"").replace("3%", "4%"));
    for arguments in
        [&["run", &other, "--out", &folder][..], &["run", &second, &other, "--seeds", "8", "--out", &folder]]
    {
        let told = refusal(arguments);
        assert!(
            told.contains(
                "the results are of another text, which differs in more than rows, plots and comments; it is in "
            ) && told.contains("--overwrite"),
            "{told}"
        );
        assert_eq!(place.bytes("whole/small/runs.jsonl"), runs);
    }
    assert!(place.exists("whole/second/rows.json"), "a refusal changes nothing of what comes before");

    fs::write(
        place.path("whole/lab.json"),
        text(&place.bytes("whole/lab.json")).replace("longhaul-lab ", "longhaul-lab 99."),
    )
    .unwrap();
    let told = refusal(&["run", &file, "--out", &folder]);
    assert!(
        told.contains("the results are by longhaul-lab 99.") && told.contains(", and this is longhaul-lab "),
        "{told}"
    );
    assert_eq!(place.bytes("whole/small/rows.json"), rows);

    let second_runs = place.bytes("whole/second/runs.jsonl");
    fs::write(place.path("whole/mine.txt"), "mine").unwrap();
    let output = lab(&["run", &other, "--seeds", "1", "--out", &folder, "--overwrite"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&place.bytes("whole/small/runs.jsonl")).lines().count(), 4);
    assert!(text(&place.bytes("whole/small/values.csv")).contains("4%"));
    assert_eq!(place.bytes("whole/second/runs.jsonl"), second_runs);
    assert_eq!(place.bytes("whole/mine.txt"), b"mine");
}

/// Rows and pictures are derived from runs. If their definitions change, the runs are kept.
#[test]
fn rows_may_change_and_runs_stay() {
    let place = Place::new("rows");
    whole(&place);
    let runs = place.bytes("whole/small/runs.jsonl");
    fs::create_dir(place.path("whole/small/plots")).unwrap();
    fs::write(place.path("whole/small/plots/former.svg"), "<svg/>").unwrap();
    fs::write(place.path("whole/small/plots/mine.txt"), "mine").unwrap();
    let other = place.file("other.toml", &format!("# Too much.\n{}", SMALL.replace("at least 0.5", "at least 50")));
    assert_eq!(lab(&["run", &other, "--strict", "--out", &place.path("whole")]).status.code(), Some(1));
    assert_eq!(place.bytes("whole/small/runs.jsonl"), runs);
    assert_eq!(place.bytes("whole/small/experiment.toml"), fs::read(&other).unwrap());
    assert!(text(&place.bytes("whole/small/rows.json")).contains("\"not-reproduced\""));
    assert!(!place.exists("whole/small/plots/former.svg") && place.exists("whole/small/plots/mine.txt"));
}

#[test]
fn unusable_result_folders_are_reported() {
    let place = Place::new("refused");
    let file = whole(&place);
    let lab_json = text(&place.bytes("whole/lab.json"));
    let out = |folder: &str, told: &str| refused(&["run", &file, "--out", folder], told);

    out(&file, "small.toml is a file; name a folder for results");
    out("/dev/null/results", "longhaul-lab: /dev/null/results: Not a directory");

    fs::create_dir(place.path("mine")).unwrap();
    fs::write(place.path("mine/letter.txt"), "dear").unwrap();
    let told = "mine contains letter.txt, which is not a result, so nothing is written there";
    out(&place.path("mine"), told);
    assert_eq!(fs::read_dir(place.path("mine")).unwrap().count(), 1);

    for (from, to, wanted) in [
        (
            "\"format\": 2",
            "\"format\": 1",
            "has format 1, and this program has format 2; use the program that wrote it",
        ),
        ("\"format\"", "\"fromat\"", "lab.json: missing field `format`"),
        ("\"blake3\"", "blake3", "lab.json: "),
    ] {
        fs::write(place.path("whole/lab.json"), lab_json.replace(from, to)).unwrap();
        out(&place.path("whole"), wanted);
    }
    fs::write(place.path("whole/lab.json"), &lab_json).unwrap();

    let runs = text(&place.bytes("whole/small/runs.jsonl"));
    let lines: Vec<&str> = runs.lines().collect();
    for (line, wanted) in [
        ("{\"cell\":", "line 3: not a run ("),
        (&lines[2].replacen(":", ":9", 1), "line 3: cell 9"),
        (&lines[1].replace("\"values\":[", "\"values\":[1"), "line 3: cell "),
    ] {
        let damaged = [lines[0], lines[1], line, lines[3], ""].join("\n");
        fs::write(place.path("whole/small/runs.jsonl"), damaged).unwrap();
        out(&place.path("whole"), wanted);
        out(&place.path("whole"), "it is damaged: repeat the experiment with --overwrite");
    }
    refused(&["run", &file, "--overwrite"], "--out");
    assert_eq!(lab(&["run", &file, "--out", &place.path("whole"), "--overwrite"]).status.code(), Some(0));
}

/// Two programs cannot write to the same folder. The lock of a killed program is released.
#[cfg(unix)]
#[test]
fn one_program_writes_at_a_time() {
    let place = Place::new("locked");
    let file = place.file("small.toml", SMALL);
    let folder = place.path("folder");
    let mut first = begin(&["run", &file, "--seeds", "1000", "--out", &folder]);
    place.wait_for("folder/small/runs.jsonl", 1);
    let told = refusal(&["run", &file, "--seeds", "1000", "--out", &folder]);
    assert!(told.contains("another longhaul-lab writes there and has locked ") && told.contains("lab.lock;"), "{told}");
    let report = lab(&["report", &folder]);
    assert!(text(&report.stdout).contains(" of 4000 runs"), "reading goes on: {}", text(&report.stderr));
    first.kill().unwrap();
    first.wait().unwrap();
    refused(&["run", &file, "--seeds", "1", "--out", &folder], "has 1000 runs per cell");
}

/// All experiments share one queue, and their rows are printed in the requested order.
#[test]
fn several_experiments_print_in_order() {
    let place = Place::new("several");
    let long = place.file("long.toml", &SMALL.replace("\"small\"", "\"long\"").replace("\"10s\"", "\"15s\""));
    let short = place.file("short.toml", &SMALL.replace("\"small\"", "\"short\""));
    for (files, order) in [([&short, &long], ["short", "long"]), ([&long, &short], ["long", "short"])] {
        let output = lab(&["run", files[0], files[1], files[0], "--quick", "--json"]);
        let rows = json_lines(&output.stdout);
        let names: Vec<&str> = rows.iter().map(|row| row["experiment"].as_str().unwrap()).collect();
        assert_eq!(names, [[order[0]; 3], [order[1]; 3]].concat());
    }
    let twin = place.file("twin.toml", &SMALL.replace("\"small\"", "\"long\""));
    refused(&["run", &long, &twin], "another requested experiment also has the id \"long\"");
}

/// For a metric that relates cells to each other, tables of rows contain related values, and tables of values contain
/// measured ones.
#[test]
fn tables_contain_judgements_and_measurements() {
    let place = Place::new("relative");
    let relative = "share = { value = \"goodput(x)\", unit = \"\", relative-to = { loss = \"0.5%\" } }\n\n[[rows]]";
    let start = SMALL.find("share = ").unwrap();
    let end = SMALL.find("[[rows]]").unwrap() + "[[rows]]".len();
    let file = place.file("small.toml", &[&SMALL[..start], relative, &SMALL[end..]].concat());
    let output = lab(&["run", &file, "--out", &place.path("folder"), "--json"]);
    let rows = json_lines(&output.stdout);
    let [ours, low, high] =
        [&rows[1]["ours"], &rows[1]["interval"][0], &rows[1]["interval"][1]].map(ToString::to_string);
    assert!(rows[1]["ours"].as_f64().unwrap() < 1.0, "losses cost goodput: {}", rows[1]);
    let table = text(&place.bytes("folder/small/rows.csv"));
    assert!(table.lines().nth(3).unwrap().contains(&format!(",,{ours},{low},{high},")), "{table}");
    let values = text(&place.bytes("folder/small/values.csv"));
    for line in values.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[3], fields[4], "both are the goodput: {line}");
    }
}
