//! The page in a real browser. Without chromium, these tests print a message and pass.

use std::fs;
use std::process::{Command, Output};

use longhaul_lab::experiment::Experiment;
use longhaul_lab::judge::{Judged, judge};
use longhaul_lab::page::{self, Section};
use longhaul_lab::plot;
use longhaul_lab::record::Record;

const ALL: &str = include_str!("../data/all-plots.toml");

/// An experiment of another paper, without pictures. Its texts would break the page if they were not escaped.
const OTHER: &str = r#"id = "other"
title = "</script><script>console.error(1)</script>"
source = "Nobody + Sons, 2001, figure 3"
runs = 1
quick-runs = 1
duration = "2s"
bottleneck = "--rate 1mbit --rtt 20ms --queue 1bdp"
rows = [
    { id = "lost <b>", not-reproducible = "the figure's \"numbers\" & axes are not there" },
    { id = "least", metric = "goodput", rule = "at least 3" },
]

[[flows]]
name = "x"
congestion = "bbr"
[metrics]
goodput = { value = "goodput(x)", unit = "Mb/s" }"#;

/// Two rows of one paper, reproduced by construction of the values, and two of another: not reproducible and not
/// reproduced.
fn html() -> String {
    html_of(&[ALL, OTHER])
}

/// Returns the page of these experiments, with two runs per cell and computed values.
fn html_of(texts: &[&str]) -> String {
    page_of(texts, |runs| runs)
}

/// Returns the same page if only some runs of each experiment have ended.
fn page_of(texts: &[&str], ended: fn(usize) -> usize) -> String {
    let experiments: Vec<Experiment> = texts.iter().map(|text| Experiment::read("a.toml", text).unwrap()).collect();
    let runs = |experiment: &Experiment| -> Vec<Record> {
        let run = |(cell, seed): (usize, u64)| {
            let value = 40.0 / (cell as f64 + 1.0) + seed as f64 / 10.0;
            let values = if experiment.cells.len() == 1 { vec![Some(2.0)] } else { vec![Some(value), Some(value)] };
            Record { cell, seed, values, ..Record::default() }
        };
        (0..experiment.cells.len()).flat_map(|cell| [(cell, 1), (cell, 2)]).map(run).collect()
    };
    let records: Vec<Vec<Record>> = experiments.iter().map(runs).collect();
    let rows: Vec<Vec<Judged>> = experiments.iter().zip(&records).map(|(e, records)| judge(e, records, 2)).collect();
    let pictures: Vec<_> = experiments.iter().zip(&records).map(|(e, records)| plot::draw(e, records)).collect();
    let section = |nth: usize| Section {
        tables: &[],
        experiment: &experiments[nth],
        rows: &rows[nth],
        pictures: &pictures[nth],
        ended: ended(records[nth].len()),
        runs: records[nth].len(),
        took: 90.0,
    };
    page::html(&(0..texts.len()).map(section).collect::<Vec<_>>(), &[])
}

/// Returns the texts between each pair of markers on a page.
fn between<'a>(page: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    page.split(begin).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

/// The DOM of a page in the browser, and its console output.
struct Seen {
    dom: String,
    console: Vec<String>,
}

impl Seen {
    /// Returns the identifiers of the visible rows.
    fn rows(&self) -> Vec<&str> {
        let rows = self.dom.split("<tr data-verdict=").skip(1);
        let visible = rows.filter(|row| !row.split('>').next().unwrap().contains("hidden"));
        visible.map(|row| row.split_once("<th scope=\"row\">").unwrap().1.split("</th>").next().unwrap()).collect()
    }

    fn is_open(&self) -> bool {
        self.dom.split_once("<dialog ").unwrap().1.split('>').next().unwrap().contains(" open")
    }

    /// Returns the values that the test's script stored in the page.
    fn told(&self) -> Vec<&str> {
        self.dom.split_once("data-told=\"").unwrap().1.split('"').next().unwrap().split('|').collect()
    }
}

