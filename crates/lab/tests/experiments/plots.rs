//! Pictures, parsed and compared with their data.

mod legible;

use std::fs;

use longhaul_lab::experiment::Experiment;
use longhaul_lab::plot;
use longhaul_lab::record::Record;
use proptest::prelude::*;
use roxmltree::{Document, Node};

/// One plot of each kind.
const ALL: &str = include_str!("../data/all-plots.toml");

fn experiment() -> Experiment {
    Experiment::read("all-plots.toml", ALL).unwrap()
}

/// Ten runs per cell with computed values: a sawtooth window, its rate, RTT samples, and segments.
fn records(experiment: &Experiment) -> Vec<Record> {
    let mut records = Vec::new();
    for (cell, choices) in experiment.cells.iter().enumerate() {
        let (controller, loss) = (choices.places[0] as f64, choices.places[1] as f64);
        for seed in 1..=10 {
            let luck = ((seed * 7919 + cell as u64 * 104_729) % 101) as f64 / 101.0 - 0.5;
            let goodput = 48.0 / (1.0 + controller) / (1.0 + loss) * (1.0 + 0.2 * luck);
            let delay = 12.0 + 9.0 * controller + 6.0 * luck;
            let mut record = Record { cell, seed, values: vec![Some(delay), Some(goodput)], ..Record::default() };
            let period = 7.0 + 2.0 * controller;
            let saw = |t: f64| 1.0 + ((t + luck * 3.0) % period) / period;
            let times = || (0..600).map(|n| f64::from(n) * 0.1);
            let series = &mut record.series;
            series.insert("window".into(), times().map(|t| (t, 600_000.0 * saw(t) / (1.0 + controller))).collect());
            series.insert("threshold".into(), times().map(|t| (t, 500_000.0 / (1.0 + controller))).collect());
            series.insert(
                "rate".into(),
                (0..60).map(|s| (f64::from(s), 20.0 * saw(f64::from(s)) / (1.0 + controller))).collect(),
            );
            let rtt = |t: f64| 65.0 + 20.0 * (saw(t) - 1.0) + 3.0 * (t * 17.3).sin();
            series.insert("rtts".into(), times().map(|t| (t, rtt(t))).collect());
            let full = |t: &f64| saw(*t) > 1.8;
            series.insert("rtts-before-loss".into(), times().filter(full).map(|t| (t, rtt(t))).collect());
            let sent = |n: u32| (f64::from(n / 20) * 0.065 + f64::from(n % 20) * 0.001, f64::from(n) * 1448.0);
            series.insert("data".into(), (0..400).map(sent).collect());
            let again = |n: u32| (f64::from(n / 20) * 0.065 + 0.13, f64::from(n) * 1448.0);
            series.insert("again".into(), (0..400).step_by(37).map(again).collect());
            let acked = |n: u32| (sent(n).0 + 0.065, sent(n).1 + 1448.0);
            series.insert("acked".into(), (0..400).step_by(2).map(acked).collect());
            records.push(record);
        }
    }
    records
}

fn file<'a>(files: &'a [(String, String)], name: &str) -> &'a str {
    &files.iter().find(|(file, _)| file == name).unwrap_or_else(|| panic!("no {name}")).1
}

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

fn of<'a>(document: &'a Document<'_>, what: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.attribute("data-of") == Some(what))
}

/// Returns the value at a coordinate, interpolated between two ticks of an axis.
fn value_at(document: &Document<'_>, class: &str, coordinate: &str, place: f64) -> f64 {
    let ticks: Vec<(f64, f64)> = document
        .descendants()
        .filter(|node| node.attribute("class") == Some(class))
        .map(|node| {
            let value = node.text().unwrap().replace('\u{2009}', "").replace('\u{2212}', "-");
            (number(node, coordinate), value.parse().unwrap())
        })
        .collect();
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    first.1 + (place - first.0) * (last.1 - first.1) / (last.0 - first.0)
}

