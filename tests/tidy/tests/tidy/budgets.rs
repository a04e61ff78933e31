//! Budgets of sizes: lines, words, public types, dependencies.
//!
//! `budgets.toml` has the numbers. A change that needs more raises its number in the same commit, whose body says why.
//! With `LONGHAUL_TIDY=lower`, this test lowers the numbers that have become too large.

use std::collections::BTreeMap;
use std::fs;

use super::{crates, files, read, root, without_tests};

/// Maximum number of lines of a source file.
const FILE: usize = 600;
/// Fraction of a budget that may be unused.
const SLACK: f64 = 0.05;

/// Sizes by unit, such as "lines", and then by crate, shelf or page.
type Sizes = BTreeMap<&'static str, BTreeMap<String, usize>>;

/// Multiples to which new budgets are rounded up, by unit.
const UNITS: [(&str, usize); 6] =
    [("lines", 50), ("words", 20), ("types", 1), ("dependencies", 1), ("methods", 1), ("files", 1)];
/// The type whose methods may touch every part of a connection, and the source of its crate.
const WHOLE: (&str, &str) = ("core/tcp", "Connection");

fn sizes() -> Sizes {
    let mut sizes = Sizes::new();
    let mut add = |what, name: &str, size| {
        *sizes.entry(what).or_default().entry(name.to_owned()).or_default() += size;
    };
    for one in crates() {
        let (mut lines, mut types) = (0, 0);
        let whole = Some(WHOLE.1).filter(|_| one.place == WHOLE.0);
        for path in one.sources() {
            let text = read(&path);
            let text = without_tests(&text);
            lines += text.lines().count();
            types += text.lines().filter(|line| is_public_type(line)).count();
            if let Some(methods) = whole.map(|whole| methods(text, whole)).filter(|methods| *methods > 0) {
                add("methods", WHOLE.1, methods);
                add("files", "methods of Connection", 1);
            }
        }
        for sum in ["crates", one.shelf()].into_iter().filter(|sum| *sum != one.place) {
            add("lines", sum, lines);
        }
        add("lines", &one.place, lines);
        add("types", &one.place, types);
        add("dependencies", &one.place, one.dependencies("dependencies").len());
    }
    let root = root();
    let decisions = root.join("docs/decisions");
    for path in files(&root, &["md"]).into_iter().filter(|path| !path.starts_with(&decisions)) {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let words = words(&read(&path));
        add("words", name, words);
        let elsewhere = ["adapters/", "crates/", "docs/algorithms/"].iter().any(|place| name.starts_with(place));
        if !elsewhere && name != "CHANGELOG.md" {
            add("words", "guides, results and references", words);
        }
    }
    sizes
}

fn is_public_type(line: &str) -> bool {
    let kinds = ["struct ", "enum ", "trait ", "union ", "type "];
    line.trim_start().strip_prefix("pub ").is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
}

/// Returns the number of methods of the type `whole` in a source file, and of functions that borrow all of it.
fn methods(text: &str, whole: &str) -> usize {
    let (mut count, mut is_inside) = (0, false);
    let borrowed = [format!(": &{whole}"), format!(": &mut {whole}")];
    for line in text.lines() {
        if !line.is_empty() && !line.starts_with([' ', '}']) {
            is_inside = line == format!("impl {whole} {{");
        }
        let is_function = line.contains(" fn ") && !line.trim_start().starts_with("//");
        let is_method = is_inside && is_function && line.starts_with("    ") && !line.starts_with("     ");
        let borrows =
            || borrowed.iter().any(|whole| line.split(whole.as_str()).skip(1).any(|rest| rest.starts_with([',', ')'])));
        count += usize::from(is_method || (!is_inside && borrows()));
    }
    count
}

/// Returns the number of words of a page that were written by hand, without those in code examples and in generated
/// tables.
fn words(text: &str) -> usize {
    let (mut count, mut is_code, mut is_generated) = (0, false, false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if line.starts_with("<!-- ") {
            is_generated = !line.starts_with("<!-- end");
        } else if !is_code && !is_generated {
            count += line.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
        }
    }
    count
}

/// Describes each size without a budget or above it, and each budget that is too large or without a size.
fn faults(sizes: &Sizes, budgets: &toml::Table) -> Vec<String> {
    let mut faults = Vec::new();
    let budget = |what: &str, name: &str| {
        budgets.get(what).and_then(|of| of.get(name)).and_then(toml::Value::as_integer).map(|size| size as usize)
    };
    for (what, of) in sizes {
        for (name, &size) in of {
            match budget(what, name) {
                None => faults.push(format!("{name} has {size} {what} and no budget")),
                Some(most) if size > most => {
                    faults.push(format!("{name} has {size} {what}, {} more than its budget", size - most));
                }
                Some(most) if rounded(what, size) < (most as f64 * (1.0 - SLACK)) as usize => {
                    faults.push(format!("{name} has {size} {what}, and its budget of {most} can be lowered"));
                }
                Some(_) => {}
            }
        }
    }
    for (what, of) in budgets {
        for name in of.as_table().unwrap().keys() {
            if !sizes.get(what.as_str()).is_some_and(|of| of.contains_key(name)) {
                faults.push(format!("the budget of {name} in {what} is for nothing"));
            }
        }
    }
    faults
}

