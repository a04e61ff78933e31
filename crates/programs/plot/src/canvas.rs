//! Frame of a picture: title, legend, axes and caption around the plot area.

use crate::scale::{self, Scale};
use crate::tag::{Tag, coordinate};
use crate::text::{width, wrap};
use crate::{style, ticks};

const WIDTH: f64 = 680.0;
const AREA: f64 = 290.0;
/// Minimum height of a name along y.
const ROW: f64 = 20.0;
/// Minimum angle in degrees by which names along x are turned if they do not fit side by side.
const TURN: f64 = 40.0;
const MARGIN: f64 = 16.0;
/// For a bold font of size 16.
const TITLE: f64 = 17.5;
const TEXT: f64 = 12.0;
const TICK: f64 = 11.5;
const LINE: f64 = 14.0;

/// Texts around the plot area.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Prefix of ids in the page.
    pub id: String,
    /// Text above the picture.
    pub title: String,
    /// Description for readers who cannot see the picture.
    pub about: String,
    /// Text below the picture.
    pub caption: String,
    /// Entries of the legend, between the title and the plot area.
    pub legend: Vec<Key>,
}

/// An entry of the legend.
#[derive(Clone, Debug)]
pub struct Key {
    /// Symbol of the entry.
    pub look: Look,
    /// Text of the entry.
    pub name: String,
}

/// Symbol of a legend entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// The line of the nth colour and dash pattern.
    Line(usize),
    /// A line with a colour and a dash pattern.
    Dashed(usize, usize),
    /// The nth line, with the nth mark on it.
    LineAndMark(usize),
    /// The nth mark.
    Mark(usize),
    /// A box with the nth colour and hatching.
    Box(usize),
    /// A mark of reference values.
    HollowMark,
    /// A line and a mark of reference values.
    DashedAndHollow,
    /// A box of reference values.
    HollowBox,
    /// A dot.
    Dots,
    /// The line of the nth value known in advance.
    Expected(usize),
}

/// An axis with numbers or names.
#[derive(Clone, Debug)]
pub enum Axis {
    /// An axis with numbers.
    Numbers {
        /// Value at the start of the axis.
        low: f64,
        /// Value at the end of the axis.
        high: f64,
        /// Whether the axis is logarithmic.
        is_log: bool,
        /// Values with a tick, and their texts.
        ticks: Vec<(f64, String)>,
        /// Text beside the axis.
        label: String,
    },
    /// An axis with names.
    Names {
        /// The names.
        names: Vec<String>,
        /// Text beside the axis.
        label: String,
        /// Minimum width of a name.
        least: f64,
    },
}

impl Axis {
    /// Creates an axis with names that share the available width.
    pub fn names(names: &[String], label: &str) -> Self {
        Self::Names { names: names.to_vec(), label: label.into(), least: 0.0 }
    }

    /// Creates an axis for values, which ends at ticks.
    pub fn of(values: impl Iterator<Item = f64>, wish: Wish<'_>) -> Self {
        let extent = scale::extent(values, wish.is_log);
        let label = labelled(wish.name, wish.unit);
        if wish.is_log {
            let (low, high) = scale::round_log(extent);
            let ticks = ticks::decades(ticks::logarithmic(low, high));
            return Self::Numbers { low, high, is_log: true, ticks, label };
        }
        let (low, high, step) = scale::round(extent, wish.zero, wish.about);
        let (factor, unit) = prefixed(low.abs().max(high.abs()), wish.unit);
        let of = |tick: f64| (tick, ticks::label(tick / factor, step / factor));
        let ticks = ticks::linear(low, high, step).into_iter().map(of).collect();
        Self::Numbers { low, high, is_log: false, ticks, label: labelled(wish.name, &unit) }
    }

    /// Creates an axis with exactly these ends. Ticks are at least `finest` apart.
    pub fn between((low, high): (f64, f64), name: &str, unit: &str, finest: f64) -> Self {
        let (low, high) = if low < high { (low, high) } else { (low, low + 1.0) };
        let step = ticks::step(high - low, 8).max(finest);
        let ticks = ticks::linear(low, high, step).into_iter().map(|tick| (tick, ticks::label(tick, step))).collect();
        Self::Numbers { low, high, is_log: false, ticks, label: labelled(name, unit) }
    }

    const fn label(&self) -> &String {
        match self {
            Self::Numbers { label, .. } | Self::Names { label, .. } => label,
        }
    }
}

