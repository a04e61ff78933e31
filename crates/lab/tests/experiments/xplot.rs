//! Files for xplot, parsed and compared with those of tcptrace.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::rc::Rc;

use longhaul_lab::experiment::Experiment;
use longhaul_lab::plot;
use longhaul_lab::record::Record;
use longhaul_link::{Limit, LinkConfig, Loss};
use longhaul_sim::{Pcap, Plan, Setup, Sim};
use longhaul_units::{Rate, Span};

const ALL: &str = include_str!("../data/all-plots.toml");

/// A drawn element: command, numbers, colour, and the text on the next line.
#[derive(Clone, Debug, PartialEq)]
struct Drawn {
    word: String,
    numbers: Vec<f64>,
    colour: String,
    text: String,
}

/// Parses an xplot file: axes, title and labels, and the drawn elements.
fn read(text: &str) -> ([String; 4], Vec<Drawn>) {
    const COLOURS: [&str; 8] = ["white", "green", "red", "blue", "yellow", "purple", "orange", "magenta"];
    const WITH_TEXT: [&str; 5] = ["atext", "btext", "ltext", "rtext", "ctext"];
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap().to_owned();
    let axes = next();
    assert_eq!(next(), "title");
    let title = next();
    assert_eq!(next(), "xlabel");
    let along = next();
    assert_eq!(next(), "ylabel");
    let up = next();
    let (mut drawn, mut colour) = (Vec::new(), String::new());
    loop {
        let line = next();
        let mut words = line.split_whitespace();
        let word = words.next().unwrap();
        if word == "go" {
            return ([axes, title, along, up], drawn);
        }
        if COLOURS.contains(&word) {
            colour = word.into();
            continue;
        }
        // A colour after the coordinates applies to this element only.
        let rest: Vec<&str> = words.collect();
        let numbers =
            rest.iter().filter(|word| !COLOURS.contains(word)).map(|number| number.parse().unwrap()).collect();
        let own = rest.iter().find(|word| COLOURS.contains(word)).map_or(colour.clone(), |own| (*own).to_owned());
        let text = if WITH_TEXT.contains(&word) { next() } else { String::new() };
        drawn.push(Drawn { word: word.into(), numbers, colour: own, text });
    }
}

/// 40 segments of 1000 bytes, one per 10 ms, of which the fifth and the ninth are retransmitted. Each is acknowledged
/// after 100 ms.
fn record() -> Record {
    let mut record = Record { cell: 3, seed: 1, ..Record::default() };
    let sent = |n: u32| (f64::from(n) * 0.01, f64::from(n) * 1000.0);
    record.series.insert("data".into(), (0..40).map(sent).collect());
    record.series.insert("again".into(), [5, 9].map(|n| (sent(n).0 + 0.25, sent(n).1)).into());
    record.series.insert("acked".into(), (0..40).map(|n| (sent(n).0 + 0.1, sent(n).1 + 1000.0)).collect());
    record
}

fn file(records: &[Record], name: &str) -> String {
    let experiment = Experiment::read("all-plots.toml", ALL).unwrap();
    plot::draw(&experiment, records).into_iter().find(|(file, _)| file == name).unwrap().1
}

#[test]
fn a_time_sequence_graph_reads_back() {
    let record = record();
    let (head, drawn) = read(&file(std::slice::from_ref(&record), "sequence_tsg.xpl"));
    assert_eq!(head[0], "timeval double");
    assert_eq!(head[1..], ["Sequence numbers of the first second (Tests <&\", table 5)", "time", "sequence number"]);
    let places = |word: &str, colour: &str| -> Vec<(f64, f64)> {
        let of = drawn.iter().filter(|drawn| drawn.word == word && drawn.colour == colour);
        of.map(|drawn| (drawn.numbers[0], drawn.numbers[1])).collect()
    };
    let ends = |points: &[(f64, f64)]| points.iter().map(|(x, y)| (*x, y + 1000.0)).collect::<Vec<_>>();
    let near = |got: Vec<(f64, f64)>, wanted: &[(f64, f64)]| {
        assert_eq!(got.len(), wanted.len());
        assert!(got.iter().zip(wanted).all(|(got, wanted)| (got.0 - wanted.0).abs() < 1e-6 && got.1 == wanted.1));
    };
    near(places("darrow", "white"), &record.series["data"]);
    near(places("uarrow", "white"), &ends(&record.series["data"]));
    near(places("darrow", "red"), &record.series["again"]);
    near(places("atext", "red"), &ends(&record.series["again"]));
    assert!(drawn.iter().filter(|drawn| drawn.word == "atext").all(|drawn| drawn.text == "R"));
    // The corners of the line of acknowledgments, in order of time.
    let steps: Vec<&Drawn> = drawn.iter().filter(|drawn| drawn.colour == "green").collect();
    assert!(steps.windows(2).all(|two| two[0].numbers[2..] == two[1].numbers[..2]), "the line has gaps");
    let mut corners: Vec<(f64, f64)> = steps.iter().map(|step| (step.numbers[2], step.numbers[3])).collect();
    corners
        .retain(|corner| record.series["acked"].iter().any(|ack| (ack.0 - corner.0).abs() < 1e-6 && ack.1 == corner.1));
    near(corners, &record.series["acked"][1..]);
}

