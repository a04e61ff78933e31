//! Contents of folders of results: pictures and the page.

use crate::common::{Place, SMALL, lab, text};

const PLOTS: &str = r#"
[series]
window = { value = "cwnd(x)", unit = "bytes", every = "100ms" }
data = { value = "segments(x)", unit = "bytes" }
acked = { value = "acks(x)", unit = "bytes" }

[[plots]]
id = "windows"
title = "Windows"
kind = "over-time"
series = ["window"]
over = "rate"
at = { loss = "3%" }

[[plots]]
id = "segments"
title = "Segments"
kind = "time-sequence"
series = ["data", "acked"]
at = { rate = "2mbit", loss = "3%" }
"#;

/// Pictures and the page exist after a run, contain the recorded data, and are drawn again by `report`.
#[test]
fn a_folder_has_pictures_and_a_page() {
    let place = Place::new("illustrate");
    let file = place.file("small.toml", &(SMALL.to_owned() + PLOTS));
    let output = lab(&["run", &file, "--quick", "--out", &place.path("out")]);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stderr));
    let files = ["plots/windows.svg", "plots/windows_cwnd.xpl", "plots/segments.svg", "plots/segments_tsg.xpl"];
    let files = files.map(|file| format!("out/small/{file}"));
    let before: Vec<Vec<u8>> = files.iter().map(|file| place.bytes(file)).collect();
    let drawn = text(&before[0]);
    assert!(drawn.contains("class=\"line s0\"") && !drawn.contains("nothing was recorded"), "{drawn}");
    assert!(text(&before[3]).matches("\ndarrow ").count() > 10);
    let page = text(&place.bytes("out/index.html"));
    assert_eq!(page.matches("<svg ").count(), 2);
    std::fs::remove_dir_all(place.path("out/small/plots")).unwrap();
    std::fs::remove_file(place.path("out/index.html")).unwrap();
    assert!(lab(&["report", &place.path("out")]).status.code().is_some_and(|code| code < 2));
    assert_eq!(files.iter().map(|file| place.bytes(file)).collect::<Vec<_>>(), before);
    assert_eq!(text(&place.bytes("out/index.html")), page);
}
