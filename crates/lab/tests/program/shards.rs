//! Parts of a sweep, and merging them.

use std::fs;

use crate::common::{Place, SMALL, lab, refused, text};

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
    run(&place.file("second.toml", &SMALL.replace("\"small\"", "\"second\"")), "second", &["--shard", "2/3"]);
    run(&file, "quick", &["--quick"]);
    for (other, told) in [
        ("text", "the texts of small differ; only parts of one sweep can be merged"),
        ("second", "1 has small; only parts of one sweep can be merged"),
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
