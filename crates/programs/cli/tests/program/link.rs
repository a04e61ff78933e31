//! `longhaul link`: the emulator as a sub-command.
use std::process::Stdio;

use crate::process::program;

#[test]
fn scenarios_are_listed() {
    let output = program("link").arg("list").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("geo "));
}

/// The first process of the namespace is `longhaul` itself.
#[test]
fn a_command_runs_behind_a_link() {
    if !needs::tun() || !needs::program("ip") {
        return;
    }
    let script = "ip link show link0 > /dev/null && echo \"from $LONGHAUL_INSIDE\"; exit 7";
    let output = program("link").args(["shell", "--rtt", "10ms", "--", "sh", "-c", script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("from 198.18.0."), "{said}");
}

/// A reader that exits early, as in `longhaul perf -C list | head -1`.
#[test]
fn a_list_closed_early_is_not_a_failure() {
    for (name, options) in [("perf", ["-C", "list"]), ("send", ["-C", "list"])] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = program(name).args(options).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{name}");
    }
}