#[test]
fn each_kind_is_a_sound_file_of_its_own() {
    let experiment = experiment();
    let files = plot::draw(&experiment, &records(&experiment));
    for (name, text) in &files {
        fs::write(format!("{}/{name}", env!("CARGO_TARGET_TMPDIR")), text).unwrap();
        if !name.ends_with(".svg") {
            continue;
        }
        let document = Document::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.len() < 300_000, "{name} is of {} bytes", text.len());
        let plot = experiment.plots.iter().find(|plot| format!("{}.svg", plot.id) == *name).unwrap();
        let child = |tag| document.root_element().children().find(|child| child.has_tag_name(tag)).unwrap();
        assert_eq!(child(("http://www.w3.org/2000/svg", "title")).text(), Some(&*plot.title));
        assert!(child(("http://www.w3.org/2000/svg", "desc")).text().is_some_and(|about| !about.is_empty()));
        assert!(text.contains("Tests &lt;&amp;&quot;, table 5."), "{name} has no source");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{name}");
        assert!(
            document
                .descendants()
                .any(|node| node.attribute("data-of").is_some() || node.attribute("class") == Some("line s0"))
        );
    }
    assert_eq!(files.iter().filter(|(name, _)| name.ends_with(".svg")).count(), experiment.plots.len());
    assert!(experiment.plots.iter().map(|plot| plot.kind as usize).max() == Some(8), "a kind is missing");
}

/// The height of each bar, converted by means of the axis, equals our value or the paper's.
#[test]
fn bars_are_as_high_as_their_values() {
    let experiment = experiment();
    let records = records(&experiment);
    let files = plot::draw(&experiment, &records);
    let document = Document::parse(file(&files, "bars.svg")).unwrap();
    let zero = document
        .descendants()
        .find(|node| node.attribute("class") == Some("tick y") && node.text() == Some("0"))
        .map(|node| number(node, "y"))
        .unwrap();
    let heights = |what| -> Vec<f64> {
        of(&document, what).map(|bar| value_at(&document, "tick y", "y", zero - number(bar, "height"))).collect()
    };
    let medians: Vec<f64> = (0..experiment.cells.len())
        .map(|cell| {
            let mut values: Vec<f64> =
                records.iter().filter(|record| record.cell == cell).map(|record| record.values[1].unwrap()).collect();
            values.sort_by(f64::total_cmp);
            (values[4] + values[5]) / 2.0
        })
        .collect();
    for (got, wanted) in [(heights("ours"), medians), (heights("paper"), vec![50.0, 25.0, 30.0, 20.0, 5.0, 2.0])] {
        assert_eq!(got.len(), wanted.len());
        assert!(got.iter().zip(&wanted).all(|(got, wanted)| (got - wanted).abs() < 0.005 * 50.0), "{got:?} {wanted:?}");
    }
}

