//! A verdict is meaningful only if a wrong algorithm changes it: reproduced rows with another algorithm in place of
//! the right one.

use crate::common::{Place, json_lines, lab};
use longhaul_lab::library;
use serde_json::Value;

/// Returns the rows of an experiment that are not reproduced after a text in its file has been replaced.
fn lost(id: &str, from: &str, to: &str) -> Vec<String> {
    lost_at(&[], id, from, to)
}

/// Returns the same rows as [`lost`], computed only from the cells that the options `at` select.
fn lost_at(at: &[&str], id: &str, from: &str, to: &str) -> Vec<String> {
    let file = format!("{id}.toml");
    let (_, original) = library::FILES.iter().find(|(name, _)| *name == file).unwrap();
    assert!(original.contains(from), "{id} has no {from}");
    let place = Place::new(&format!("verdicts-{id}-{from}").replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let verdicts = |text_of: &str| {
        let file = place.file(&file, text_of);
        let output = lab(&[&["run", &file, "--quick", "--json"], at].concat());
        let row = |row: &Value| (row["row"].as_str().unwrap().to_owned(), row["verdict"] == "reproduced");
        json_lines(&output.stdout).iter().map(row).collect::<Vec<_>>()
    };
    let both = verdicts(original).into_iter().zip(verdicts(&original.replace(from, to)));
    both.filter(|(right, wrong)| right.1 && !wrong.1).map(|(right, _)| right.0).collect()
}

/// If a parameter of an estimate is wrong, only the rows on this estimate change.
#[test]
fn a_wrong_divisor_is_seen() {
    let of = |gamma: &str| ["a", "b", "d"].map(|place| format!("SS-T4-{place} gamma {gamma}"));
    let startup = "startup=swift-start(gamma=4,tick=1),";
    let mut expected = of("4").to_vec();
    // Over 0.5 Mb/s and 500 ms, the full estimated window is ahead of slow start, and a quarter of it is behind.
    expected.push("SS-T4-c gamma 4, sign".into());
    expected.sort();
    assert_eq!(lost("swift-start-table-4", startup, "startup=swift-start(gamma=1,tick=1),"), expected);

    let rows = lost("swift-start-table-6", "gamma={gamma}", "gamma=4");
    assert_eq!(rows.len(), 12, "{rows:?}");
    assert!(rows.iter().all(|row| row.ends_with("gamma 1") || row.ends_with("gamma 8")), "{rows:?}");
}

#[test]
fn another_start_is_seen() {
    // BBN's and NASA's variants exchanged.
    let rows = lost("swift-start-figures-1-3", "swift-start-bbn(", "swift-start(");
    assert_eq!(
        rows,
        ["SS-FIG1", "SS-FIG2 at the first ACK", "SS-FIG2 gap", "SS-FIG2 the third", "SS-FIG2 pacing goes on"]
    );
    let rows = lost("swift-start-figures-1-3", "\"swift-start(", "\"swift-start-bbn(");
    assert_eq!(rows, ["SS-FIG1 in theory", "SS-FIG3 slow start resumes"]);
    // No start-up scheme.
    let rows = lost("swift-start-figure-6", "startup=swift-start(gamma=1,tick=1),", "");
    let slower = ["SS-F6-1 20 Mb/s, 500 ms, gamma 1", "SS-F6-1 5 Mb/s, 500 ms, gamma 1"];
    assert_eq!(rows, [&slower[..], &["SS-F6-2 gamma 1, each acknowledged"]].concat());
    let rows = lost("tcp-swift-speedy-start", "startup=speedy-start,recovery=speedy-recovery\"", "startup=none\"");
    assert!(rows.contains(&"SW-3 TCP-Swift, our variant".into()), "{rows:?}");
}

#[test]
fn another_initial_window_is_seen() {
    assert!(
        lost("tcp-swift-speedy-start", "startup=none", "slow-start=slow-start(iw=2)")
            .contains(&"SW-3 slow start".into())
    );
}

/// The order of algorithms in table V, and the prediction of the square-root law for HSTCP, at 0.5 % loss.
#[test]
fn another_law_is_seen() {
    let lost = |from, to| lost_at(&["--at", "loss=0.5%", "--at", "queue=0.5bdp"], "westwood-table-5", from, to);
    let order = "S1-UA-4c".to_owned();
    assert!(lost("avoidance=westwood-crb", "avoidance=new-reno").contains(&order), "TCPW that only halves");
    assert_eq!(lost("avoidance=fast", "avoidance=new-reno"), ["S1-UA-4c FAST"], "FAST that only halves");
    let rows = lost("avoidance=hstcp", "avoidance=westwood-bbe");
    assert!(rows.contains(&order) && rows.contains(&"S1-UA-4c HSTCP by formula".into()), "{rows:?}");
    // With such small windows, HSTCP (RFC 3649) equals Reno.
    assert_eq!(lost("avoidance=hstcp", "avoidance=new-reno"), [""; 0]);
}
