//! Pictures of transfers: lines are converted back to values by the labels of the axes, and compared with the event log
//! and the report.
use std::fs;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};
use serde_json::Value;

use crate::machine::{Machine, failed, json_lines};
use crate::relay::slow;

/// Maximum error of the values of a line relative to the axis, caused by the resolution of coordinates.
const RESOLUTION: f64 = 2e-3;

struct Panel<'a>(Node<'a, 'a>);

impl<'a> Panel<'a> {
    fn all(document: &'a Document<'a>) -> Vec<Self> {
        let root = document.root_element();
        root.children().filter(|node| node.tag_name().name() == "svg").map(Panel).collect()
    }

    fn with_class(&self, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
        self.0.descendants().filter(move |node| node.attribute("class") == Some(class))
    }

    /// Returns two positions on an axis with their values, from the labels of its ticks.
    fn ticks(&self, axis: &'a str) -> [(f64, f64); 2] {
        let of = |node: Node<'_, '_>| {
            // Labels along y are centred beside their tick.
            let place = match axis {
                "tick x" => number(node, "x"),
                _ => number(node, "y") - 4.0,
            };
            (place, node.text().unwrap().replace('\u{2009}', "").parse::<f64>().unwrap())
        };
        let ticks: Vec<_> = self.with_class(axis).map(of).collect();
        [ticks[0], *ticks.last().unwrap()]
    }

    /// Returns the factor of the unit of the y axis.
    fn unit(&self) -> f64 {
        let label = self
            .with_class("label")
            .find_map(|node| node.text().filter(|text| text.contains('(') && *text != "time (s)"));
        match label.unwrap().rsplit_once('(').unwrap().1 {
            "kB)" => 1e3,
            "MB)" => 1e6,
            _ => 1.0,
        }
    }

    fn line(&self, name: &str) -> Vec<(f64, f64)> {
        let group = self.0.descendants().find(|node| node.attribute("data-of") == Some(name)).unwrap();
        let path = group.children().find_map(|node| node.attribute("d")).unwrap();
        let scale =
            |[(from, low), (to, high)]: [(f64, f64); 2]| move |at: f64| low + (at - from) / (to - from) * (high - low);
        let (x, y, unit) = (scale(self.ticks("tick x")), scale(self.ticks("tick y")), self.unit());
        let points = path.split(['M', 'L']).filter(|point| !point.is_empty());
        let parse = |text: &str| text.parse::<f64>().unwrap();
        points.map(|point| point.split_once(' ').unwrap()).map(|(a, b)| (x(parse(a)), unit * y(parse(b)))).collect()
    }
}

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

fn most(line: &[(f64, f64)]) -> f64 {
    line.iter().map(|(_, value)| *value).fold(0.0, f64::max)
}

/// Returns the area below a line, which is a number of bytes for a rate in Mb/s.
fn bytes(line: &[(f64, f64)]) -> f64 {
    line.windows(2).map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1) / 8e-6).sum()
}

fn near(got: f64, wanted: f64, tolerance: f64) {
    assert!((got - wanted).abs() <= tolerance * wanted.abs(), "{got}, not {wanted}");
}

/// The events of a log, with the last value of each metric.
struct Events(Vec<Value>);

impl Events {
    fn read(log: &Path) -> Self {
        let text = fs::read_to_string(log).unwrap();
        Self(text.lines().map(|line| serde_json::from_str(line.trim_start_matches('\x1e')).unwrap()).collect())
    }

    fn data<'a>(&'a self, name: &'a str, field: &'a str) -> impl Iterator<Item = f64> {
        let of_name = self.0.iter().filter(move |event| event["name"] == name);
        of_name.filter_map(move |event| event["data"].pointer(field)?.as_f64())
    }

    fn metric<'a>(&'a self, field: &'a str) -> impl Iterator<Item = f64> {
        self.data("tcp:recovery_metrics_updated", field)
    }
}