/// Metrics with the same unit are placed side by side, each with one bar per algorithm: the medians of the first
/// metric, then of the second.
#[test]
fn bars_of_several_metrics_stand_along_x() {
    let text = ALL
        .replace(
            "delay = { value = \"goodput(x)\", unit = \"ms\" }",
            "delay = { value = \"goodput(x)\", unit = \"Mb/s\" }",
        )
        .replacen(
            "metric = \"goodput\"\nby = \"loss\"",
            "metrics = [\"delay\", \"goodput\"]\nat = { loss = \"0.1%\" }",
            1,
        );
    let experiment = Experiment::read("a.toml", &text).unwrap();
    let records = records(&experiment);
    let files = plot::draw(&experiment, &records);
    let document = Document::parse(file(&files, "bars.svg")).unwrap();
    let names: Vec<&str> = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("tick x"))
        .filter_map(|node| node.text())
        .collect();
    assert_eq!(names, ["delay", "goodput"]);
    let bars: Vec<(f64, f64)> = of(&document, "ours").map(|bar| (number(bar, "x"), number(bar, "height"))).collect();
    let median = |cell: usize, metric: usize| {
        let of_cell = records.iter().filter(|record| record.cell == cell);
        let mut values: Vec<f64> = of_cell.map(|record| record.values[metric].unwrap()).collect();
        values.sort_by(f64::total_cmp);
        (values[4] + values[5]) / 2.0
    };
    // Cells with 0.1 % loss have odd indices; values are in the order of the metrics' names.
    let wanted: Vec<f64> = [0, 1].into_iter().flat_map(|metric| [1, 3, 5].map(|cell| median(cell, metric))).collect();
    assert_eq!(bars.len(), wanted.len());
    let scale = bars[0].1 / wanted[0];
    assert!(bars.iter().zip(&wanted).all(|(bar, wanted)| (bar.1 - scale * wanted).abs() < 0.6), "{bars:?} {wanted:?}");
    assert!(bars[..3].iter().all(|first| bars[3..].iter().all(|second| first.0 < second.0)), "{bars:?}");
}

