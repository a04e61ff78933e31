//! The search for what starves a flow, from the command line.

use crate::common::{lab, refused, text};

#[test]
fn the_result_does_not_depend_on_the_jobs() {
    let search = |jobs: &str| {
        let output = lab(&["adversary", "-C", "copa", "--goal", "utilisation", "--evaluations", "2", "--jobs", jobs]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let found = search("1");
    assert_eq!(found, search("3"));
    // Constant extra delay of data, or after a first packet without it.
    let [values, link] = found.lines().collect::<Vec<_>>()[..] else { panic!("{found}") };
    assert!(values.starts_with("goodput: ") && values.contains("% of the link; without the adversary 9"), "{values}");
    assert!(link.starts_with("--delay 0ms --cycle-down ") && link.contains("ms,20000us"), "{link}");
}

#[test]
fn wrong_searches_are_refused() {
    for (arguments, told) in [
        (&["-C", "cubik"][..], "longhaul-lab: cubik: "),
        (&["-C", "cubic", "--against", "bbq"], "longhaul-lab: bbq: "),
        (&["-C", "cubic", "--goal", "fame"], "possible values: share, utilisation, queue"),
        (&["-C", "cubic", "--goal", "queue", "--against", "bbr"], "--against is only for --goal share"),
        (&["-C", "cubic", "--delay", "11"], "--delay 11 is not within 0 to 10 round trips"),
        (&["-C", "cubic", "--evaluations", "0"], "--evaluations 0 tries nothing"),
        (&["-C", "cubic", "--jobs", "0"], "--jobs 0 runs nothing"),
    ] {
        refused(&[&["adversary"], arguments].concat(), told);
    }
}