/// Requested properties of an axis.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Quantity, such as "goodput".
    pub name: &'a str,
    /// Unit of the quantity.
    pub unit: &'a str,
    /// Whether the axis is logarithmic.
    pub is_log: bool,
    /// Whether the axis has to include zero.
    pub zero: bool,
    /// Approximate number of ticks.
    pub about: usize,
}

fn labelled(name: &str, unit: &str) -> String {
    match (name.is_empty(), unit.is_empty()) {
        (_, true) => name.into(),
        (true, false) => unit.into(),
        _ => format!("{name} ({unit})"),
    }
}

/// Returns the factor by which large values are divided, and the unit with its prefix.
pub fn prefixed(most: f64, unit: &str) -> (f64, String) {
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let Some((factor, prefix)) = prefixes.into_iter().find(|(factor, _)| most >= 2.0 * factor) else {
        return (1.0, unit.into());
    };
    match unit {
        "bytes" | "B" => (factor, format!("{prefix}B")),
        _ if most < 2e5 => (1.0, unit.into()),
        _ => {
            let power = ticks::number(factor).replace('\u{2009}', "");
            let power = match power.as_str() {
                "1000" => "10\u{b3}",
                "1000000" => "10\u{2076}",
                _ => "10\u{2079}",
            };
            (factor, if unit.is_empty() { format!("\u{d7} {power}") } else { format!("{power} {unit}") })
        }
    }
}

/// A picture being drawn.
#[derive(Debug)]
pub struct Canvas {
    around: Around,
    x: Axis,
    y: Axis,
    /// Left edge of the plot area.
    pub left: f64,
    /// Right edge of the plot area.
    pub right: f64,
    /// Upper edge of the plot area.
    pub top: f64,
    /// Lower edge of the plot area.
    pub bottom: f64,
    /// Width of the picture, larger than usual if the names along x need it.
    wide: f64,
    head: Head,
    /// The lines of each name along x.
    names: Vec<Vec<String>>,
    /// Angle in degrees by which these names are turned, if any.
    turn: Option<f64>,
    y_label: Vec<String>,
    /// Elements in the plot area.
    pub marks: Tag,
}

#[derive(Clone, Debug, Default)]
struct Head {
    title: Vec<String>,
    /// By row: the entries, and the start of each.
    legend: Vec<Vec<(f64, Key)>>,
}

impl Canvas {
    /// Creates a picture with these axes.
    pub fn new(around: Around, x: Axis, y: Axis) -> Self {
        let title = wrap(&around.title, TITLE, WIDTH - 2.0 * MARGIN);
        let area = match &y {
            Axis::Numbers { .. } => AREA,
            Axis::Names { names, .. } => AREA.max(names.len() as f64 * ROW),
        };
        let y_label = wrap(y.label(), TEXT, area);
        let widest = match &y {
            Axis::Numbers { ticks, .. } => ticks.iter().map(|(_, text)| width(text, TICK)).fold(0.0, f64::max),
            Axis::Names { names, .. } => names.iter().map(|name| width(name, TICK)).fold(0.0, f64::max),
        };
        let left = MARGIN + y_label.len() as f64 * LINE + widest.min(WIDTH / 3.0) + 14.0;
        let least = match &x {
            Axis::Names { names, least, .. } => names.len() as f64 * least,
            Axis::Numbers { .. } => 0.0,
        };
        let right = (WIDTH - MARGIN - 6.0).max(left + least);
        let wide = right + MARGIN + 6.0;
        let legend = rows(&around.legend, left, right);
        let top = MARGIN + title.len() as f64 * 20.0 + legend.len() as f64 * 19.0 + 12.0;
        let (names, turn) = match &x {
            Axis::Names { names, .. } => along(names, left, (right - left) / names.len().max(1) as f64),
            Axis::Numbers { .. } => (Vec::new(), None),
        };
        let (head, bottom, marks) = (Head { title, legend }, top + area, Tag::new("g"));
        Self { around, x, y, left, right, top, bottom, wide, head, names, turn, y_label, marks }
    }

    pub(crate) fn width(&self) -> f64 {
        self.wide
    }

    /// Adds space above the plot area. Existing elements do not move.
    pub fn lower(&mut self, room: f64) {
        self.top += room;
        self.bottom += room;
    }

