//! The scorecard.

use serde_json::Value;

use crate::common::{Place, json_lines, lab, refused, text, with};

/// One flow over a deep queue: `copa-cubic` keeps it short, and CUBIC fills it.
const QUEUES: &str = r#"
id = "queues"
title = "Deep queues"
source = "nobody"
runs = 4
quick-runs = 1
duration = "8s"
bottleneck = "--rate {rate} --rtt 20ms --queue 4bdp"

[[axes]]
name = "controller"
choices = ["new-reno"]

[[axes]]
name = "rate"
choices = ["20mbit", "40mbit"]

[[flows]]
name = "x"
congestion = "{controller}"
start-spread = "50ms"

[metrics]
delay = { value = "delay(p50, 4s, 8s)", unit = "ms" }
ratio = { value = "delay(p50, 4s, 8s)", unit = "", relative-to = { controller = "new-reno" } }
unused = { value = "goodput(x)", unit = "Mb/s", relative-to = { controller = "new-reno" } }

[[tables]]
id = "not of the card"
lines = "controller"
order = ["new-reno"]
columns = [{ head = "delay", value = "median(delay)" }]

[[card]]
title = "queue at {rate}"
value = "median(delay)"
each = "rate"
better = "least"
unit = "ms"
digits = "0"
bar = "at most 0.5 of cubic"

[[card]]
title = "share of NewReno's"
value = "mean(ratio)"
better = "least"
bar = "at most 0.001"

[[card]]
title = "rates that miss the bar"
value = "median(delay)"
count = "rate"
bar = "at most 0.5 of cubic"
"#;

/// A sample of paths with losses.
const LOSSES: &str = r#"
id = "losses-of-a-sample"
title = "Losses"
source = "nobody"
runs = 1
quick-runs = 1
duration = "5s"
bottleneck = "--rate 4mbit --rtt 20ms --queue 1bdp --loss-up {loss}"

[[axes]]
name = "controller"
choices = ["cubic"]

[[axes]]
name = "loss"
choices = ["0.5%", "1%", "2%", "3%", "4%"]

[[flows]]
name = "x"
congestion = "{controller}"

[metrics]
goodput = { value = "goodput(x)", unit = "Mb/s" }

[[card]]
title = "goodput"
value = "mean(goodput)"
drawn = "loss"
"#;

fn line<'a>(parts: &'a [Value], part: usize, title: &str) -> &'a Value {
    parts[part]["lines"].as_array().unwrap().iter().find(|line| line["title"] == title).unwrap()
}

