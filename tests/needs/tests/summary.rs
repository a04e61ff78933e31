//! Prints which tests of this run were left out, and why. As the last test binary of the last package, it ends the output of
//! `cargo test --workspace`, except for the tests in the documentation.

use std::collections::BTreeSet;
use std::{env, fs};

fn main() {
    // Asked for a list of its tests, it has none.
    if env::args().any(|argument| argument == "--list") {
        return;
    }
    let list = needs::list();
    let text = fs::read_to_string(&list).unwrap_or_default();
    let lines: BTreeSet<&str> = text.lines().collect();
    println!("\n{} tests were left out", lines.len());
    lines.iter().for_each(|line| println!("    {line}"));
    // The lists of runs of single packages are not shown.
    if env::var_os("LONGHAUL_LEFT_OUT").is_none()
        && let Some(lists) = list.parent()
    {
        let _ = fs::remove_dir_all(lists);
    }
}