    /// Returns the x coordinate of a value.
    pub fn x(&self, value: f64) -> Option<f64> {
        scale_of(&self.x, self.left, self.right)?.place(value)
    }

    /// Returns the y coordinate of a value.
    pub fn y(&self, value: f64) -> Option<f64> {
        scale_of(&self.y, self.bottom, self.top)?.place(value)
    }

    /// Returns the coordinates of a point.
    pub fn point(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x(x)?, self.y(y)?))
    }

    /// Returns the start and the width of the nth name along x.
    pub fn slot(&self, nth: usize) -> (f64, f64) {
        let count = match &self.x {
            Axis::Names { names, .. } => names.len(),
            Axis::Numbers { .. } => 1,
        };
        let wide = (self.right - self.left) / count.max(1) as f64;
        (self.left + nth as f64 * wide, wide)
    }

    /// Returns the start and the height of the nth name along y, from the top.
    pub fn row(&self, nth: usize) -> (f64, f64) {
        let count = match &self.y {
            Axis::Names { names, .. } => names.len(),
            Axis::Numbers { .. } => 1,
        };
        let high = (self.bottom - self.top) / count.max(1) as f64;
        (self.top + nth as f64 * high, high)
    }

    /// Returns the y coordinate at which bars start.
    pub fn ground(&self) -> f64 {
        self.y(0.0).map_or(self.bottom, |y| y.clamp(self.top, self.bottom))
    }

    /// Draws a dashed line at the nth value known in advance.
    pub fn expected(&mut self, nth: usize, value: f64) {
        let Some(y) = self.y(value) else { return };
        let across = format!("M{} {}H{}", coordinate(self.left), coordinate(y), coordinate(self.right));
        self.marks.push(&style::expected(nth, &across));
    }

    /// Draws a message that there is nothing to show.
    pub fn nothing(&mut self) {
        let (x, y) = (f64::midpoint(self.left, self.right), f64::midpoint(self.top, self.bottom));
        self.marks.push(&words(x, y, "middle", "label nothing", "nothing was recorded"));
    }

    /// Returns the contents of the file.
    pub fn finish(self) -> String {
        format!("{}\n", self.element(None).0)
    }

    /// Returns the picture as an element, and its height. Inside another element, it begins at `y`.
    pub(crate) fn element(&self, y: Option<f64>) -> (Tag, f64) {
        let caption = wrap(&self.around.caption, 10.5, self.wide - 2.0 * MARGIN);
        let label = self.bottom + 12.0 + self.below();
        let has_label = !self.x.label().is_empty();
        let caption_top = label + if has_label { 20.0 } else { 4.0 } + 8.0;
        let height = caption_top + caption.len() as f64 * 13.0 + 8.0;
        let id = &self.around.id;
        let svg = match y {
            None => Tag::new("svg").set("xmlns", "http://www.w3.org/2000/svg"),
            Some(y) => Tag::new("svg").at("y", y),
        };
        let style = if y.is_none() { style_element() } else { String::new() };
        let mut svg = titled(svg, id, (self.wide, height), (&self.around.title, &self.around.about))
            .raw(&style)
            .child(&style::hatches(id, style::COLOURS))
            .child(&Tag::new("rect").set("class", "ground").at("width", self.wide).at("height", height));
        svg.push(&self.head());
        svg.push(&self.grid());
        svg.push(&self.marks);
        svg.push(&self.axes());
        if has_label {
            svg.push(&words((self.left + self.right) / 2.0, label + 8.0, "middle", "label", self.x.label()));
        }
        for (n, line) in caption.iter().enumerate() {
            svg.push(&words(MARGIN, caption_top + 6.0 + n as f64 * 13.0, "start", "caption", line));
        }
        (svg, height)
    }

    /// Returns the height that the names or numbers along x need.
    fn below(&self) -> f64 {
        let lines = match &self.x {
            Axis::Names { .. } => self.names.iter().map(Vec::len).max().unwrap_or(0),
            Axis::Numbers { .. } => 1,
        };
        match self.turn {
            None => lines as f64 * LINE,
            Some(turn) => {
                let widest = self.names.iter().flatten().map(|name| width(name, TICK)).fold(0.0, f64::max);
                widest * turn.to_radians().sin() + LINE
            }
        }
    }

    fn head(&self) -> Tag {
        let mut head = Tag::new("g");
        for (n, line) in self.head.title.iter().enumerate() {
            head.push(&words(MARGIN, MARGIN + 14.0 + n as f64 * 20.0, "start", "title", line));
        }
        let mut y = MARGIN + self.head.title.len() as f64 * 20.0 + 12.0;
        for row in &self.head.legend {
            for (x, key) in row {
                head.push(&look(&self.around.id, key.look, *x, y));
                head.push(&words(x + 34.0, y + 4.0, "start", "key", &key.name));
            }
            y += 19.0;
        }
        head
    }

    fn grid(&self) -> Tag {
        let mut path = String::new();
        if let Axis::Numbers { ticks, .. } = &self.y {
            for y in ticks.iter().filter_map(|(tick, _)| self.y(*tick)) {
                path += &format!("M{} {}H{}", coordinate(self.left), coordinate(y), coordinate(self.right));
            }
        }
        if let Axis::Numbers { ticks, .. } = &self.x {
            for x in ticks.iter().filter_map(|(tick, _)| self.x(*tick)) {
                path += &format!("M{} {}V{}", coordinate(x), coordinate(self.top), coordinate(self.bottom));
            }
        }
        Tag::new("path").set("class", "grid").set("d", &path)
    }

    /// Returns both axes with their ticks and the label of the y axis.
    fn axes(&self) -> Tag {
        let mut axes = Tag::new("g");
        let (left, bottom) = (coordinate(self.left), coordinate(self.bottom));
        let mut path = format!("M{left} {}V{bottom}H{}", coordinate(self.top), coordinate(self.right));
        match &self.x {
            Axis::Numbers { ticks, .. } => {
                // Ticks at numbers. A text that would overlap the previous one is omitted.
                let mut free = f64::NEG_INFINITY;
                for (place, text) in ticks.iter().filter_map(|(tick, text)| Some((self.x(*tick)?, text))) {
                    path += &format!("M{} {bottom}v5", coordinate(place));
                    let half = width(text, TICK) / 2.0;
                    if place - half < free {
                        continue;
                    }
                    free = place + half + 4.0;
                    axes.push(&words(place, self.bottom + 18.0, "middle", "tick x", text));
                }
            }
            Axis::Names { .. } => {
                // Names centred in their slots, on several lines, or turned if they are too wide.
                for (n, lines) in self.names.iter().enumerate() {
                    let (from, wide) = self.slot(n);
                    if let (Some(turn), Some(name)) = (self.turn, lines.first()) {
                        let (x, y) = (from + wide / 2.0 + 4.0, self.bottom + 14.0);
                        let turned = format!("rotate({} {} {})", coordinate(-turn), coordinate(x), coordinate(y));
                        axes.push(&words(x, y, "end", "tick x", name).set("transform", &turned));
                        continue;
                    }
                    for (line, text) in lines.iter().enumerate() {
                        let y = self.bottom + 18.0 + line as f64 * LINE;
                        axes.push(&words(from + wide / 2.0, y, "middle", "tick x", text));
                    }
                }
            }
        }
        // The y axis has numbers, or the names of rows in a heat map.
        match &self.y {
            Axis::Numbers { ticks, .. } => {
                for (place, text) in ticks.iter().filter_map(|(tick, text)| Some((self.y(*tick)?, text))) {
                    path += &format!("M{left} {}h-5", coordinate(place));
                    axes.push(&words(self.left - 8.0, place + 4.0, "end", "tick y", text));
                }
            }
            Axis::Names { names, .. } => {
                for (n, name) in names.iter().enumerate() {
                    let (from, high) = self.row(n);
                    axes.push(&words(self.left - 8.0, from + high / 2.0 + 4.0, "end", "tick y", name));
                }
            }
        }
        // The label of the y axis, turned by 90 degrees.
        for (n, line) in self.y_label.iter().enumerate() {
            let place = (MARGIN + 9.0 + n as f64 * LINE, (self.top + self.bottom) / 2.0);
            axes.push(&upright(place, "middle", "label", line));
        }
        axes.push(&Tag::new("path").set("class", "axis").set("d", &path));
        axes
    }
}