/// Loads the page with this fragment and an additional script in chromium, and returns its output, or `None` without
/// chromium. The browser's clock is virtual, so that timers of scripts wait only for each other.
fn chromium(name: &str, fragment: &str, script: &str) -> Option<Output> {
    if !needs::program("chromium") {
        return None;
    }
    let directory = format!("{}/page-{name}", env!("CARGO_TARGET_TMPDIR"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let page = html().replace("</body>", &format!("<script>{script}</script></body>"));
    fs::write(format!("{directory}/index.html"), page).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .args([&format!("--user-data-dir={directory}/profile"), "--window-size=1000,700"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"])
        .args(["--virtual-time-budget=3000", "--dump-dom", &format!("file://{directory}/index.html#{fragment}")])
        .output();
    Some(output.unwrap())
}

fn browse(name: &str, fragment: &str, script: &str) -> Option<Seen> {
    let output = chromium(name, fragment, script)?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(Seen {
        dom: String::from_utf8(output.stdout).unwrap(),
        console: told.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
    })
}

#[test]
fn filters_are_in_the_address() {
    let Some(seen) = browse("filters", "paper=Nobody%20%2B%20Sons%2C%202001&verdict=not-reproducible", "") else {
        return;
    };
    assert_eq!(seen.rows(), ["lost &lt;b&gt;"]);
    assert!(seen.dom.contains("1 of 4 rows"));
    assert!(seen.console.is_empty(), "{:?}", seen.console);
    assert!(!seen.is_open());
    assert!(seen.dom.contains("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"));
}

/// The script changes the fragment, as a user would do in the address bar.
#[test]
fn each_filter_does_its_own() {
    const SCRIPT: &str = r##"
        const told = [];
        const rows = () => [...document.querySelectorAll("tr[data-verdict]")].filter((row) => !row.hidden);
        const sections = () => [...document.querySelectorAll(".experiment")].filter((one) => !one.hidden).length;
        const all = ["", "verdict=reproduced", "verdict=not-reproduced", "algorithm=westwood",
            "algorithm=bbr&verdict=reproduced", "q=LEAST+nobody", "plot=all-plots.none"];
        const next = () => {
            if (told.length === all.length) {
                document.body.dataset.told = told.join("|");
                return;
            }
            location.hash = all[told.length];
            setTimeout(() => {
                const names = rows().map((row) => row.querySelector("th").textContent);
                told.push(names.join(",") + ";" + sections() + ";" + document.getElementById("shown").textContent);
                next();
            }, 50);
        };
        next();
    "##;
    let Some(seen) = browse("each", "", SCRIPT) else { return };
    let wanted = [
        "lost &lt;b&gt;,least,a,b;2;4 of 4 rows",
        "a,b;1;2 of 4 rows",
        "least;1;1 of 4 rows",
        "a,b;1;2 of 4 rows",
        ";0;0 of 4 rows",
        "least;1;1 of 4 rows",
        "lost &lt;b&gt;,least,a,b;2;4 of 4 rows",
    ];
    assert_eq!(seen.told(), wanted);
    assert!(!seen.is_open() && seen.console.is_empty(), "{:?}", seen.console);
}

#[test]
fn a_picture_opens_large() {
    let Some(seen) = browse("open", "plot=all-plots.bars", "") else { return };
    assert!(seen.is_open());
    let within = seen.dom.split_once("id=\"large-picture\">").unwrap().1.split("</dialog>").next().unwrap();
    assert!(within.starts_with("<svg") && within.contains("Goodput under random losses, \"&lt;\" &amp; co."));
    assert!(seen.console.is_empty(), "{:?}", seen.console);
}

/// Actions of a user: pressing a key, typing, browsing through the pictures, closing one, and following a link of the
/// summary.
#[test]
fn it_works_by_keyboard_and_by_links() {
    const SCRIPT: &str = r##"
        const told = [];
        const tell = (what) => told.push(what);
        const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        const visible = () => [...document.querySelectorAll("tr[data-verdict]")].filter((row) => !row.hidden).length;
        press("/");
        tell(document.activeElement.name);
        const field = document.activeElement;
        field.value = "westwood";
        field.dispatchEvent(new Event("input", { bubbles: true }));
        tell(visible() + location.hash);
        document.getElementById("filters").reset();
        tell(visible() + location.hash);
        document.querySelector("a.picture").click();
        tell(document.getElementById("large").open + location.hash);
        press("ArrowRight");
        tell(location.hash);
        press("ArrowLeft");
        press("ArrowLeft");
        tell(location.hash);
        document.getElementById("close").click();
        setTimeout(() => {
            tell(location.hash + document.querySelectorAll("figure svg").length);
            document.querySelector("#summary tbody a").click();
            tell(visible() + location.hash);
            document.getElementById("theme").click();
            tell(document.documentElement.dataset.theme);
            document.body.dataset.told = told.join("|");
        }, 100);
    "##;
    let Some(seen) = browse("keys", "", SCRIPT) else { return };
    let wanted = [
        "q",
        "2#q=westwood",
        "4",
        "true#plot=all-plots.bars",
        "#plot=all-plots.lines",
        "#plot=all-plots.cdf-of-series",
        "11",
        "1#paper=Nobody+%2B+Sons%2C+2001&amp;verdict=not-reproduced&amp;kind=claim",
        "dark",
    ];
    assert_eq!(seen.told(), wanted);
    assert!(seen.console.is_empty(), "{:?}", seen.console);
}

/// Relative luminance (WCAG 2.2) of a colour as browsers compute it, such as `rgb(27, 27, 31)`.
fn luminance(colour: &str) -> f64 {
    let numbers = colour.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
    let linear = numbers.take(3).map(|part| {
        let part = part.parse::<f64>().unwrap() / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    linear.zip([0.2126, 0.7152, 0.0722]).map(|(part, weight)| part * weight).sum()
}

/// The page and its pictures have dark text on a light background, or the reverse, with a contrast of at least 4.5 to
/// 1 (WCAG 2.2, 1.4.3).
#[test]
fn light_and_dark_differ() {
    const SCRIPT: &str = r##"
        const of = (element, name) => getComputedStyle(element)[name];
        const picture = document.querySelector("figure svg");
        document.body.dataset.told = [
            of(document.body, "backgroundColor"), of(document.body, "color"),
            of(picture.querySelector(".ground"), "fill"), of(picture.querySelector("text"), "fill"),
        ].join("|");
    "##;
    for (theme, is_light) in [("light", true), ("dark", false)] {
        let Some(seen) = browse(theme, &format!("theme={theme}"), SCRIPT) else { return };
        let told = seen.told();
        for pair in told.chunks(2) {
            let [ground, text] = [pair[0], pair[1]].map(luminance);
            let contrast = (ground.max(text) + 0.05) / (ground.min(text) + 0.05);
            assert!((ground > text) == is_light && contrast >= 4.5, "{theme}: {told:?}");
        }
    }
}

/// On a phone with a width of 390 pixels, nothing is wider than the screen, and pictures scroll in their frames at a
/// legible size.
#[test]
fn a_narrow_screen_shows_all_of_it() {
    const SCRIPT: &str = r##"
        const frame = document.createElement("iframe");
        frame.style.cssText = "width: 390px; height: 800px; border: 0";
        const page = document.documentElement.cloneNode(true);
        page.querySelectorAll("script").forEach((script) => script.remove());
        frame.srcdoc = "<!DOCTYPE html>" + page.outerHTML;
        frame.addEventListener("load", () => {
            const inner = frame.contentDocument;
            const box = (selector) => inner.querySelector(selector).getBoundingClientRect();
            document.body.dataset.told = [
                inner.documentElement.scrollWidth, Math.round(box("#summary tbody tr").right),
                Math.round(box("tr[data-verdict]").right), Math.round(box(".picture").right),
                Math.round(box(".picture svg").width), frame.contentWindow.getComputedStyle(inner.querySelector("#filters")).position,
            ].join("|");
        });
        document.body.append(frame);
    "##;
    let Some(seen) = browse("narrow", "", SCRIPT) else { return };
    let told = seen.told();
    let [page, summary, row, picture, drawing] = [0, 1, 2, 3, 4].map(|nth| told[nth].parse::<f64>().unwrap());
    assert!(page <= 390.0 && summary <= 390.0 && row <= 390.0 && picture <= 390.0, "{told:?}");
    // The picture is 680 units wide with text of 12 units, which must have at least 9 pixels.
    assert!(drawing >= 9.0 / 12.0 * 680.0, "{told:?}");
    assert_eq!(told[5], "static", "the filters do not cover the screen");
}

/// Text of 12 units in thumbnails has at least 8 pixels on a wide screen.
#[test]
fn thumbnails_can_be_read() {
    const SCRIPT: &str = r##"
        document.body.dataset.told = [...document.querySelectorAll(".picture svg")].map((svg) =>
            svg.getBoundingClientRect().width / svg.viewBox.baseVal.width).join("|");
    "##;
    let Some(seen) = browse("thumbnails", "", SCRIPT) else { return };
    let scales: Vec<f64> = seen.told().iter().map(|scale| scale.parse().unwrap()).collect();
    let readable = scales.iter().filter(|scale| 12.0 * **scale >= 8.0).count();
    assert!(scales.len() == 11 && readable == scales.len(), "{scales:?}");
}

/// The top of the page states how many claims of each paper hold. Rows that were not run are counted separately.
#[test]
fn the_first_screen_says_how_many_claims_hold() {
    let page = html();
    let outcome = between(&page, "<p id=\"others\">", "</p>")[0];
    let told = "2 of 3 measured rows of other sources (Nobody + Sons, 2001; Tests &lt;&amp;&quot;) are reproduced, 0 undecided, 1 not; 1 more cannot be reproduced here.";
    assert_eq!(outcome, told);
    let held = between(&page, "<td class=\"number held\">", "</td>");
    assert_eq!(held, ["0 of 1", "2 of 2"]);
    assert!(page.contains("<th class=\"number held\">2 of 3</th>"));
    let missing = page_of(&[ALL, OTHER], |runs| runs - 1);
    assert_eq!(
        between(&missing, "<p id=\"others\">", "</p>")[0],
        "No row of other sources (Nobody + Sons, 2001; Tests &lt;&amp;&quot;) was measured; 4 more belong to experiments with missing runs."
    );
    assert_eq!(between(&missing, "<td class=\"number not-run\">", "</td>"), ["2", "2"]);
    assert_eq!(between(&missing, "<td class=\"number held\">", "</td>"), ["\u{2013}"; 2]);
}

/// Nothing is loaded from elsewhere, and all rows and pictures are visible without scripts.
#[test]
fn the_page_is_one_file() {
    let page = html();
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let place = page.match_indices(outside).find(|(at, _)| {
            let own = ["http://www.w3.org/2000/svg", "url(#"];
            !own.iter().any(|own| page[*at..].starts_with(own))
        });
        assert!(place.is_none(), "{outside}: {:?}", place.map(|(at, _)| &page[at..at + 60]));
    }
    assert!(page.len() < 1_000_000);
    assert_eq!(page.matches("<tr data-verdict=").count(), 4);
    assert_eq!(page.matches("<svg ").count(), 11);
    assert_eq!(page.matches("<script>").count(), 1, "what a file says is no script");
    assert_eq!(page.matches(".plot .halo {").count(), 1, "one style for all pictures");
}

/// Rows with `each` expand to several rows, so that later rows have different indices in the file and on the page.
#[test]
fn values_of_a_list_have_the_names_of_their_own_cells() {
    let first = ALL.split("[[rows]]").next().unwrap();
    let row = |id: &str, over: &str, at: &str, order: &str, more: &str| {
        format!(
            "[[rows]]\nid = '{id}'\nmetric = 'goodput'\n{at}\nover = '{over}'\norder = {order}\nrule = 'decreasing'\n{more}\n"
        )
    };
    let text = [
        first.to_owned(),
        row("r", "controller", "each = 'loss'", "['cubic', 'westwood']", ""),
        row("s", "loss", "at = { controller = 'cubic' }", "['0.1%', '0.001%']", "paper = [2, 1]"),
        row("t", "controller", "at = { loss = '0.1%' }", "['new-reno', 'cubic', 'westwood']", ""),
    ];
    let page = html_of(&[&text.concat()]);
    let rows = between(&page, "<tr data-verdict=", "</tr>");
    let names: Vec<Vec<&str>> = rows.iter().map(|row| between(row, "<span class=\"choice\">", "</span>")).collect();
    let losses = ["0.1%", "0.001%"];
    let wanted: [&[&str]; 4] = [
        &["cubic", "westwood"],
        &["cubic", "westwood"],
        &[losses, losses].concat(),
        &["new-reno", "cubic", "westwood"],
    ];
    assert_eq!(names, wanted);
}

/// Rows of workloads list their algorithms like those of flows, unless the load is 0.
#[test]
fn rows_of_workloads_have_their_algorithms() {
    const WORKLOADS: &str = r#"id = "load"
title = "Load"
source = "Nobody"
runs = 1
quick-runs = 1
duration = "2s"
bottleneck = "--rate 1mbit --rtt 20ms --queue 1bdp"
rows = [
    { id = "r", metric = "m", at = { load = "50%" }, over = "start", order = ["jump-start", "halfback"], rule = "decreasing" },
    { id = "one", metric = "m", at = { load = "50%", start = "halfback" }, rule = "at least 0" },
    { id = "none", metric = "m", at = { load = "0%", start = "halfback" }, rule = "at least 0" },
]

[[axes]]
name = "load"
choices = ["0%", "50%"]
[[axes]]
name = "start"
choices = ["jump-start", "halfback"]
[[workloads]]
name = "web"
kind = "http"
load = "{load}"
congestion = "{start}+cubic"
[metrics]
m = { value = "carried()", unit = "Mb/s" }"#;
    let page = html_of(&[WORKLOADS]);
    let of = between(&page, " data-algorithms=\"", "\"");
    let words: Vec<Vec<&str>> = of.iter().map(|row| row.split_whitespace().collect()).collect();
    assert!(
        words[0].contains(&"jump-start") && words[0].contains(&"halfback") && words[0].contains(&"cubic"),
        "{of:?}"
    );
    assert!(
        !words[1].contains(&"jump-start") && words[1].contains(&"halfback") && words[1].contains(&"cubic"),
        "{of:?}"
    );
    assert!(words[2].is_empty(), "{of:?}");
    assert!(page.contains("<option value=\"jump-start\">"));
}
