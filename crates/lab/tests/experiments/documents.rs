//! The tables in `docs`: whether they are current, and whether they have all algorithms.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use longhaul_cc::Congestion;
use longhaul_cc::registry::{Entry, Registry, Slot, known};
use longhaul_lab::documents::{self, Source};
use longhaul_lab::experiment::Experiment;
use longhaul_lab::library;
use longhaul_lab::runner;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn experiment(id: &str) -> Experiment {
    let (file, text) = library::find(id).unwrap();
    Experiment::read(file, text).unwrap()
}

fn choices(id: &str, axis: &str) -> BTreeSet<String> {
    experiment(id).choices(axis).map(str::to_owned).collect()
}

/// Runs the cells with these choices, with seeds from 1 to `runs`, and checks that the documents have their values.
fn check(experiment: &Experiment, at: &[(&str, &str)], runs: u32) {
    let at: Vec<_> = at.iter().map(|(axis, choice)| ((*axis).to_owned(), (*choice).to_owned())).collect();
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let cells = experiment.cells_at(&at).unwrap();
    let records = runner::run_cells(experiment, &cells, runs, jobs).unwrap();
    let stale = documents::update(&docs(), &[Source::new(experiment, &records, runs)], true).unwrap();
    assert!(stale.is_empty(), "{at:?}: run the experiment and `report DIR --docs docs`: {stale:#?}");
}

/// Without any runs, filling a table changes its heads and labels only, so that these must be as in the experiment.
#[test]
fn tables_have_the_lines_and_columns_of_their_experiments() {
    let experiments: Vec<Experiment> =
        library::FILES.iter().map(|(file, text)| Experiment::read(file, text).unwrap()).collect();
    let sources: Vec<Source<'_>> =
        experiments.iter().map(|experiment| Source::new(experiment, &[], experiment.definition.runs)).collect();
    let stale = documents::update(&docs(), &sources, true).unwrap();
    assert!(stale.is_empty(), "{stale:#?}");
}

/// The quick scenarios; two of them with `LONGHAUL_LONG` only. Those without random loss or jitter have the same values with any seed.
#[test]
fn scores_are_current() {
    let scores = experiment("scores");
    check(&scores, &[("scenario", "1 MB")], 1);
    check(&scores, &[("scenario", "500 ms")], 3);
    if env::var_os("LONGHAUL_LONG").is_some() {
        check(&scores, &[("scenario", "radio"), ("scenario", "deep")], 1);
    }
}

/// One path, with the start-up schemes and the recovery algorithms that the document has.
#[test]
fn the_matrix_is_current() {
    let (matrix, path) = (experiment("matrix"), ("path", "20 Mb/s, 100 ms, 0.5 BDP"));
    check(&matrix, &[path, ("recovery", "prr")], 1);
    check(&matrix, &[path, ("start", "none")], 1);
}

/// Returns the algorithms that experiments can name.
fn registry() -> Registry {
    longhaul_zoo::register().unwrap();
    known()
}

/// Returns a composition that shows an algorithm: a profile, or a stage together with the other stages of NewReno.
fn composition(entry: &Entry) -> String {
    let name = entry.name;
    if registry().profiles.iter().any(|profile| profile.name == name) {
        return name.to_owned();
    }
    match entry.slot() {
        Slot::Monolithic => name.to_owned(),
        Slot::Avoidance => entry.tested.first().copied().unwrap_or(name).to_owned(),
        Slot::SlowStart => format!("slow-start={name},avoidance=new-reno"),
        slot => format!("slow-start=slow-start,avoidance=new-reno,{slot}={name}"),
    }
}

#[test]
fn every_algorithm_has_scores_on_its_page() {
    let registry = registry();
    let entries = registry.entries.iter().map(|entry| (entry.name, composition(entry)));
    for (name, composition) in entries.chain(registry.profiles.iter().map(|p| (p.name, p.name.to_owned()))) {
        let page = fs::read_to_string(docs().join(format!("algorithms/{name}.md"))).unwrap();
        let marks: Vec<(&str, &str)> = documents::marks(&page).filter(|(id, _)| *id == "scores").collect();
        assert_eq!(marks.len(), 1, "{name}");
        let controller = marks[0].1.split_once("controller=").unwrap().1;
        assert_eq!(controller, composition.parse::<Congestion>().unwrap().name(), "{name}");
    }
}

#[test]
fn every_controller_is_measured() {
    let canonical = |names: BTreeSet<String>| -> BTreeSet<String> {
        names.iter().map(|name| name.parse::<Congestion>().unwrap().name()).collect()
    };
    let (fairness, emulated) =
        (canonical(choices("fairness", "controller")), canonical(choices("emulated", "controller")));
    for profile in registry().profiles {
        let name = profile.name.parse::<Congestion>().unwrap().name();
        assert!(fairness.contains(&name) && emulated.contains(&name), "{name}");
    }
}

#[test]
fn every_stage_is_in_the_matrix() {
    for id in ["matrix", "matrix-loss"] {
        let (starts, recoveries) = (choices(id, "start"), choices(id, "recovery"));
        for slot in [Slot::Startup, Slot::SlowStart, Slot::Monolithic] {
            // Without a start-up scheme, the slow-start variant is HyStart++.
            let missing = registry().of_slot(slot).map(|entry| entry.name);
            let missing: Vec<&str> = missing.filter(|name| *name != "hystart-pp" && !starts.contains(*name)).collect();
            assert!(missing.is_empty(), "{id}: {missing:?}");
        }
        let known: BTreeSet<String> = registry().of_slot(Slot::Recovery).map(|entry| entry.name.to_owned()).collect();
        assert_eq!(recoveries, known, "{id}");
    }
}
