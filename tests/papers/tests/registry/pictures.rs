//! Text pictures of the window of each congestion controller over time.
//!
//! After a change of an algorithm, run `INSTA_UPDATE=always cargo test -p longhaul-tests-papers --test registry
//! pictures::` and check the difference in git.

use libtest_mimic::Trial;
use longhaul_cc::Congestion;
use longhaul_cc::registry::Slot;
use longhaul_link::{Limit, LinkConfig, Loss};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_units::{Rate, Span};

const WIDTH: usize = 72;
const HEIGHT: usize = 14;
/// Number of samples of the window per column.
const LOOKS: u64 = 50;

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(80);
/// IP length of a full packet in bytes.
const PACKET: u64 = 1500;

struct Scene {
    title: &'static str,
    loss: f64,
    length: Span,
}

const CLEAN: Scene = Scene { title: "no random loss", loss: 0.0, length: Span::from_secs(40) };
const LOSSY: Scene = Scene { title: "random loss of 0.02 %", loss: 0.0002, length: Span::from_secs(40) };
const START: Scene = Scene { title: "the start", loss: 0.0, length: Span::from_secs(4) };

struct Subject {
    name: String,
    spec: String,
    scenes: &'static [Scene],
}

/// Minimum, maximum and last value of the window in one column.
#[derive(Clone, Copy, Default)]
struct Column {
    least: u64,
    most: u64,
    last: u64,
    mark: char,
}

/// Returns the controllers to draw: all profiles and congestion-avoidance algorithms over a long time, start-up schemes
/// and recovery algorithms at the start, and loss classifiers with losses to classify.
fn subjects() -> Vec<Subject> {
    let mut subjects: Vec<_> = (longhaul_tests_papers::registry().profiles.iter())
        .map(|profile| Subject {
            name: profile.name.to_owned(),
            spec: profile.name.to_owned(),
            scenes: &[CLEAN, LOSSY],
        })
        .collect();
    for entry in longhaul_tests_papers::registry().entries {
        let (name, slot) = (entry.name, entry.slot());
        let own = |spec: String, scenes| Subject { name: format!("{slot}-{name}"), spec, scenes };
        subjects.extend(match slot {
            Slot::Startup if name == "none" => None,
            Slot::Startup => Some(own(format!("startup={name},slow-start=slow-start,avoidance=new-reno"), &[START])),
            Slot::SlowStart => Some(own(format!("slow-start={name},avoidance=new-reno"), &[START])),
            Slot::Recovery => Some(own(format!("slow-start=slow-start,avoidance=new-reno,recovery={name}"), &[START])),
            Slot::Loss => Some(own(format!("slow-start=slow-start,avoidance=new-reno,loss={name}"), &[LOSSY])),
            Slot::Avoidance | Slot::Monolithic
                if longhaul_tests_papers::registry().profiles.iter().any(|profile| profile.name == name) =>
            {
                None
            }
            Slot::Avoidance | Slot::Monolithic => {
                let spec = entry.tested.first().copied().unwrap_or(name).to_owned();
                Some(Subject { name: name.to_owned(), spec, scenes: &[CLEAN, LOSSY] })
            }
        });
    }
    subjects
}

/// Returns the window in segments, column by column.
fn watch(spec: &str, scene: &Scene) -> Vec<Column> {
    let link = LinkConfig::new(RATE, RTT / 2).queue(Limit::Bytes(RATE.bytes_in(RTT).0));
    let congestion: Congestion = longhaul_tests_papers::congestion(spec);
    let mut setup = Setup::symmetric(1, link).under(&congestion);
    if scene.loss > 0.0 {
        setup.link_mut(0).loss = Loss::Uniform(scene.loss);
    }
    let mut sim = Sim::new(setup);
    let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let (mut columns, mut last, mut seen) = (Vec::new(), 0, (0, 0));
    for _ in 0..WIDTH {
        let mut column = Column { least: u64::MAX, most: 0, last, mark: ' ' };
        for _ in 0..LOOKS {
            sim.run_for(scene.length / (WIDTH as u64 * LOOKS));
            let Some(connection) = sim.host(0).endpoint.connection(sim.session(client).id) else { continue };
            let info = connection.info(sim.now());
            let cwnd = info.cwnd.0 / u64::from(info.mss);
            column = Column { least: column.least.min(cwnd), most: column.most.max(cwnd), last: cwnd, ..column };
            let counts = (info.recoveries, info.timeouts);
            if counts.1 > seen.1 {
                column.mark = 'T';
            } else if counts.0 > seen.0 && column.mark == ' ' {
                column.mark = 'x';
            }
            seen = counts;
        }
        // A column includes the last value of the preceding one, so that the line has no gaps.
        if last > 0 {
            (column.least, column.most) = (column.least.min(last), column.most.max(last));
        }
        last = column.last;
        columns.push(column);
    }
    columns
}

