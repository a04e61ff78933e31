//! Prints which tests of this run were left out, and why. This is the last test binary of the last package, so that its
//! output ends that of `cargo test --workspace`, except for tests in the documentation.

use std::collections::BTreeSet;
use std::{env, fs};

fn main() {
    // If asked for a list of its tests, this program has none.
    if env::args().any(|argument| argument == "--list") {
        return;
    }
    let list = needs::list();
    let text = fs::read_to_string(&list).unwrap_or_default();
    let lines: BTreeSet<&str> = text.lines().collect();
    println!("\n{} tests were left out", lines.len());
    lines.iter().for_each(|line| println!("    {line}"));
    // Lists of runs of single packages are removed without being printed.
    if env::var_os("LONGHAUL_LEFT_OUT").is_none()
        && let Some(lists) = list.parent()
    {
        let _ = fs::remove_dir_all(lists);
    }
}
