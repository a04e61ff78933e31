//! Contents of folders of results: pictures and the page.

use crate::common::{Place, SMALL, lab, text};

const PLOTS: &str = r#"
[series]
window = { value = "cwnd(x)", unit = "bytes", every = "100ms" }
data = { value = "segments(x)", unit = "bytes" }
acked = { value = "acks(x)", unit = "bytes" }

[[plots]]
id = "windows"
title = "Windows"
kind = "over-time"
series = ["window"]
over = "rate"
at = { loss = "3%" }

[[plots]]
id = "segments"
title = "Segments"
kind = "time-sequence"
series = ["data", "acked"]
at = { rate = "2mbit", loss = "3%" }
"#;

/// Pictures and the page exist after a run, contain the recorded data, and are drawn again by `report`.
#[test]
fn a_folder_has_pictures_and_a_page() {
    let place = Place::new("illustrate");
    let file = place.file("small.toml", &(SMALL.to_owned() + PLOTS));
    let output = lab(&["run", &file, "--quick", "--out", &place.path("out")]);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stderr));
    let files = ["plots/windows.svg", "plots/windows_cwnd.xpl", "plots/segments.svg", "plots/segments_tsg.xpl"];
    let files = files.map(|file| format!("out/small/{file}"));
    let before: Vec<Vec<u8>> = files.iter().map(|file| place.bytes(file)).collect();
    let drawn = text(&before[0]);
    assert!(drawn.contains("class=\"line s0\"") && !drawn.contains("nothing was recorded"), "{drawn}");
    assert!(text(&before[3]).matches("\ndarrow ").count() > 10);
    let page = text(&place.bytes("out/index.html"));
    assert_eq!(page.matches("<svg ").count(), 2);
    std::fs::remove_dir_all(place.path("out/small/plots")).unwrap();
    std::fs::remove_file(place.path("out/index.html")).unwrap();
    assert!(lab(&["report", &place.path("out")]).status.code().is_some_and(|code| code < 2));
    assert_eq!(files.iter().map(|file| place.bytes(file)).collect::<Vec<_>>(), before);
    assert_eq!(text(&place.bytes("out/index.html")), page);
}

/// `report` lists the rows that are not reproduced in the folder. A document gets their numbers only.
#[test]
fn the_list_is_in_the_folder_and_its_summary_in_the_document() {
    let place = Place::new("findings");
    let missed = "\n[[rows]]\nid = '4'\nmetric = 'share'\nat = { rate = '2mbit', loss = '3%' }\nrule = 'at least 2'\n\
                  note = 'A share is at most 1.'\n";
    let file = place.file("small.toml", &(SMALL.to_owned() + missed));
    let document = place.file("findings.md", "Before.\n\n<!-- results -->\n<!-- end of results -->\n");
    lab(&["run", &file, "--quick", "--out", &place.path("out")]);
    let report = lab(&["report", &place.path("out"), "--findings", &document, "--strict"]);
    assert_eq!(report.status.code(), Some(1), "{}", text(&report.stderr));
    let list = text(&place.bytes("out/not-reproduced.md"));
    assert!(
        list.starts_with("# Rows that are not reproduced\n\n## nobody\n\n* `small`: 3 (not reproducible)"),
        "{list}"
    );
    assert!(list.ends_with(", expected: at least 2): A share is at most 1.\n"), "{list}");
    let summary = text(&place.bytes("findings.md"));
    assert!(summary.starts_with("Before.\n\n<!-- results -->\n\n| source |"), "{summary}");
    assert!(summary.ends_with("\n* nobody: `small` 2\n\n<!-- end of results -->\n"), "{summary}");
    let again = lab(&["run", &file, "--quick", "--strict", "--out", &place.path("out")]);
    assert_eq!(again.status.code(), Some(1), "the folder can still be used: {}", text(&again.stderr));
}

/// Series of the first runs are recorded and drawn with fresh seeds, too.
#[test]
fn the_first_runs_with_fresh_seeds_are_recorded() {
    let place = Place::new("fresh");
    let few = (SMALL.to_owned() + PLOTS).replace("every = \"100ms\" }", "every = \"100ms\", runs = 1 }");
    let file = place.file("small.toml", &few.replace("over = \"rate\"\nat", "seed = 1\nover = \"rate\"\nat"));
    let output = lab(&["run", &file, "--seeds", "1001..1002", "--out", &place.path("out")]);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stderr));
    for file in ["windows.svg", "segments.svg"] {
        let drawn = text(&place.bytes(&format!("out/small/plots/{file}")));
        assert!(!drawn.contains("nothing was recorded") && drawn.contains("Run 1."), "{file}: {drawn}");
    }
    let runs = text(&place.bytes("out/small/runs.jsonl"));
    let with = |seed: &str| runs.lines().filter(|run| run.contains(seed) && run.contains("\"window\"")).count();
    assert_eq!((with("\"seed\":1001"), with("\"seed\":1002")), (4, 0), "of four cells");
}
