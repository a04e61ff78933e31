//! The rows of the five papers: each states a claim, and each rule can fail.

use longhaul_lab::experiment::{Experiment, Row};
use longhaul_lab::judge::{self, CLASSES, Judged};
use longhaul_lab::page::{self, Section};
use longhaul_lab::papers::PAPERS;
use longhaul_lab::record::Record;
use longhaul_lab::rule::{Rule, Verdict};
use longhaul_lab::{Kind, library};

/// The experiments of the five papers.
fn experiments() -> Vec<Experiment> {
    let all = library::FILES.iter().map(|(file, text)| Experiment::read(file, text).unwrap());
    let is_of_paper = |one: &Experiment| PAPERS.iter().any(|paper| one.definition.source.starts_with(paper.name));
    all.filter(is_of_paper).collect()
}

#[test]
fn rows_of_papers_state_their_claims_and_where_they_are() {
    const PLACES: [&str; 5] = ["figure", "table", "section", "page on", "page of"];
    let (mut rows, mut faults) = (0, Vec::new());
    for experiment in experiments() {
        for row in &experiment.rows {
            let has_place = row.kind != Kind::Claim || PLACES.iter().any(|place| row.claim.contains(place));
            // One sentence, which fits into a line of a table.
            let is_sentence = row.claim.ends_with('.') && row.claim.len() < 250 && row.claim.len() > 20;
            if !has_place || !is_sentence || row.claim.contains('{') {
                faults.push(format!("{}: {}: {:?}", experiment.id(), row.id, row.claim));
            }
            rows += 1;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(rows > 500, "{rows}");
}

const RUNS: u32 = 15;

/// Returns the judgement of a row if the values of its cells are these, each with an offset per run, and 1 elsewhere.
fn judged(experiment: &Experiment, nth: usize, values: &[f64], offset: impl Fn(u64, usize) -> f64) -> Judged {
    let row = experiment.rows[nth].judged.as_ref().unwrap();
    let mut records = Vec::new();
    for (cell, seed) in (0..experiment.cells.len()).flat_map(|cell| (1..=u64::from(RUNS)).map(move |seed| (cell, seed)))
    {
        let mut record = Record { cell, seed, ..Record::default() };
        record.values = vec![Some(1.0); experiment.definition.metrics.len()];
        if let Some(place) = row.cells.iter().position(|known| *known == cell) {
            record.values[row.metric] = Some(values[place] + offset(seed, place));
        }
        records.push(record);
    }
    let mut alone = experiment.clone();
    alone.rows = vec![alone.rows.swap_remove(nth)];
    judge::judge(&alone, &records, RUNS).swap_remove(0)
}

/// Returns values with which a rule holds, and values of a broken algorithm.
fn values(row: &Row) -> (Vec<f64>, Vec<Vec<f64>>) {
    let judged = row.judged.as_ref().unwrap();
    let descending = |step: &dyn Fn(f64) -> f64| {
        let mut values = vec![10.0];
        while values.len() < judged.cells.len() {
            values.push(step(values[values.len() - 1]));
        }
        values.reverse();
        values
    };
    let reversed = |values: Vec<f64>| {
        let other = values.iter().rev().copied().collect();
        (values, vec![other])
    };
    let last = |values: Vec<f64>, change: f64| {
        let mut other = values.clone();
        *other.last_mut().unwrap() += change;
        (values, vec![other])
    };
    match judged.rule {
        Rule::Decreasing(share) => reversed(descending(&|next| next * (1.1 + share))),
        Rule::NotIncreasing => reversed(descending(&|next| next * 1.1)),
        Rule::DecreasingWithin(least, most) => {
            let values = descending(&|next| next * (1.0 + f64::midpoint(least, most)));
            let (values, mut broken) = reversed(values);
            // Far above is no more "a little" than below.
            broken.push(descending(&|next| next * (1.2 + most)));
            (values, broken)
        }
        Rule::Above(least, most) => last(descending(&|next| next + f64::midpoint(least, most)), -2.0 - (most - least)),
        Rule::Alike(share) | Rule::NotAhead(share) => last(vec![10.0; judged.cells.len()], 100.0 * (0.1 + share)),
        Rule::Equal => last(vec![10.0; judged.cells.len()], 1.0),
        Rule::AtLeast(least) => (vec![least + 1e-6], vec![vec![least - 0.01 - least.abs() / 2.0]]),
        Rule::AtMost(most) => (vec![most - 1e-6], vec![vec![most + 0.01 + most.abs() / 2.0]]),
        Rule::NotBelow(_) => {
            let less = row.paper.iter().zip(&row.deviations).map(|(paper, one)| paper - 3.0 * one).collect();
            (row.paper.clone(), vec![less])
        }
        _ => {
            let times = |factor: f64| row.paper.iter().map(|paper| paper * factor).collect::<Vec<f64>>();
            let none = row.paper.iter().all(|paper| *paper == 0.0);
            (row.paper.clone(), if none { vec![vec![1.0]] } else { vec![times(0.0), times(10.0), times(-1.0)] })
        }
    }
}

/// For each claim with a rule: the paper's own result is reproduced, that of a broken algorithm is not, and one that
/// varies more between runs than it differs is undecided.
#[test]
fn a_broken_algorithm_turns_each_verdict() {
    let mut turned = 0;
    for experiment in experiments() {
        for (nth, row) in experiment.rows.iter().enumerate().filter(|(_, row)| row.kind == Kind::Claim) {
            let Some(rule) = &row.judged else { continue };
            let name = format!("{}: {} ({})", experiment.id(), row.id, rule.rule_text);
            let compares = rule.rule.compares() && rule.rule != Rule::Equal;
            // A standard deviation is that of values on both sides of their mean.
            let is_deviation = rule.statistic.is_deviation();
            let around = |values: &[f64]| {
                let zeros = vec![0.0; values.len()];
                judged(&experiment, nth, &zeros, |seed, place| match seed % 2 {
                    _ if seed == u64::from(RUNS) => 0.0,
                    0 => values[place],
                    _ => -values[place],
                })
            };
            let of = |values: &[f64]| {
                let small = if compares { 1e-3 } else { 0.0 };
                let noise = move |seed: u64, place: usize| small * ((seed * (place as u64 + 3)) % 7) as f64;
                if is_deviation { around(values) } else { judged(&experiment, nth, values, noise) }
            };
            let (right, broken) = values(row);
            assert_eq!(of(&right).verdict, Verdict::Reproduced, "{name}: {right:?}");
            for wrong in broken {
                // The magnitude of a standard deviation has no sign.
                if !(is_deviation && wrong[0] < 0.0) {
                    assert_eq!(of(&wrong).verdict, Verdict::NotReproduced, "{name}: {wrong:?}");
                }
                turned += 1;
            }
            if compares {
                let noise =
                    |seed: u64, place: usize| if (seed + place as u64).is_multiple_of(2) { 400.0 } else { -400.0 };
                let noisy = judged(&experiment, nth, &right, noise);
                let told = (noisy.verdict, noisy.margins.len());
                assert!(told.0 != Verdict::Reproduced && told.1 > 0, "{name}: {noisy:?}");
            }
        }
    }
    assert!(turned > 400, "{turned}");
}

/// Runs without any random event are identical, so that more of them do not decide more.
#[test]
fn identical_runs_count_as_one_and_are_decided() {
    let all = experiments();
    let experiment = all.iter().find(|one| one.id() == "swift-start-figure-5").unwrap();
    let nth = experiment.rows.iter().position(|row| row.id == "SS-F5-3 gamma 8").unwrap();
    let told = judged(experiment, nth, &[1.05, 1.0], |_, _| 0.0);
    assert_eq!((told.verdict, told.seeds), (Verdict::Reproduced, 1));
    assert!(told.reason.contains("all 15 runs are identical"), "{}", told.reason);
    let told = judged(experiment, nth, &[1.0, 1.05], |_, _| 0.0);
    assert_eq!(told.verdict, Verdict::NotReproduced);
    // 5 % with a deviation of 20 % that is the same for both: the runs are paired. Otherwise, it is not known.
    let together = judged(experiment, nth, &[1.05, 1.0], |seed, _| [0.0, 0.2, -0.2][seed as usize % 3]);
    assert_eq!((together.verdict, together.seeds), (Verdict::Reproduced, RUNS));
    let apart = judged(experiment, nth, &[1.05, 1.0], |seed, place| [0.0, 0.2, -0.2][(seed as usize + place) % 3]);
    assert_eq!(apart.verdict, Verdict::Undecided, "{apart:?}");
}

/// A value whose interval contains the bound of its rule does not decide, nor does it fail.
#[test]
fn a_value_near_its_bound_is_undecided() {
    let all = experiments();
    let experiment = all.iter().find(|one| one.id() == "bbe-figures-6-7").unwrap();
    let nth = experiment.rows.iter().position(|row| row.id == "S2-BBE-1 heavy").unwrap();
    let verdict = |value: f64| {
        judged(experiment, nth, &[value], |seed, _| [0.0, 8.0, -8.0, 4.0, -4.0][seed as usize % 5]).verdict
    };
    assert_eq!(verdict(30.0), Verdict::Reproduced);
    assert_eq!(verdict(49.5), Verdict::Undecided);
    assert_eq!(verdict(50.5), Verdict::Undecided);
    assert_eq!(verdict(70.0), Verdict::NotReproduced);
}

/// A single run of an experiment with random events decides no comparison.
#[test]
fn a_single_run_is_undecided() {
    let all = experiments();
    let experiment = all.iter().find(|one| one.id() == "swift-start-figures-14-15").unwrap();
    let metrics = experiment.definition.metrics.len();
    let run = |cell| Record { cell, seed: 1, values: vec![Some(cell as f64); metrics], ..Record::default() };
    let records: Vec<Record> = (0..experiment.cells.len()).map(run).collect();
    let rows = judge::judge(experiment, &records, 1);
    assert!(rows.iter().all(|row| row.verdict == Verdict::Undecided), "{rows:?}");
    // Nor does it have a mean, whatever its value, unless the experiment requests one run.
    let experiment = all.iter().find(|one| one.id() == "westwood-table-6").unwrap();
    let run = |cell| Record { cell, seed: 1, values: vec![Some(0.99); 2], ..Record::default() };
    let records: Vec<Record> = (0..experiment.cells.len()).map(run).collect();
    let rows = judge::judge(experiment, &records, 1);
    assert!(rows.iter().all(|row| row.verdict == Verdict::Undecided), "{rows:?}");
    let mut alone = experiment.clone();
    alone.definition.runs = 1;
    assert!(judge::judge(&alone, &records, 1).iter().any(|row| row.verdict == Verdict::Reproduced));
}

/// Each claim that is known to fail, whose note begins with the class of the failure, names a row of the same paper that
/// isolates the cause. That row is judged, and is not one that fails itself.
#[test]
fn claims_that_fail_name_the_row_that_isolates_the_cause() {
    let all = experiments();
    let (mut isolated, mut faults) = (0, Vec::new());
    for (experiment, row) in all.iter().flat_map(|one| one.rows.iter().map(move |row| (one, row))) {
        let name = format!("{}/{}", experiment.id(), row.id);
        let class = CLASSES.iter().find(|class| row.reason.starts_with(&format!("{class}: ")));
        if row.isolated_by.is_empty() {
            if class.is_some() && row.judged.is_some() {
                faults.push(format!("{name} names no row"));
            }
            continue;
        }
        isolated += 1;
        if class.is_none() || row.kind != Kind::Claim {
            faults.push(format!("{name} has no class, or is no claim"));
        }
        let (id, other) = row.isolated_by.split_once('/').unwrap();
        let found = all.iter().filter(|one| one.id() == id).flat_map(|one| &one.rows).find(|one| one.id == other);
        match found {
            Some(one) if one.judged.is_some() && one.isolated_by.is_empty() && one.claim.len() > 20 => {}
            found => faults.push(format!(
                "{name}: {} is {}",
                row.isolated_by,
                if found.is_some() { "none that holds" } else { "missing" }
            )),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(isolated > 60, "{isolated}");
}

/// The page begins with each paper's claims in words, whose verdicts follow the rows, and with a picture of all of them.
#[test]
fn the_page_begins_with_the_claims_of_each_paper() {
    let all = experiments();
    let experiment = all.iter().find(|one| one.id() == "tcp-swift-speedy-start").unwrap();
    let page = |segments: f64, ended: usize| {
        let metrics = experiment.definition.metrics.len();
        let run = |cell| Record { cell, seed: 1, values: vec![Some(segments); metrics], ..Record::default() };
        let records: Vec<Record> = (0..experiment.cells.len()).map(run).collect();
        let rows = judge::judge(experiment, &records, 1);
        let (pictures, tables) = (&[][..], &[][..]);
        let section = Section { experiment, rows: &rows, pictures, tables, ended, runs: records.len(), took: 0.0 };
        page::html(&[section], &[])
    };
    let whole = page(64.0, experiment.cells.len());
    let block = &whole[whole.find("class=\"paper\"").unwrap()..whole.find("id=\"summary\"").unwrap()];
    let part = "window after two round trips</a>: ours 64; paper 64 segments</li>";
    let told =
        ["TCP-Swift: An End-Host Enhancement", "Kui-Fai Leung", "2004", "in two round trips.", "holds</span>", part];
    for told in told {
        assert!(block.contains(told), "{told}: {block}");
    }
    let link = block.split("<a href=\"#row=").nth(1).unwrap().split('"').next().unwrap();
    assert!(whole.contains(&format!("id=\"row={link}\"")), "{link}");
    assert!(block.contains("<svg ") && block.matches("<polygon ").count() == 1, "one claim has a number: {block}");
    assert!(whole.contains("Of 4 main claims of 1 paper: 1 holds, 3 lack runs. 1 of 1 measured rows of the papers"));
    assert!(page(4.0, experiment.cells.len()).contains("does not hold</span>"));
    assert!(page(64.0, 1).contains("Of 4 main claims of 1 paper: 4 lack runs."));
    assert_eq!(whole.matches("class=\"paper\"").count(), 1, "only papers that were run");
}