/// Returns the lines of names along x, in slots of this width from `left` on, and the angle by which they are turned.
/// If a word is wider than its slot, each name is one line, turned so far that none starts to the left of the picture.
fn along(names: &[String], left: f64, slot: f64) -> (Vec<Vec<String>>, Option<f64>) {
    let wrapped: Vec<Vec<String>> = names.iter().map(|name| wrap(name, TICK, slot - 6.0)).collect();
    if wrapped.iter().flatten().all(|line| width(line, TICK) <= slot) {
        return (wrapped, None);
    }
    let steepest = |(nth, name): (usize, &String)| {
        let room = left + (nth as f64 + 0.5) * slot;
        (room / width(name, TICK).max(1.0)).min(1.0).acos().to_degrees()
    };
    let turn = names.iter().enumerate().map(steepest).fold(TURN, f64::max);
    (names.iter().map(|name| vec![name.clone()]).collect(), Some(turn))
}

fn scale_of(axis: &Axis, from: f64, to: f64) -> Option<Scale> {
    match axis {
        Axis::Numbers { low, high, is_log, .. } => Some(Scale { low: *low, high: *high, is_log: *is_log, from, to }),
        Axis::Names { .. } => None,
    }
}

/// Adds size, title and description to the element of a picture. `id` is the prefix of ids in the page.
pub(crate) fn titled(svg: Tag, id: &str, (width, height): (f64, f64), (title, about): (&str, &str)) -> Tag {
    svg.set("class", "plot")
        .set("viewBox", &format!("0 0 {} {}", coordinate(width), coordinate(height)))
        .at("width", width)
        .at("height", height)
        .set("role", "img")
        .set("aria-labelledby", &format!("{id}-title {id}-about"))
        .child(&Tag::new("title").set("id", &format!("{id}-title")).text(title))
        .child(&Tag::new("desc").set("id", &format!("{id}-about")).text(about))
}