fn only(directory: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

#[test]
fn pictures_have_the_values_of_the_transfer() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("big", 10_000_000);
    let receiver = there.receive(&["--allow", &here.key()]);
    let relay = slow(&receiver.address);
    let address = relay.local_addr().to_string();
    let path = |name: &str| here.path(name).into_os_string().into_string().unwrap();
    let (logs, picture) = (path("logs"), path("sent.svg"));
    // CUBIC overflows the queue and causes retransmissions.
    let arguments =
        ["send", "--accept-new", "--json", "-C", "cubic", "--qlog", &logs, "--plot", &picture, &address, &file];
    let sent = here.run(&arguments);
    assert!(sent.status.success(), "{sent:?}");
    let report = &json_lines(&sent.stdout)[0];
    let events = Events::read(&only(&here.path("logs")));
    let delivered: f64 = events.data("tcp:segments_acked", "/delivered_bytes").sum();
    let cwnd = events.metric("/congestion_window").fold(0.0, f64::max);
    let retransmitted = events.metric("/retransmitted_bytes").last().unwrap_or(0.0);
    assert!(delivered >= 10_000_000.0 && retransmitted > 0.0, "{delivered} {retransmitted}");

    // The picture drawn from the event log.
    let drawn = here.run(&["plot", only(&here.path("logs")).to_str().unwrap()]);
    assert!(drawn.status.success(), "{drawn:?}");
    let text = String::from_utf8(drawn.stdout).unwrap();
    let document = Document::parse(&text).unwrap();
    let panels = Panel::all(&document);
    assert_eq!(panels.len(), 4);
    near(bytes(&panels[0].line("acknowledged")), delivered, 0.01);
    let payload: f64 = events.data("tcp:segment_sent", "/header/payload_length").sum();
    near(bytes(&panels[0].line("sent")), payload, 0.01);
    near(most(&panels[1].line("latest")), events.metric("/latest_rtt").fold(0.0, f64::max), RESOLUTION);
    near(most(&panels[2].line("congestion window")), cwnd, RESOLUTION);
    near(most(&panels[2].line("in flight")), events.metric("/bytes_in_flight").fold(0.0, f64::max), RESOLUTION);
    near(panels[3].line("retransmitted").last().unwrap().1, retransmitted, 2.0 * RESOLUTION);
    near(
        panels[3].line("marked lost").last().unwrap().1,
        events.metric("/lost_bytes").last().unwrap(),
        2.0 * RESOLUTION,
    );
    let end = events.0.last().unwrap()["time"].as_f64().unwrap() / 1e3;
    near(panels[2].line("congestion window").last().unwrap().0, end, RESOLUTION);

    // The picture drawn from samples during the transfer.
    let text = fs::read_to_string(&picture).unwrap();
    let document = Document::parse(&text).unwrap();
    let panels = Panel::all(&document);
    near(bytes(&panels[0].line("acknowledged")), delivered, 0.02);
    near(
        panels[3].line("retransmitted").last().unwrap().1,
        report["retransmitted_bytes"].as_f64().unwrap(),
        2.0 * RESOLUTION,
    );
    let sampled = most(&panels[2].line("congestion window"));
    assert!(sampled > 0.5 * cwnd && sampled <= cwnd * (1.0 + RESOLUTION), "{sampled} {cwnd}");
    // The band shows a limit of the sender almost all the time.
    let band = panels[0].0.descendants().find(|node| node.attribute("data-of") == Some("limits")).unwrap();
    let boxes: Vec<_> = band.children().map(|area| (number(area, "x"), number(area, "width"))).collect();
    assert!(boxes.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0 + 0.02), "{boxes:?}");
    let axis = panels[0].line("sent");
    let [(from, low), (to, high)] = panels[0].ticks("tick x");
    let wide = (axis.last().unwrap().0 - axis[0].0) * (to - from) / (high - low);
    let covered: f64 = boxes.iter().map(|(_, width)| width).sum();
    assert!(covered > 0.9 * wide, "{covered} of {wide}");
}

#[test]
fn a_failed_transfer_is_drawn_too_and_other_files_are_refused() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let receiver = there.receive(&["--allow", &here.key()]);
    let picture = here.path("picture.svg").into_os_string().into_string().unwrap();
    assert!(here.send(&receiver, &[&file]).status.success());
    fs::write(&file, "another").unwrap();
    failed(&here.send(&receiver, &["--plot", &picture, &file]), 1);
    assert!(Document::parse(&fs::read_to_string(&picture).unwrap()).is_ok());
    let said = failed(&here.run(&["plot", &file]), 1);
    assert_eq!(said.trim_end(), format!("longhaul plot: {file}: the log has no connection of longhaul"));
    let said = failed(&here.run(&["plot", &picture]), 1);
    assert!(said.contains("record 1 is not one of an event log of longhaul: it does not begin with RS"), "{said}");
    assert!(failed(&here.run(&["plot", "/nonexistent"]), 1).contains("/nonexistent: cannot open the log: "));
    let said = failed(&here.send(&receiver, &["--plot", "/nonexistent/x.svg", &here.file("b", 10)]), 0);
    assert!(said.contains("cannot write /nonexistent/x.svg: "), "{said}");
}
