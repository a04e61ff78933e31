//! Parts of a sweep, and merging them.

use std::fs;

use crate::common::{Place, SMALL, json_lines, lab, refused, text};

/// Runs the small experiment as a whole and in three parts, and returns its file.
fn parts(place: &Place) -> String {
    let file = place.file("small.toml", SMALL);
    assert_eq!(lab(&["run", &file, "--out", &place.path("whole")]).status.code(), Some(0));
    for part in ["1", "2", "3"] {
        let output = lab(&["run", &file, "--shard", &format!("{part}/3"), "--out", &place.path(part)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "a part has no verdict");
        let told = text(&output.stderr);
        assert!(
            told.contains(&format!("part {part}/3: its 8 runs are in ")) && told.contains("longhaul-lab merge OUT"),
            "{told}"
        );
    }
    file
}

#[test]
fn parts_are_joined_to_the_whole() {
    let place = Place::new("parts");
    parts(&place);
    let [out, one, two, three] = ["out", "1", "2", "3"].map(|name| place.path(name));
    let incomplete = lab(&["merge", &out, &three, &one]);
    assert_eq!(incomplete.status.code(), Some(1));
    assert!(incomplete.stdout.is_empty());
    assert!(text(&incomplete.stderr).starts_with("small: 16 of 24 runs exist, so that no row is judged\n"));
    assert!(text(&place.bytes("out/index.html")).contains("16 of 24 runs: not judged yet"));
    assert!(!place.exists("out/small/rows.json"));

    // Merge again with the missing part and with an existing one.
    let joined = lab(&["merge", &out, &two, &one, "--json"]);
    assert_eq!(joined.status.code(), Some(0), "{}", text(&joined.stderr));
    for name in ["lab.json", "small/rows.json", "small/rows.csv", "small/values.csv", "small/experiment.toml"] {
        assert_eq!(place.bytes(&format!("out/{name}")), place.bytes(&format!("whole/{name}")), "{name}");
    }
    assert_eq!(text(&place.bytes("out/small/runs.jsonl")).lines().count(), 24);
    assert_eq!(text(&joined.stdout).lines().count(), 3);
    let each = ["1", "2", "3"].map(|part| text(&place.bytes(&format!("{part}/small/runs.jsonl"))).lines().count());
    assert_eq!(each, [8; 3], "each run was made once");
}

#[test]
fn folders_that_do_not_belong_together_are_not_joined() {
    let place = Place::new("unlike");
    let file = parts(&place);
    let [out, one, two, three] = ["out", "1", "2", "3"].map(|name| place.path(name));
    let run = |file: &str, out: &str, more: &[&str]| {
        assert_eq!(lab(&[&["run", file, "--out", &place.path(out)], more].concat()).status.code(), Some(0));
    };
    run(&place.file("text.toml", &SMALL.replace("3%", "4%")), "text", &["--shard", "2/3"]);
    run(&file, "quick", &["--quick"]);
    for (other, told) in [
        ("text", "the texts of small differ; only parts of one sweep can be merged"),
        ("quick", "small has 6 and 2 runs per cell; only parts of one sweep can be merged"),
        ("nothing", "nothing has no lab.json: it is not a folder of results"),
    ] {
        refused(&["merge", &out, &one, &place.path(other)], told);
        assert!(!place.exists("out"), "nothing is written");
    }
    let told = "1 contains part 1/3 of a sweep, but a whole sweep is requested";
    refused(&["merge", &one, &two, &three], told);

    // One run with two different outcomes.
    let line = text(&place.bytes("1/small/runs.jsonl")).lines().next().unwrap().to_owned();
    let mut run: serde_json::Value = serde_json::from_str(&line).unwrap();
    run["took"] = 99.0.into();
    let mut runs = text(&place.bytes("2/small/runs.jsonl"));
    fs::write(place.path("2/small/runs.jsonl"), format!("{runs}{run}\n")).unwrap();
    assert_eq!(
        lab(&["merge", &place.path("alike"), &one, &two, &three]).status.code(),
        Some(0),
        "only its time differs"
    );
    run["values"][0] = 0.5.into();
    runs += &format!("{run}\n");
    fs::write(place.path("2/small/runs.jsonl"), runs).unwrap();
    let told = format!("small, cell {}, seed {} has different results; only parts", run["cell"], run["seed"]);
    refused(&["merge", &out, &one, &two], &told);
    assert!(!place.exists("out"));
}

/// Runs that `jobs` lists are made one by one, in folders of their own, and together are the whole.
#[test]
fn runs_made_one_by_one_are_the_whole() {
    let place = Place::new("one-by-one");
    let file = place.file("small.toml", SMALL);
    assert_eq!(lab(&["run", &file, "--quick", "--out", &place.path("whole")]).status.code(), Some(0));
    let listed = lab(&["jobs", &file, "--quick", "--json"]);
    let jobs = json_lines(&listed.stdout);
    assert_eq!(jobs.len(), 4 * 2, "cells times runs");
    assert!(jobs.iter().all(|job| job["cost"].as_u64().unwrap() > 0 && job["choices"]["loss"].is_string()), "{jobs:?}");
    let lines = text(&lab(&["jobs", &file, "--quick"]).stdout);
    assert!(
        lines
            .lines()
            .zip(&jobs)
            .all(|(line, job)| { line == format!("{}\t{}", job["run"].as_str().unwrap(), job["cost"]) })
    );
    let mut parts = vec!["merge".to_owned(), place.path("out")];
    for (nth, job) in jobs.iter().enumerate() {
        // The file of the experiment is not one of those that the program includes.
        let run = format!("{file}:{}:{}", job["cell"], job["seed"]);
        let folder = place.path(&format!("part-{nth}"));
        let output = lab(&["run", "--quick", "--run", &run, "--out", &folder]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{}", text(&output.stderr));
        assert_eq!(text(&place.bytes(&format!("part-{nth}/small/runs.jsonl"))).lines().count(), 1);
        parts.push(folder);
    }
    let merged = lab(&parts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(merged.status.code(), Some(0), "{}", text(&merged.stderr));
    for name in ["lab.json", "small/rows.json", "small/rows.csv", "small/values.csv"] {
        assert_eq!(place.bytes(&format!("out/{name}")), place.bytes(&format!("whole/{name}")), "{name}");
    }
    // A run that is not among those of the experiment is refused, as is a folder of chosen runs for a whole sweep.
    for run in ["small:4:1", "small:0:3", "small:0:0", "other:0:1"] {
        let run = run.replace("small", &file);
        let output = lab(&["run", "--quick", "--run", &run, "--out", &place.path("none")]);
        assert_eq!(output.status.code(), Some(2), "{run}: {}", text(&output.stderr));
    }
    refused(&["run", "--quick", "--run", "small", "--out", &place.path("none")], "write EXPERIMENT:CELL:SEED");
    refused(
        &["run", &file, "--quick", "--out", &parts[2]],
        "part-0 contains chosen runs, but a whole sweep is requested",
    );
}

/// A part made by another program is refused by merging and by continuing, unless the option accepts it; then both are
/// named.
#[test]
fn results_of_another_program_are_refused() {
    let place = Place::new("other-program");
    let file = parts(&place);
    let [out, one, two, three] = ["out", "1", "2", "3"].map(|name| place.path(name));
    let lab_json = text(&place.bytes("2/lab.json"));
    let other = lab_json.replace("\"program\": \"longhaul-lab ", "\"program\": \"longhaul-lab 0-");
    assert_ne!(other, lab_json);
    fs::write(place.path("2/lab.json"), other).unwrap();
    refused(&["merge", &out, &one, &two, &three], "small was run by longhaul-lab ");
    assert!(!place.exists("out"), "nothing is written");
    refused(&["run", &file, "--shard", "2/3", "--out", &two], "the results are by longhaul-lab ");
    let merged = lab(&["merge", &out, &one, &two, &three, "--any-program"]);
    assert_eq!(merged.status.code(), Some(0), "{}", text(&merged.stderr));
    let program = serde_json::from_slice::<serde_json::Value>(&place.bytes("out/lab.json")).unwrap();
    let program = program["experiments"]["small"]["program"].as_str().unwrap().to_owned();
    assert!(program.contains("longhaul-lab 0-") && program.matches("longhaul-lab").count() == 2, "{program}");
    assert_eq!(lab(&["run", &file, "--shard", "2/3", "--out", &two, "--any-program"]).status.code(), Some(0));
    refused(&["run", &file, "--shard", "2/3", "--out", &two], "the results are by longhaul-lab ");
}

/// Sweeps with seeds that follow each other are one sweep with all of them, and the runs of other seeds are others.
#[test]
fn seeds_of_two_machines_are_joined() {
    let place = Place::new("seeds");
    let file = place.file("small.toml", SMALL);
    for (seeds, out) in [("4", "whole"), ("1..2", "first"), ("3..4", "second"), ("101..104", "fresh")] {
        assert_eq!(lab(&["run", &file, "--seeds", seeds, "--out", &place.path(out)]).status.code(), Some(0), "{seeds}");
    }
    let [out, first, second, fresh] = ["out", "first", "second", "fresh"].map(|name| place.path(name));
    assert_eq!(lab(&["merge", &out, &second]).status.code(), Some(0), "a sweep of its own");
    assert_eq!(lab(&["merge", &out, &first]).status.code(), Some(0), "extended at its start");
    for name in ["lab.json", "small/rows.json", "small/rows.csv", "small/values.csv"] {
        assert_eq!(place.bytes(&format!("out/{name}")), place.bytes(&format!("whole/{name}")), "{name}");
    }
    assert_ne!(place.bytes("fresh/small/rows.json"), place.bytes("whole/small/rows.json"));
    let told = text(&lab(&["report", &fresh]).stdout);
    assert!(told.contains("1. reproduced") || told.contains("small"), "{told}");
    let seeds: Vec<u64> =
        json_lines(&place.bytes("fresh/small/runs.jsonl")).iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert!(seeds.iter().all(|seed| (101..=104).contains(seed)) && seeds.len() == 16, "{seeds:?}");
    refused(
        &["run", &file, "--seeds", "1..2", "--out", &fresh],
        "it has the seeds 101 to 104, but 1 to 2 are requested",
    );
    for (seeds, told) in [
        ("0..3", "a range begins with 1 at least"),
        ("3..2", "a range begins with 1 at least"),
        ("a..b", "neither a number of runs nor a range of seeds"),
        ("1..", "neither a number of runs nor a range of seeds"),
        ("1..99999999999999999999", "neither a number of runs nor a range of seeds"),
        ("1..9999999999999", "neither a number of runs nor a range of seeds"),
    ] {
        refused(&["run", &file, "--seeds", seeds, "--out", &out], told);
    }
}

/// Each execution is noted with its machine, time and command, in a file of its own, so that the others do not depend on
/// them; merging collects them.
#[test]
fn the_origin_of_runs_is_stored_and_shown() {
    let place = Place::new("origins");
    parts(&place);
    let origins = |folder: &str| json_lines(&place.bytes(&format!("{folder}/origins.jsonl")));
    let whole = origins("whole");
    assert_eq!(whole.len(), 1);
    for key in ["program", "commit", "modified", "executable", "compiler", "target", "host", "date", "command", "seeds"]
    {
        assert!(!whole[0][key].is_null(), "{key} in {}", whole[0]);
    }
    assert!(whole[0]["compiler"].as_str().unwrap().starts_with("rustc "), "{}", whole[0]);
    assert_eq!(whole[0]["seeds"], serde_json::json!(["small: 1 to 6"]));
    let command: Vec<&str> =
        whole[0]["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert!(command.ends_with(&["--out", &place.path("whole")]), "{command:?}");
    let [out, one, two, three] = ["out", "1", "2", "3"].map(|name| place.path(name));
    for _ in 0..2 {
        assert_eq!(lab(&["merge", &out, &one, &two, &three]).status.code(), Some(0));
        assert_eq!(origins("out").len(), 3, "each part once");
    }
    let page = text(&place.bytes("out/index.html"));
    assert!(page.contains("Where the runs come from") && page.matches(" --shard ").count() == 3, "{page}");
}

/// Indices of array jobs count from 0.
#[test]
fn parts_by_index_are_those_by_number() {
    let place = Place::new("index");
    let file = place.file("small.toml", SMALL);
    for (option, part, out) in [("--shard", "1/2", "number"), ("--shard-index", "0/2", "index")] {
        let output = lab(&["run", &file, "--quick", option, part, "--out", &place.path(out)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    assert_eq!(place.bytes("number/lab.json"), place.bytes("index/lab.json"));
    refused(&["run", &file, "--shard-index", "2/2", "--out", &place.path("index")], "is not the index of a part");
}

#[test]
fn invalid_shards_are_refused() {
    let place = Place::new("no-part");
    let file = parts(&place);
    let (one, whole) = (place.path("1"), place.path("whole"));
    for (arguments, told) in [
        (
            &["run", &file, "--shard", "3/2", "--out", &one][..],
            "\"3/2\" is not a part of a sweep; write 1/3, 2/3 or 3/3",
        ),
        (&["run", &file, "--shard", "2", "--out", &one], "\"2\" is not a part of a sweep"),
        (&["run", &file, "--shard", "1/3"], "--out <DIR>"),
        (
            &["run", &file, "--shard", "2/3", "--out", &one],
            "1 contains part 1/3 of a sweep, but part 2/3 of a sweep is requested",
        ),
        (&["run", &file, "--out", &one], "1 contains part 1/3 of a sweep, but a whole sweep is requested"),
        (
            &["run", &file, "--shard", "2/3", "--out", &whole],
            "whole contains a whole sweep, but part 2/3 of a sweep is requested",
        ),
        (&["merge", &whole], "<DIR>..."),
    ] {
        refused(arguments, told);
    }
}