fn rounded(what: &str, size: usize) -> usize {
    let unit = UNITS.iter().find(|(unit, _)| *unit == what).unwrap().1;
    size.next_multiple_of(unit)
}

/// Lowers each budget to the size, and adds missing budgets.
fn lowered(sizes: &Sizes, budgets: &toml::Table) -> String {
    let mut text = String::from(
        "# How large everything may be (tests/tidy/tests/tidy/budgets.rs). A number is raised in the commit that needs more, whose\n\
         # body says why. LONGHAUL_TIDY=lower cargo test -p longhaul-tidy lowers what has become too large.\n",
    );
    for (what, of) in sizes {
        text += &format!("\n[{what}]\n");
        for (name, &size) in of {
            let size = rounded(what, size);
            let before = budgets.get(*what).and_then(|of| of.get(name)).and_then(toml::Value::as_integer);
            let size = before.map_or(size, |before| size.min(before as usize));
            text += &format!("{name:?} = {size}\n");
        }
    }
    text
}

#[test]
fn nothing_is_larger_than_its_budget() {
    let path = root().join("tests/tidy/budgets.toml");
    let budgets: toml::Table = read(&path).parse().unwrap();
    let sizes = sizes();
    if std::env::var_os("LONGHAUL_TIDY").is_some_and(|what| what == "lower") {
        fs::write(&path, lowered(&sizes, &budgets)).unwrap();
        return;
    }
    let faults = faults(&sizes, &budgets);
    assert!(
        faults.is_empty(),
        "{faults:#?}\nA budget is raised in the commit that needs it; LONGHAUL_TIDY=lower lowers what is too large."
    );
}

#[test]
fn files_are_small() {
    let is_large = |path: &std::path::PathBuf| without_tests(&read(path)).lines().count() > FILE;
    let large: Vec<_> = crates().iter().flat_map(super::Crate::sources).filter(is_large).collect();
    assert!(large.is_empty(), "more than {FILE} lines: {large:?}");
}

/// Maximum number of words of an algorithm's page.
const PAGE: usize = 600;

#[test]
fn pages_of_algorithms_are_short() {
    let pages = files(&root().join("docs/algorithms"), &["md"]);
    let is_long = |path: &std::path::PathBuf| words(&read(path)) > PAGE;
    let long: Vec<_> = pages.into_iter().filter(is_long).collect();
    assert!(long.is_empty(), "more than {PAGE} words: {long:?}");
}

#[test]
fn words_of_examples_and_filled_tables_do_not_count() {
    let text = "# A title\n\nTwo words, and `code`.\n```\nlet x = 1;\n```\n| a | 1 |\n|---|--:|\n<!-- table: x -->\n| b |\n<!-- end of table -->\nend\n";
    assert_eq!(words(text), 2 + 4 + 2 + 1);
}

#[test]
fn methods_and_functions_that_borrow_all_of_a_type_count() {
    let text = "impl Whole {\n    pub(super) fn one(&self) {\n        let fn_like = |whole: &Whole| ();\n    }\n\n    \
                const fn two() {}\n}\n\nimpl Part {\n    fn no(&self) {}\n    fn three(&self, whole: &mut Whole) {}\n}\n\n\
                fn four(\n    whole: &Whole,\n) {\n}\nfn no(whole: &WholeNumber) -> &mut Whole {}\n";
    assert_eq!(methods(text, "Whole"), 4);
}

#[test]
fn sizes_beyond_or_far_below_their_budget_are_faults() {
    let sizes = |lines: usize| Sizes::from([("lines", BTreeMap::from([("a".to_owned(), lines)]))]);
    let budgets = |text: &str| text.parse::<toml::Table>().unwrap();
    let of = |lines, text: &str| faults(&sizes(lines), &budgets(text));
    assert!(of(1000, "[lines]\na = 1000").is_empty() && of(940, "[lines]\na = 1000").is_empty());
    assert_eq!(of(1001, "[lines]\na = 1000"), ["a has 1001 lines, 1 more than its budget"]);
    assert_eq!(of(890, "[lines]\na = 1000"), ["a has 890 lines, and its budget of 1000 can be lowered"]);
    assert_eq!(of(5, ""), ["a has 5 lines and no budget"]);
    assert_eq!(of(5, "[lines]\na = 50\nb = 50"), ["the budget of b in lines is for nothing"]);
    let lowered =
        |lines, text: &str| budgets(&super::budgets::lowered(&sizes(lines), &budgets(text)))["lines"]["a"].as_integer();
    assert_eq!((lowered(890, "[lines]\na = 1000"), lowered(1001, "[lines]\na = 1000")), (Some(900), Some(1000)));
    assert_eq!(lowered(5, ""), Some(50));
}
