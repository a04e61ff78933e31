//! Runs the program `quickstart` with arguments of users.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use std::process::{Command, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs `quickstart` and returns its exit code, standard output and standard error.
fn quickstart(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
#[cfg(target_os = "linux")]
fn two_controllers_stand_side_by_side() {
    let link = "--rate-down 100mbit --rate-up 1mbit --rtt 20ms --queue 1000p --loss-list-down 20";
    // An emulated link carries no other traffic, so controllers that are not safe on shared networks are allowed.
    let (code, out, err) = quickstart(&["--link", link, "-C", "new-reno,hybla", "--megabytes", "1"]);
    assert_eq!(code, Some(0), "{err}");
    let cells = |name: &str| -> Vec<String> {
        let line = out.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {out}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(cells("     "), ["new-reno", "hybla", "physical limit"]);
    assert_eq!(cells("packets lost"), ["1", "1"]);
    // 690 full packets of 1500 bytes and one of 932 take 82.9 ms at 100 Mbit/s in the forward direction; the
    // handshake and the one-way delay take 30 ms.
    assert_eq!(cells("time")[2], "0.11 s");
    let times: Vec<f64> = cells("time").iter().map(|time| time.trim_end_matches(" s").parse().unwrap()).collect();
    assert!(times[0] > times[2] && times[1] > times[2], "{out}");
    assert!(err.contains("new-reno ") && err.contains(" %"), "{err}");
}

#[test]
fn a_link_is_not_needed() {
    let (code, out, err) = quickstart(&["--link", "none", "--megabytes", "1"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("cubic") && out.contains("goodput") && !out.contains("limit"), "{out}");
    let (code, out, _) = quickstart(&["--link", "list"]);
    assert!(code == Some(0) && out.lines().any(|line| line.starts_with("geo ")), "{out}");
    let (code, out, _) = quickstart(&["-C", "list"]);
    assert!(code == Some(0) && out.contains("RFC 9438"), "{out}");
}

#[test]
fn failures_are_reported() {
    let faults: [(&[&str], i32, &str); 7] = [
        (&["--link", "moon"], 2, "there is no scenario \"moon\"; the scenarios are nasa-20mbit-500ms"),
        (&["--link", "geo --rate 0mbit"], 2, "the rate is 0"),
        (&["--link", "geo --speed 1"], 2, "there is no option --speed"),
        (&["--link", "--rate 1mbit --trace x"], 2, "exclude each other"),
        (&["-C", "cubic,warp"], 2, "`warp`"),
        (&["--megabytes", "0"], 2, "0 is not in 1..=1000000"),
        // Without an emulated link, the network counts as shared.
        (&["--link", "none", "-C", "hybla"], 1, "hybla"),
    ];
    for (arguments, code, told) in faults {
        let (ended, out, err) = quickstart(arguments);
        assert_eq!((ended, out.as_str()), (Some(code), ""), "{arguments:?}: {err}");
        assert!(err.contains(told), "{arguments:?}: {err}");
    }
}

/// A reader may close the pipe early, as in `quickstart -C list | head -1`.
#[test]
fn a_list_closed_early_is_not_a_failure() {
    for options in [["-C", "list"], ["--link", "list"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&options).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    }
}
