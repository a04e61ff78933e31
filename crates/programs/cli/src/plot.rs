//! Picture of a transfer, drawn from the event log of its connection: rate, round-trip time, windows and losses over
//! time, and the limit of the sender.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use longhaul_plot::canvas::{Around, Axis, Canvas, Key, Look, Wish};
use longhaul_plot::path::{thinned, through};
use longhaul_plot::stack::{align, stack};
use longhaul_plot::style;
use longhaul_plot::tag::Tag;

mod log;
mod recording;
mod series;

use log::LIMITS;
use log::Transfer;
pub(crate) use recording::Plot;
use series::{Bin, Buckets, Points};

/// Height of the band that shows the limit of the sender, and distance between the band and the plot area.
const BAND: f64 = 12.0;
const GAP: f64 = 4.0;
const MAX_BINS: f64 = 128.0;
const MIN_BINS: f64 = 8.0;
const PANELS: usize = 4;
const BAND_BINS: f64 = 170.0;
/// Minimum size of the smaller direction, as a fraction of the larger one, for which it is also shown.
const SHOWN: f64 = 0.05;

/// Draws the connection of the event log `file` as SVG.
pub(crate) fn draw(file: &Path) -> Result<String> {
    let log = File::open(file).context("cannot open the log")?;
    Ok(Transfer::read(BufReader::new(log))?.draw())
}

