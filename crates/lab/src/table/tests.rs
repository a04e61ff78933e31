use super::*;

const TEXT: &str = r#"id = "x"
title = "X"
source = "nobody"
runs = 3
quick-runs = 1
duration = "1s"
bottleneck = "--rate 1mbit"
[[axes]]
name = "controller"
defaults = { digits = 1 }
choices = ["cubic", { name = "bbr", digits = 2 }]
[[axes]]
name = "link"
choices = ["a", "b"]
[[flows]]
name = "x"
congestion = "cubic"
[metrics]
time = { value = "goodput(x)", unit = "s" }
lost = { value = "drops()", unit = "" }
[[tables]]
id = "all"
lines = "controller"
label = "`{controller}`"
across = "link"
columns = [{ head = "link {link}", value = "median(time)", digits = "{digits}", never = "never", also = "sum(lost) / 3" }]
[[tables]]
id = "one"
lines = "link"
columns = [
    { head = "`{controller}`", value = "least(time)" },
    { head = "`cubic`", at = { controller = "cubic" }, value = "least(time)" },
    { head = "best", value = "median(time)", best = "controller", better = "least" },
]
[[tables]]
id = "words"
lines = "controller"
columns = [
    { head = "word", words = [{ word = "slow", when = "most(time) > 4" }], otherwise = "fast", each = "link" },
    { head = "safety", safety = "{controller}" },
]
"#;

/// Returns runs of the cells (cubic, a), (cubic, b), (bbr, a), (bbr, b).
fn records(times: [[Option<f64>; 3]; 4]) -> Vec<Record> {
    let runs = |(cell, times): (usize, [Option<f64>; 3])| {
        (1..).zip(times).map(move |(seed, time)| {
            // Metrics are in the order of their names.
            Record { cell, seed, values: vec![Some(cell as f64), time], ..Record::default() }
        })
    };
    times.into_iter().enumerate().flat_map(runs).collect()
}

fn some(times: [f64; 3]) -> [Option<f64>; 3] {
    times.map(Some)
}

#[test]
fn cells_are_statistics_of_the_chosen_runs() {
    let experiment = Experiment::read("x.toml", TEXT).unwrap();
    let times = [some([3.0, 1.0, 2.0]), [None, None, Some(1.0)], some([5.0; 3]), some([4.0, 0.5, 0.6])];
    let records = records(times);
    let measured = Measured::new(&experiment, &records, 3);
    let table = |nth: usize, at: &[(&str, &str)]| experiment.tables[nth].fill(&measured, at).unwrap().markdown("");
    assert_eq!(
        table(0, &[]),
        "|  | link a | link b |\n|---|--:|--:|\n| `cubic` | 2.0 | never |\n| `bbr` | 5.00 (2.0) | 0.60 (3.0) |\n"
    );
    assert_eq!(
        table(1, &[("controller", "bbr")]),
        "|  | `bbr` | `cubic` | best |\n|---|--:|--:|--:|\n| a | 5.0 | 1.0 | 2.0 `cubic` |\n| b | 0.5 |  | 0.6 `bbr` |\n"
    );
    assert!(table(1, &[("controller", "cubic")]).starts_with("|  | `cubic` | best |\n"), "a repeated column");
    assert!(table(2, &[]).ends_with("| cubic | fast | internet |\n| bbr | slow | internet |\n"), "{}", table(2, &[]));
    assert!(experiment.tables[1].fill(&measured, &[("controller", "reno")]).is_err());
}

#[test]
fn cells_of_incomplete_runs_remain() {
    let experiment = Experiment::read("x.toml", TEXT).unwrap();
    let mut records = records([some([1.0; 3]), some([2.0; 3]), some([3.0; 3]), some([4.0; 3])]);
    records.retain(|record| record.cell != 1 && (record.cell, record.seed) != (2, 3));
    let measured = Measured::new(&experiment, &records, 3);
    let grid = experiment.tables[0].fill(&measured, &[]).unwrap();
    let old = "|  | link b | link a |\n|---|--:|--:|\n| `cubic` | old | 9.9 |\n";
    assert_eq!(
        grid.markdown(old),
        "|  | link a | link b |\n|---|--:|--:|\n| `cubic` | 1.0 | old |\n| `bbr` |  | 4.00 (3.0) |\n"
    );
}

/// The mark of a disturbed run is at all cells that it is part of.
#[test]
fn cells_of_disturbed_runs_are_marked() {
    let experiment = Experiment::read("x.toml", TEXT).unwrap();
    let mut records = records([some([1.0; 3]), some([2.0; 3]), some([3.0; 3]), some([4.0; 3])]);
    let disturbed = records.iter_mut().find(|record| (record.cell, record.seed) == (3, 2));
    disturbed.unwrap().disturbed = true;
    let grid = experiment.tables[0].fill(&Measured::new(&experiment, &records, 3), &[]).unwrap();
    assert_eq!(
        grid.markdown(""),
        "|  | link a | link b |\n|---|--:|--:|\n| `cubic` | 1.0 | 2.0 (1.0) |\n| `bbr` | 3.00 (2.0) | 4.00 (3.0)* |\n"
    );
}

#[test]
fn wrong_tables_are_refused() {
    for (from, to, told) in [
        ("least(time)", "smallest(time)", "is no statistic"),
        ("least(time)", "least(rate)", "there is no metric \"rate\""),
        ("lines = \"link\"", "lines = \"rtt\"", "there is no axis \"rtt\""),
        ("link {link}", "link {rtt}", "there is no variable \"rtt\""),
        ("better = \"least\"", "better = \"first\"", "is neither most nor least"),
        ("id = \"one\"", "id = \"all\"", "tables.id: \"all\" occurs twice"),
        ("{ controller = \"cubic\" }", "{ controller = \"reno\" }", "is not a choice"),
    ] {
        let error = Experiment::read("x.toml", &TEXT.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