#[test]
fn windows_read_back() {
    let experiment = Experiment::read("all-plots.toml", ALL).unwrap();
    let plot = experiment.plots.iter().find(|plot| plot.id == "window").unwrap();
    let of = |cell| {
        let mut record = Record { cell, seed: 1, ..Record::default() };
        record.series.insert("window".into(), vec![(0.0, 14_480.0), (1.0, 28_960.0), (2.5, 10_000.0)]);
        record.series.insert("threshold".into(), vec![(0.0, 50_000.0), (2.5, 50_000.0)]);
        record
    };
    let cells: Vec<usize> = plot.grid.cells.iter().flatten().copied().collect();
    let records: Vec<Record> = cells.iter().map(|cell| of(*cell)).collect();
    let (head, drawn) = read(&file(&records, "window_cwnd.xpl"));
    assert_eq!(head[3], "window (bytes)");
    let colours: BTreeSet<&str> = drawn.iter().map(|drawn| drawn.colour.as_str()).collect();
    assert_eq!(colours.len(), 2 * cells.len(), "a colour each");
    let white: Vec<&[f64]> =
        drawn.iter().filter(|drawn| drawn.colour == "white").map(|drawn| drawn.numbers.as_slice()).collect();
    assert_eq!(
        white,
        [
            [0.0, 14_480.0, 1.0, 14_480.0],
            [1.0, 14_480.0, 1.0, 28_960.0],
            [1.0, 28_960.0, 2.5, 28_960.0],
            [2.5, 28_960.0, 2.5, 10_000.0]
        ]
    );
}

/// Each of our commands with its number of arguments, and each colour with its letters, also occurs in tcptrace's
/// output for a capture with losses.
#[test]
fn our_words_are_those_of_tcptrace() {
    if !needs::program("tcptrace") {
        return;
    }
    let directory = format!("{}/tcptrace", env!("CARGO_TARGET_TMPDIR"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let link = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(20))
        .queue(Limit::Infinite)
        .loss(Loss::List(vec![20, 60, 100]));
    let mut sim = Sim::new(Setup::symmetric(1, link));
    let pcap = Rc::new(RefCell::new(Pcap::at_host(0, Vec::new()).unwrap()));
    sim.add_tap(Rc::clone(&pcap));
    sim.open(Plan::bulk(500_000), Plan::sink());
    assert!(sim.run(Span::from_secs(60), Sim::all_done));
    fs::write(format!("{directory}/losses.pcap"), pcap.borrow_mut().finish().unwrap()).unwrap();
    let traced = Command::new("tcptrace").args(["-n", "-S", "losses.pcap"]).current_dir(&directory).output().unwrap();
    assert!(traced.status.success(), "{traced:?}");
    let (head, drawn) = read(&fs::read_to_string(format!("{directory}/a2b_tsg.xpl")).unwrap());
    let (own_head, own) = read(&file(&[record()], "sequence_tsg.xpl"));
    assert_eq!((&own_head[0], &own_head[2..]), (&head[0], &head[2..]));
    let words = |drawn: &[Drawn]| drawn.iter().map(|d| (d.word.clone(), d.numbers.len())).collect::<BTreeSet<_>>();
    let texts = |drawn: &[Drawn]| drawn.iter().map(|d| (d.colour.clone(), d.text.clone())).collect::<BTreeSet<_>>();
    assert!(words(&own).is_subset(&words(&drawn)), "{:?}, {:?}", words(&own), words(&drawn));
    assert!(texts(&own).is_subset(&texts(&drawn)), "{:?}, {:?}", texts(&own), texts(&drawn));
}