/// Name and points of a line.
type Line = (&'static str, Vec<(f64, f64)>);

fn draw_lines(canvas: &mut Canvas, lines: &[Line]) {
    for (nth, (name, points)) in lines.iter().enumerate() {
        let points = thinned(points, lines.len());
        let path = through(points.into_iter().map(|(x, y)| canvas.point(x, y)));
        let group = Tag::new("g").set("data-of", name).child(&Tag::new("title").text(name));
        canvas.marks.push(&group.child(&style::line(nth, &path)));
    }
    if lines.iter().all(|(_, points)| points.is_empty()) {
        canvas.nothing();
    }
}

impl Transfer {
    pub(crate) fn draw(&self) -> String {
        let title = format!("{} to {}, {}", self.local, self.remote, self.congestion);
        // Each value holds until the next one.
        let held = |name, points: &Points| (name, points.steps(self.end));
        let trips = vec![held("latest", &self.latest_rtt), held("smoothed", &self.smoothed_rtt)];
        let windows = vec![held("congestion window", &self.cwnd), held("in flight", &self.in_flight)];
        let losses = vec![held("marked lost", &self.lost), held("retransmitted", &self.retransmitted)];
        let panels: [_; PANELS] = [
            ("rate", "Mb/s", self.rates()),
            ("round trip", "ms", trips),
            ("window", "bytes", windows),
            ("total", "bytes", losses),
        ];
        let mut pictures: Vec<Canvas> = panels
            .iter()
            .enumerate()
            .map(|(nth, (name, unit, lines))| self.panel(nth, &title, (name, unit), lines))
            .collect();
        align(&mut pictures);
        for (nth, (canvas, (.., lines))) in pictures.iter_mut().zip(&panels).enumerate() {
            if nth == 0 {
                self.band(canvas);
            }
            draw_lines(canvas, lines);
        }
        let about = "Rate, round trip, windows and losses of a connection over time, and what limited the sender.";
        stack("transfer", &title, about, &pictures)
    }

    fn panel(&self, nth: usize, title: &str, (name, unit): (&str, &str), lines: &[Line]) -> Canvas {
        let values = lines.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
        let y = Axis::of(values, Wish { name, unit, is_log: false, zero: true, about: 5 });
        let x = Axis::between((0.0, self.end), "time", "s", 0.0);
        let key = |(nth, (name, _)): (usize, &Line)| Key { look: Look::Line(nth), name: (*name).to_owned() };
        let mut around = Around {
            id: format!("transfer-{nth}"),
            about: format!("{name} against time in seconds."),
            legend: lines.iter().enumerate().map(key).collect(),
            ..Around::default()
        };
        if nth > 0 {
            if nth + 1 == PANELS && self.dropped > 0 {
                around.caption = format!("{} events are missing in the log.", self.dropped);
            }
            return Canvas::new(around, x, y);
        }
        title.clone_into(&mut around.title);
        let limit = |(nth, name, _): (usize, &str, _)| Key { look: Look::Box(nth), name: format!("limit: {name}") };
        around.legend.extend(self.limits().map(limit));
        let mut canvas = Canvas::new(around, x, y);
        // Lowers the plot area to make room for the band.
        canvas.lower(BAND + GAP);
        canvas
    }

    /// Returns the rates in Mb/s as steps. Omits a direction with little data.
    fn rates(&self) -> Vec<Line> {
        let [acked, received] = [&self.acked, &self.received].map(Buckets::total);
        let most = acked.max(received);
        let is_shown = |total: f64| total > 0.0 && total >= SHOWN * most;
        let mut lines = Vec::new();
        if is_shown(acked) {
            lines.push(("sent", self.steps(&self.sent)));
            lines.push(("acknowledged", self.steps(&self.acked)));
        }
        if is_shown(received) {
            lines.push(("received", self.steps(&self.received)));
        }
        lines
    }

    /// Returns the rate of bytes in Mb/s as steps. A bin is a round trip wide, within the limits on the number of bins.
    fn steps(&self, bytes: &Buckets) -> Vec<(f64, f64)> {
        let trip = self.smoothed_rtt.get().first().map_or(0.0, |(_, millis)| millis / 1e3);
        let wanted = (self.end / trip.max(1e-9)).clamp(MIN_BINS, MAX_BINS);
        let bins = bytes.bins(self.end / wanted, self.end);
        let rate = |bin: &Bin| bin.sum * 8e-6 / (bin.to - bin.from);
        bins.iter().flat_map(|bin| [(bin.from, rate(bin)), (bin.to, rate(bin))]).collect()
    }

    /// Returns number, name and time of each limit that applied at some time.
    fn limits(&self) -> impl Iterator<Item = (usize, &'static str, &Buckets)> {
        let limits = LIMITS.iter().zip(&self.limited).enumerate();
        limits.map(|(nth, ((_, name), time))| (nth, *name, time)).filter(|(_, _, time)| time.total() > 0.0)
    }

    /// Draws a band above the plot area with the limit that applied longest in each bin.
    fn band(&self, canvas: &mut Canvas) {
        let limits: Vec<(usize, &str, Vec<Bin>)> =
            self.limits().map(|(nth, name, time)| (nth, name, time.bins(self.end / BAND_BINS, self.end))).collect();
        let count = limits.first().map_or(0, |(_, _, bins)| bins.len());
        let most = |bin: usize| {
            let sums = limits.iter().filter_map(|(nth, name, bins)| Some((*bins.get(bin)?, *nth, *name)));
            sums.filter(|(bin, ..)| bin.sum > 0.0).max_by(|a, b| a.0.sum.total_cmp(&b.0.sum))
        };
        let mut group = Tag::new("g").set("data-of", "limits");
        let top = canvas.top - BAND - GAP;
        // Neighbouring bins with the same limit become one box.
        let bins: Vec<_> = (0..count).filter_map(most).collect();
        for run in bins.chunk_by(|a, b| a.1 == b.1 && a.0.to == b.0.from) {
            let (Some((first, nth, name)), Some((last, ..))) = (run.first(), run.last()) else { continue };
            let (Some(left), Some(right)) = (canvas.x(first.from), canvas.x(last.to)) else { continue };
            let area = style::hatched("transfer-0", *nth, (left, top), (right - left, BAND));
            group.push(&area.child(&Tag::new("title").text(name)));
        }
        canvas.marks.push(&group);
    }
}