/// Names along x that are wider than their slots are turned, and stay within the picture.
#[test]
fn names_that_do_not_fit_are_turned() {
    let turned = |text: &str| {
        let experiment = Experiment::read("a.toml", text).unwrap();
        let files = plot::draw(&experiment, &records(&experiment));
        let document = Document::parse(file(&files, "heat.svg")).unwrap();
        let names = document.descendants().filter(|node| node.attribute("class") == Some("tick x"));
        names.map(|node| node.attribute("transform").map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(turned(ALL).iter().flatten().count(), 0);
    // A percentage may have any number of digits.
    let long = ALL.replace("\"0.001%\"", &format!("\"0.{}1%\"", "0".repeat(77)));
    let names = turned(&long);
    assert!(names.len() == 2 && names.iter().all(Option::is_some), "{names:?}");
    let text = names[0].clone().unwrap();
    let parts: Vec<f64> =
        text.trim_start_matches("rotate(").trim_end_matches(')').split(' ').map(|part| part.parse().unwrap()).collect();
    // 79 digits of 0.56 em, a point and a percent sign, at 11.5 pixels per em, end at the centre of rotation.
    let begins = parts[1] - (79.0 * 0.56 + 1.2) * 11.5 * parts[0].to_radians().cos();
    assert!(parts[0] <= -40.0 && begins > -16.0, "{text}: from {begins} on");
}

/// With 60,000 samples per run, series are thinned and files stay small.
#[test]
fn long_series_are_thinned() {
    let experiment = experiment();
    let mut records = records(&experiment);
    for record in &mut records {
        let long = |scale: f64| (0..60_000).map(move |n| (f64::from(n) * 1e-3, scale * f64::from(n % 97))).collect();
        record.series.insert("window".into(), long(1e4));
        record.series.insert("threshold".into(), long(1e3));
        record.series.insert("rtts".into(), long(1.0));
        let flood = |n: u32| (f64::from(n) * 1e-3, f64::from(n % 500) * 3000.0);
        record.series.insert("data".into(), (0..60_000).map(flood).collect());
    }
    for (name, text) in plot::draw(&experiment, &records) {
        assert!(!name.ends_with(".svg") || text.len() < 300_000, "{name} is of {} bytes", text.len());
    }
}

/// The paper's value is drawn next to ours if a row has the same metric, cell and statistic.
#[test]
fn values_of_the_paper_are_drawn_beside_ours() {
    let papers = |text: &str| {
        let experiment = Experiment::read("a.toml", text).unwrap();
        let files = plot::draw(&experiment, &records(&experiment));
        ["bars.svg", "lines.svg", "runs.svg"]
            .map(|name| of(&Document::parse(file(&files, name)).unwrap(), "paper").count())
    };
    assert_eq!(papers(ALL), [6, 6, 2]);
    let of_mean = ALL.replacen("rule = \"decreasing\"", "rule = \"decreasing\"\nstatistic = \"mean\"", 1);
    assert_eq!(papers(&of_mean), [3, 3, 2]);
    let of_delay = ALL.replace(
        "metric = \"goodput\"\nat = { loss = \"0.001%\" }\nover",
        "metric = \"delay\"\nat = { loss = \"0.001%\" }\nover",
    );
    assert_eq!(papers(&of_delay), [3, 3, 2]);
}

/// The drawn values are those measured in the paper's tables, not those of its formulas or of other conditions in the
/// same cells.
#[test]
fn the_papers_own_values_are_drawn() {
    let papers = |id: &str| {
        let svg = legible::drawn(id, "goodput", &[20.0]);
        let document = Document::parse(&svg).unwrap();
        let ours = of(&document, "ours").next().map(|bar| number(bar, "height")).unwrap();
        of(&document, "paper").map(|bar| 20.0 * number(bar, "height") / ours).collect::<Vec<f64>>()
    };
    let by_controller = [[49.43, 22.83, 12.92], [30.25, 12.14, 8.6], [4.71, 3.03, 2.26]].concat();
    for (id, wanted) in [("westwood-table-5", by_controller), ("bbe-figure-4", vec![15.4, 15.4])] {
        let got = papers(id);
        assert!(
            got.len() == wanted.len() && got.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 0.01),
            "{id}: {got:?}"
        );
    }
}

/// Faults of a plot definition are reported with file, line and field.
#[test]
fn faults_of_pictures_are_named() {
    for (from, to, told) in [
        (
            "kind = \"bars\"",
            "kind = \"pie\"",
            "plots.kind: there is no kind \"pie\"; there are: over-time, time-sequence, ",
        ),
        (
            "kind = \"bars\"\nmetric = \"goodput\"",
            "kind = \"bars\"\nmetric = \"gp\"",
            "plots.metric: there is no metric \"gp\"; there are: delay, goodput",
        ),
        (
            "kind = \"bars\"\nmetric = \"goodput\"",
            "kind = \"bars\"",
            "plots.metric: a picture of kind \"bars\" needs `metric`",
        ),
        (
            "kind = \"bars\"",
            "kind = \"bars\"\nmetrics = [\"delay\"]",
            "plots.metrics: they are drawn along x, so that `metric` and `by` cannot be given",
        ),
        (
            "metric = \"goodput\"\nby = \"loss\"\nover = \"controller\"\nexpected",
            "metrics = [\"goodput\", \"delay\"]\nat = { loss = \"0.1%\" }\nover = \"controller\"\nexpected",
            "plots.metrics: the metrics of a picture must have the same unit: \"goodput\" is in \"Mb/s\", \"delay\" in \"ms\"",
        ),
        (
            "kind = \"runs\"",
            "kind = \"runs\"\nby-label = \"run\"",
            "plots.by-label: a picture of kind \"runs\" has no `by-label`",
        ),
        ("kind = \"bars\"", "kind = \"bars\"\nbin = 2.0", "plots.bin: a picture of kind \"bars\" has no `bin`"),
        (
            "by = \"loss\"\nover = \"controller\"\nexpected",
            "by = \"lost\"\nover = \"controller\"\nexpected",
            "plots.by: there is no axis \"lost\"; there are: controller, loss",
        ),
        (
            "by = \"loss\"\nover = \"controller\"\nexpected",
            "by = \"controller\"\nover = \"controller\"\nexpected",
            "plots.over: `over` and `by` are the same axis",
        ),
        (
            "order = [\"new-reno\", \"westwood\"]",
            "order = [\"reno\"]",
            "plots.order: \"reno\" is not a choice on the axis \"controller\"; there are: westwood, ",
        ),
        (
            "at = { loss = \"0.1%\" }\nover = \"controller\"\norder = [\"new-reno\"",
            "over = \"controller\"\norder = [\"new-reno\"",
            "plots.at: picture runs needs a choice on the axis \"loss\"",
        ),
        (
            "series = [\"rate\"]",
            "series = [\"speed\"]",
            "plots.series: there is no series \"speed\"; there are: acked, again, ",
        ),
        (
            "series = [\"rate\"]",
            "series = [\"rate\", \"rtts\"]",
            "plots.series: the series of a picture must have the same unit: ",
        ),
        (
            "series = [\"data\", \"again\"",
            "series = [\"window\", \"again\"",
            "plots.series: \"window\" is not one of segments, resent, acks",
        ),
        ("to = \"1.4s\"", "to = \"1.4\"", "plots.to: \"1.4\" has no unit"),
        ("to = \"1.4s\"", "from = \"2s\"\nto = \"1.4s\"", "plots.to: the picture ends before it begins"),
        ("bin = 1.0", "bin = 0.0", "plots.bin: 0 is not a width"),
        ("log = true", "log = true\nseed = 1", "plots.seed: a picture of kind \"lines\" has no `seed`"),
        (
            "\"0.001%\", \"0.1%\"]",
            "\"0%\", \"0.1%\"]",
            "plots.log: the choices on \"loss\" are not all numbers above zero",
        ),
        ("id = \"lines\"", "id = \"bars\"", "plots.id: \"bars\" occurs twice"),
        ("id = \"lines\"", "id = \"../x\"", "plots.id: \"../x\" must consist of a to z, 0 to 9 and dashes"),
        ("band = true", "bands = true", "plots.bands: unknown field `bands`"),
    ] {
        let wrong =
            ALL.replacen(from, to, 1).replace("at = { loss = \"0.001%\" }\nover", "at = { loss = \"0.1%\" }\nover");
        assert!(ALL.contains(from), "{from}");
        let fault = Experiment::read("wrong.toml", &wrong).unwrap_err();
        assert!(fault.to_string().contains(told), "{fault} for {told}");
        // The line is that of the field, or of the plot's kind if the field is missing.
        let field = told.split(':').next().unwrap().trim_start_matches("plots.");
        let line = wrong.lines().nth(fault.line - 1).unwrap();
        assert!(line.starts_with(field) || line.starts_with("kind = ") || line.contains("bands"), "{fault}: {line}");
    }
}

/// Any number, and non-finite values.
fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e9..1e9f64,
        2 => Just(0.0),
        1 => Just(5.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(f64::MAX),
        1 => Just(f64::MIN_POSITIVE),
        1 => Just(-1e-300),
    ]
}

fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let series = prop::collection::vec((any_value(), any_value()), 0..6);
    let values = prop::collection::vec(prop::option::weighted(0.8, any_value()), 0..3);
    let names = ["window", "threshold", "rate", "rtts", "rtts-before-loss", "data", "again", "acked"];
    let all = prop::collection::vec(prop::option::of(series), names.len());
    let record = (0..7usize, 1..5u64, values, all).prop_map(move |(cell, seed, values, all)| Record {
        cell,
        seed,
        values,
        series: names.into_iter().zip(all).filter_map(|(name, series)| Some((name.to_owned(), series?))).collect(),
        ..Record::default()
    });
    prop::collection::vec(record, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// For any data, each file is well-formed XML and contains no non-finite number.
    #[test]
    fn nothing_that_is_no_number_is_printed(records in any_records()) {
        let files = plot::draw(&experiment(), &records);
        for (name, text) in &files {
            if name.ends_with(".svg") {
                let read = Document::parse(text);
                prop_assert!(read.is_ok(), "{name}: {:?}", read.err());
            }
            let is_word = |word: &str| text.split(|c: char| !c.is_ascii_alphabetic()).any(|part| part == word);
            for word in ["NaN", "inf", "Infinity", "nan"] {
                prop_assert!(!is_word(word), "{name}: {word}");
            }
        }
    }
}