/// Returns the smallest round number of segments per row with which `most` fits: any number below 10, a multiple of 5
/// below 100, and so on.
fn segments_a_row(most: u64) -> u64 {
    let least = most / HEIGHT as u64 + 1;
    let round = if least < 10 { 1 } else { 10_u64.pow(least.ilog10()) / 2 };
    least.next_multiple_of(round)
}

fn draw(scene: &Scene, columns: &[Column]) -> String {
    let step = segments_a_row(columns.iter().map(|column| column.most).max().unwrap_or_default());
    let full = RATE.bytes_in(RTT).0 / PACKET;
    let mut text = format!("{}\n", scene.title);
    for row in (0..HEIGHT as u64).rev() {
        let (low, high) = (row * step, (row + 1) * step);
        // A row of dots shows the BDP, and another one the BDP plus the queue.
        let ground = if [full, 2 * full].iter().any(|level| (low..high).contains(level)) { '.' } else { ' ' };
        let line: String = columns.iter().map(|c| if c.least < high && c.most >= low { '#' } else { ground }).collect();
        let label = if row % 2 == 0 { low.to_string() } else { String::new() };
        text += &format!("{label:>6} |{}\n", line.trim_end());
    }
    let (mut axis, mut labels) = ("-".repeat(WIDTH), String::new());
    for quarter in 0..=4 {
        let (at, seconds) = (quarter * WIDTH / 4, scene.length.as_millis() as usize * quarter / 4000);
        if at < WIDTH {
            axis.replace_range(at..=at, "+");
        }
        labels = format!("{labels:at$}{seconds}");
    }
    let marks: String = columns.iter().map(|column| column.mark).collect();
    text += &format!("{:8}{axis}\n{:8}{labels} s\n", "", "");
    text + format!("{:>6}  {marks}", "loss").trim_end() + "\n"
}

fn picture(subject: &Subject) -> String {
    let mut text = format!(
        "{}\n\ncwnd in segments over time: 20 Mb/s, 80 ms, drop-tail queue of one bandwidth-delay product; dots are the path\n\
         without and with its queue, x begins a recovery, T is a timeout\n",
        subject.spec
    );
    for scene in subject.scenes {
        text += &format!("\n{}", draw(scene, &watch(&subject.spec, scene)));
    }
    text
}

fn look_as_before(subject: &Subject) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots/pictures");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(subject.name.as_str(), picture(subject)));
}

/// Returns one test per picture, and the test of the drawing.
pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let trial = |subject: Subject| {
        Trial::test(format!("pictures::{}", subject.name), move || {
            look_as_before(&subject);
            Ok(())
        })
    };
    let drawing = Trial::test("pictures::a_drawing_is_to_scale", || {
        a_drawing_is_to_scale();
        Ok(())
    });
    subjects().into_iter().map(trial).chain([drawing])
}

/// The expected sawtooth was computed by hand: the rows that it crosses, the marks below, the labels.
fn a_drawing_is_to_scale() {
    let column = |number: u64| {
        let at = 10 + number % 36 * 2;
        Column { least: at, most: at + 2, last: at + 2, mark: if number == 36 { 'x' } else { ' ' } }
    };
    let columns: Vec<_> = (0..WIDTH as u64).map(column).collect();
    let text = draw(&CLEAN, &columns);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!([13, 82, 200, 1400].map(segments_a_row), [1, 6, 15, 150]);
    assert_eq!(lines.len(), HEIGHT + 4);
    // Each row is six segments. Values from 72 to 77 are in four columns of each tooth; values below 6 do not occur.
    assert_eq!(lines[2], format!("    72 |{}####{}####", " ".repeat(30), " ".repeat(32)));
    assert_eq!(lines[HEIGHT], "     0 |");
    assert_eq!(lines[HEIGHT + 3], format!("  loss  {}x", " ".repeat(36)));
    assert!(lines[HEIGHT + 2].starts_with("        0                 10                20                30 "));
}