#[test]
fn a_controller_beside_itself_has_no_marks_and_a_better_one_has() {
    let place = Place::new("scorecard");
    let (queues, losses) = (place.file("queues.toml", QUEUES), place.file("losses.toml", LOSSES));
    let out = place.path("out");
    // The second name is the first one with the usual value of a parameter.
    let names = "cubic,cubic(beta=0.7),copa-cubic";
    let arguments = ["scorecard", "-C", names, "--part", &queues, "--part", &losses, "--out", &out];
    let json = [&arguments[..], &["--json"]].concat();
    let output = lab(&json);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let parts = json_lines(&output.stdout);
    for (part, title) in [(0, "queue at 20mbit"), (0, "queue at 40mbit"), (0, "share of NewReno's"), (1, "goodput")] {
        let columns = line(&parts, part, title)["columns"].as_array().unwrap();
        let same = &columns[1];
        assert_eq!((&same["difference"], &same["difference_interval"][0]), (&0.0.into(), &0.0.into()), "{title}");
        assert!(same["is_better"].is_null() && same["interval"] == columns[0]["interval"], "{title}");
        let [low, value, high] =
            [&same["interval"][0], &same["value"], &same["interval"][1]].map(|of| of.as_f64().unwrap());
        assert!(low <= value && value <= high, "{title}: {low} {value} {high}");
    }
    // The queue is 2 ms with `copa-cubic`, and nearly 70 ms with CUBIC.
    for title in ["queue at 20mbit", "queue at 40mbit"] {
        let line = line(&parts, 0, title);
        assert_eq!(line["columns"][2]["is_better"], true, "{line}");
        assert_eq!(line["columns"][2]["meets"], true, "{line}");
        // CUBIC is what the bar refers to, and the same with another name misses it.
        assert!(line["columns"][0]["meets"].is_null() && line["columns"][1]["meets"] == false, "{line}");
    }
    let count = line(&parts, 0, "rates that miss the bar");
    assert_eq!([0, 1, 2].map(|nth| count["columns"][nth]["value"].as_f64()), [None, Some(2.0), Some(0.0)], "{count}");
    let share = line(&parts, 0, "share of NewReno's");
    assert!((0..3).all(|nth| share["columns"][nth]["meets"] == false), "{share}");

    // Four runs with each controller and NewReno, to which a metric is relative; one run of the other part.
    let runs = text(&place.bytes("out/queues/runs.jsonl"));
    assert_eq!(runs.lines().count(), 4 * 2 * 4);
    assert_eq!(text(&place.bytes("out/losses-of-a-sample/runs.jsonl")).lines().count(), 3 * 5);
    // The same command has nothing left to run.
    assert_eq!(lab(&json).stdout, output.stdout);
    assert_eq!(text(&place.bytes("out/queues/runs.jsonl")), runs);
    // With this folder as the base, only the first controller is run: in four runs at each rate.
    let other = place.path("again");
    let again = ["scorecard", "-C", "copa,cubic", "--part", &queues, "--base", &out, "--out", &other];
    let told = text(&lab(&again).stderr);
    assert!(told.starts_with("8 runs, "), "{told}");
    let printed = text(&lab(&arguments).stdout);
    let page = text(&place.bytes("out/scorecard.md"));
    for text in [&printed, &page] {
        assert!(text.contains("queue at 20mbit, ms"), "{text}");
        assert!(text.contains(" better"), "{text}");
        assert!(text.contains("at most 0.5 of cubic"), "{text}");
        assert!(text.contains("cubic, cubic(beta=0.7), copa-cubic"), "{text}");
        assert!(text.contains("copa-cubic: 3 lines better and 0 worse than cubic, of 5; misses 1 of 4 bars"), "{text}");
    }
}

#[test]
fn wrong_cards_are_refused() {
    let place = Place::new("scorecard-refused");
    for (from, to, told) in [
        ("median(delay)\"\neach", "delay(p95)\"\neach", "is no statistic of a metric"),
        ("{rate}\"\nvalue", "{loss}\"\nvalue", "there is no variable \"loss\""),
        ("at most 0.001", "little", "\"little\" is not a bar"),
        ("better = \"least\"\nunit", "better = \"less\"\nunit", "\"less\" is not most, least or none"),
        (
            "count = \"rate\"\nbar = \"at most 0.5 of",
            "count = \"rate\"\nbar = \"at most 0.5 from",
            "`count` needs a bar",
        ),
        ("name = \"controller\"", "name = \"sender\"", "controller"),
    ] {
        let file = place.file("wrong.toml", &with(QUEUES, from, to));
        refused(&["scorecard", "-C", "cubic", "--part", &file], told);
    }
    refused(&["scorecard", "-C", "cubic", "--part", "westwood-table-5"], "because it has no `[[card]]` section");
    refused(&["scorecard", "-C", "cubic,cubic"], "-C cubic is given twice");
    refused(&["scorecard", "-C", "cubic", "--scenarios", "test:1..3"], "are not within the set test");
    refused(&["scorecard"], "--controller <NAME,...>");
}

#[test]
fn random_scenarios_are_a_part() {
    let arguments =
        ["scorecard", "-C", "cubic", "--part", "random", "--scenarios", "training:1..2", "--seeds", "2", "--json"];
    let parts = json_lines(&lab(&arguments).stdout);
    let all = line(&parts, 0, "all scenarios: mean");
    assert_eq!(parts[0]["runs"], 2);
    let [low, high] = [0, 1].map(|nth| all["columns"][0]["interval"][nth].as_f64().unwrap());
    assert!(low < high, "{all}");
}
