//! Legibility of the experiments' pictures: texts fit, and elements that differ can be distinguished without colour.

use std::collections::BTreeSet;

use longhaul_lab::experiment::Experiment;
use longhaul_lab::library;
use longhaul_lab::plot;
use longhaul_lab::record::Record;
use roxmltree::{Document, Node};

use super::{file, number, of};

/// Widths in em in DejaVu Sans, the widest of the common fonts.
const DIGIT: f64 = 0.636;
const POINT: f64 = 0.32;

/// Returns a picture of an included experiment with two runs per cell, which measure these values in turn.
pub(super) fn drawn(id: &str, picture: &str, values: &[f64]) -> String {
    let (_, text) = library::FILES.iter().find(|(file, _)| *file == format!("{id}.toml")).unwrap();
    let experiment = Experiment::read(id, text).unwrap();
    let metrics = experiment.definition.metrics.len();
    let run = |cell: usize, seed: u64| {
        let value = |metric: usize| Some(values[(cell + metric) % values.len()]);
        Record { cell, seed, values: (0..metrics).map(value).collect(), ..Record::default() }
    };
    let records: Vec<Record> = (0..experiment.cells.len()).flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect();
    file(&plot::draw(&experiment, &records), &format!("{picture}.svg")).to_owned()
}

fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| if c == '.' { POINT } else { DIGIT }).sum::<f64>() * size
}

fn with_class<'a>(document: &'a Document<'_>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.attribute("class") == Some(class))
}

/// Returns left, top, right and bottom of a horizontal or upright number of 11 pixels above a bar.
fn bounds(label: Node<'_, '_>) -> [f64; 4] {
    let (x, y) = (number(label, "x"), number(label, "y"));
    let wide = width(label.text().unwrap(), 11.0);
    match label.attribute("transform") {
        None => [x - wide / 2.0, y - 8.0, x + wide / 2.0, y],
        Some(turned) => {
            assert!(turned.starts_with("rotate(-90 "), "{turned}");
            [x - 8.0, y - wide, x, y]
        }
    }
}

#[test]
fn numbers_of_a_heat_map_stay_in_their_fields() {
    for (id, picture, fields) in [("rfc9743-path", "delay", 170), ("starts-and-paths", "times", 230)] {
        let svg = drawn(id, picture, &[0.606, 99.6, 0.0102, 10.9]);
        let document = Document::parse(&svg).unwrap();
        let mut count = 0;
        for field in of(&document, "ours") {
            let text = field.next_siblings().find(|node| node.attribute("class") == Some("cell")).unwrap();
            assert!(width(text.text().unwrap(), 12.0) < number(field, "width"), "{:?}", text.text());
            count += 1;
        }
        assert_eq!(count, fields);
        let right = of(&document, "ours").map(|field| number(field, "x") + number(field, "width")).fold(0.0, f64::max);
        assert!(right < number(document.root_element(), "width"));
    }
}

#[test]
fn numbers_above_bars_touch_neither_each_other_nor_the_legend() {
    for (id, picture, values) in [
        ("scharf-speedup", "sizes", &[4.31, 4.38, 9.99, 9.95, 9.98][..]),
        ("scharf-speedup", "speedup", &[0.987, 0.988, 0.985]),
        ("tcpeval-basic", "short", &[26.6, 26.5, 99.9, 99.8]),
        ("bbe-figure-2", "capprobe", &[80.0]),
        ("westwood-table-5", "goodput", &[49.4, 50.0, 12.3]),
    ] {
        let svg = drawn(id, picture, values);
        let document = Document::parse(&svg).unwrap();
        let labels: Vec<[f64; 4]> = with_class(&document, "value").map(bounds).collect();
        assert!(labels.len() >= 3, "{picture}");
        let legend = with_class(&document, "key").map(|key| number(key, "y") + 3.0).fold(0.0, f64::max);
        for (nth, one) in labels.iter().enumerate() {
            assert!(one[1] > legend, "{picture}: {one:?} reaches {legend}");
            for other in &labels[nth + 1..] {
                let apart = one[2] < other[0] || other[2] < one[0] || one[3] < other[1] || other[3] < one[1];
                assert!(apart, "{picture}: {one:?} and {other:?}");
            }
        }
    }
}

/// Each colour has its own shape, so that the class determines the shape.
#[test]
fn ten_marks_are_ten() {
    let svg = drawn("scharf-speedup", "loss", &[1.0, 2.0, 3.0]);
    let document = Document::parse(&svg).unwrap();
    let look = |mark: Node<'_, '_>| {
        let shape =
            mark.descendants().find_map(|node| node.attribute("class").filter(|class| class.starts_with("solid")));
        let hole = mark.descendants().any(|node| node.attribute("class") == Some("ground"));
        (shape.unwrap().to_owned(), hole)
    };
    let looks: Vec<_> = of(&document, "ours").map(look).collect();
    assert_eq!((looks.len(), looks.iter().collect::<BTreeSet<_>>().len()), (10, 10), "{looks:?}");
}

#[test]
fn lines_that_are_known_beforehand_differ_as_in_the_legend() {
    let svg = drawn("tcpeval-parking-lot-flows", "share", &[0.1]);
    let document = Document::parse(&svg).unwrap();
    let dashes: Vec<&str> =
        with_class(&document, "expected").map(|line| line.attribute("stroke-dasharray").unwrap()).collect();
    assert_eq!(dashes.len(), 6);
    assert_eq!(dashes[..3], dashes[3..]);
    assert_eq!(dashes.iter().collect::<BTreeSet<_>>().len(), 3);
}

/// If the choices along an axis are numbers without a unit, the label below gives the unit.
#[test]
fn choices_without_a_unit_have_one_below_them() {
    for (id, picture, unit) in [
        ("tcpeval-fairness", "fairness", "ms"),
        ("tcpeval-fairness", "buffers", "bandwidth-delay product (%)"),
        ("scharf-buffer", "loss", "packets"),
        ("tcpeval-ramp-up", "none", "ms"),
    ] {
        let svg = drawn(id, picture, &[1.0]);
        let document = Document::parse(&svg).unwrap();
        let labels: Vec<&str> = with_class(&document, "label").filter_map(|label| label.text()).collect();
        assert!(labels.iter().any(|label| label.contains(unit)), "{labels:?}");
    }
}
