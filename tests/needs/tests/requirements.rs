//! Behaviour of tests whose requirements are missing: each case runs one of the ignored tests below in a process of its
//! own.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, process};

/// Runs an ignored test with an empty `PATH`. Returns whether it passed, its output, and the list of tests left out.
fn run(test: &str, variables: &[(&str, &str)]) -> (bool, String, String) {
    let list: PathBuf = env::temp_dir().join(format!("needs-{}-{test}-{}", process::id(), variables.len()));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored"]).env_remove("LONGHAUL_REQUIRE").env_remove("LONGHAUL_MAY_SKIP");
    command.env("PATH", "").env("LONGHAUL_LEFT_OUT", &list).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let told = fs::read_to_string(&list).unwrap_or_default();
    let _ = fs::remove_file(&list);
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), told)
}

#[test]
fn a_test_without_its_program_is_left_out_and_told() {
    let (passed, said, told) = run("in_need_of_tshark", &[]);
    assert!(passed, "{said}");
    assert_eq!(told, "requirements: in_need_of_tshark needs tshark: the program `tshark`; apt-get install tshark\n");
}

#[test]
fn a_test_without_its_program_fails_where_it_is_required() {
    let (passed, said, told) = run("in_need_of_tshark", &[("LONGHAUL_REQUIRE", "1")]);
    assert!(!passed && said.contains("needs tshark: the program `tshark`; apt-get install tshark"), "{said}");
    assert_eq!(told, "");
}

#[test]
fn only_listed_requirements_may_be_missing() {
    for (list, may) in [("root tshark", true), ("promtool,tshark", true), ("tshark-2", false)] {
        let (passed, said, told) = run("in_need_of_tshark", &[("LONGHAUL_REQUIRE", "1"), ("LONGHAUL_MAY_SKIP", list)]);
        assert_eq!((passed, !told.is_empty()), (may, may), "{list}: {said}");
    }
}

/// A thread that a test or a runtime has started is not named after a test, so its place in the source is recorded.
#[test]
fn a_thread_without_a_tests_name_tells_its_place() {
    let (_, _, told) = run("in_need_on_a_thread", &[]);
    assert!(told.starts_with("requirements: ") && told.contains("requirements.rs:"), "{told}");
}

#[test]
fn what_is_there_is_found() {
    // The first program is given by its path. The other one is on every system.
    let own = env::current_exe().unwrap();
    assert!(needs::program(own.to_str().unwrap()));
    assert!(needs::program(if cfg!(windows) { "cmd" } else { "sh" }));
    assert!(needs::that(true, "nothing", "nothing"));
}

#[test]
#[ignore = "run by the tests above"]
fn in_need_of_tshark() {
    if needs::program("tshark") {
        panic!("there is no PATH");
    }
}

#[test]
#[ignore = "run by the tests above"]
fn in_need_on_a_thread() {
    let worker = std::thread::Builder::new().name("tokio-runtime-worker".to_owned());
    assert!(!worker.spawn(|| needs::program("tshark")).unwrap().join().unwrap());
}