/// Returns the style element of a stand-alone file.
pub fn style_element() -> String {
    Tag::new("style").raw(style::CSS).to_string()
}

/// Returns a text element.
pub fn words(x: f64, y: f64, anchor: &str, class: &str, text: &str) -> Tag {
    let tag = Tag::new("text").at("x", x).at("y", y).set("class", class);
    if anchor == "start" { tag.text(text) } else { tag.set("text-anchor", anchor).text(text) }
}

/// Returns a text element that reads upwards.
pub fn upright((x, y): (f64, f64), anchor: &str, class: &str, text: &str) -> Tag {
    let turned = format!("rotate(-90 {} {})", coordinate(x), coordinate(y));
    words(x, y, anchor, class, text).set("transform", &turned)
}

fn rows(legend: &[Key], left: f64, right: f64) -> Vec<Vec<(f64, Key)>> {
    let mut rows: Vec<Vec<(f64, Key)>> = Vec::new();
    let mut x = f64::INFINITY;
    for key in legend {
        let wide = 34.0 + width(&key.name, TEXT) + 20.0;
        if x + wide - 20.0 > right {
            x = left;
            rows.push(Vec::new());
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, key.clone()));
        }
        x += wide;
    }
    rows
}

/// Returns the symbol of a legend entry, which is 28 wide.
fn look(id: &str, look: Look, x: f64, y: f64) -> Tag {
    let across = format!("M{} {}h28", coordinate(x), coordinate(y));
    let middle = (x + 14.0, y);
    let (corner, size) = ((x + 5.0, y - 6.0), (18.0, 12.0));
    match look {
        Look::Line(nth) => style::line(nth, &across),
        Look::Dashed(colour, dash) => style::dashed((colour, dash), &across),
        Look::LineAndMark(nth) => {
            Tag::new("g").child(&style::line(nth, &across)).child(&style::mark(nth, "solid", middle, 3.6))
        }
        Look::Mark(nth) => style::mark(nth, "solid", middle, 4.2),
        Look::Box(nth) => style::hatched(id, nth, corner, size),
        Look::HollowMark => style::shaped(0, middle, 5.5).set("class", "hollow"),
        Look::DashedAndHollow => Tag::new("g")
            .child(&Tag::new("path").set("class", "line").set("stroke-dasharray", "7 3").set("d", &across))
            .child(&style::shaped(0, middle, 5.0).set("class", "hollow")),
        Look::HollowBox => Tag::new("rect")
            .set("class", "hollow")
            .at("x", corner.0)
            .at("y", corner.1)
            .at("width", size.0)
            .at("height", size.1),
        Look::Dots => {
            let path = format!("M{} {}h0", coordinate(middle.0), coordinate(middle.1));
            Tag::new("path").set("class", "dots").set("d", &path)
        }
        Look::Expected(nth) => style::expected(nth, &across),
    }
}
