//! Every name of the registry has its page, and the page is complete.

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_cc::registry::Entry;

use super::registry;

/// Required parts of each page. Of several alternatives in one line, one is sufficient.
const PARTS: [&[&str]; 10] = [
    &["**Source.**"],
    &["**The idea.**"],
    &["**The algorithm.**"],
    &["**Constants.**", "| constant | value | source |"],
    &["| option | default | range | ", "**Options.**"],
    &["**Where it helps.**"],
    &["**Where it harms.**"],
    &["**Differences from ", "**Reconstructed", "**Choices"],
    &["**Tests.**"],
    &["\n## Scores\n"],
];

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/algorithms")
}

fn page(name: &str) -> String {
    let path = pages().join(format!("{name}.md"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the parts that are missing in a page, regardless of line breaks.
fn missing<'a>(text: &str, parts: &[&'a [&'a str]]) -> Vec<&'a str> {
    let flat = text.replace('\n', " ");
    let has = |part: &&str| text.contains(*part) || flat.contains(*part);
    parts.iter().filter(|one_of| !one_of.iter().any(has)).map(|one_of| one_of[0]).collect()
}

#[test]
fn every_name_has_a_page_with_all_parts() {
    let names = registry().entries.iter().map(|entry| entry.name);
    for name in names.chain(registry().profiles.iter().map(|profile| profile.name)) {
        let text = page(name);
        let lacks = missing(&text, &PARTS);
        assert!(lacks.is_empty(), "docs/algorithms/{name}.md lacks {lacks:?}");
        assert!(text.starts_with(&format!("# {name}\n")), "docs/algorithms/{name}.md has another title");
    }
}

/// The estimators, which are not in the registry.
const ESTIMATORS: [&str; 7] =
    ["packet-pair", "capprobe", "tcpprobe", "fused-capacity", "pathrate", "pathload", "pathchirp"];
/// Estimators that are methods of `longhaul probe`, whose constants cannot be changed.
const METHODS: [&str; 4] = ["capprobe", "pathrate", "pathload", "pathchirp"];
/// Estimators that are part of congestion controllers, and are measured with them.
const PARTS_OF_CONTROLLERS: [&str; 2] = ["delivery-rate", "congestion-level"];

#[test]
fn every_estimator_has_a_page_with_all_parts() {
    for name in ESTIMATORS.into_iter().chain(PARTS_OF_CONTROLLERS) {
        let text = page(name);
        let mut lacks = missing(&text, &PARTS[..4]);
        let settings: &[&str] = if METHODS.contains(&name) { &["**Constants"] } else { &["| option ", "**Options.**"] };
        lacks.extend(missing(&text, &[settings]));
        lacks.extend(missing(&text, &PARTS[5..9]));
        if ESTIMATORS.contains(&name) {
            lacks.extend(missing(&text, &[&["\n## Scores\n"], &["\n<!-- table: estimates"]]));
        }
        assert!(lacks.is_empty(), "docs/algorithms/{name}.md lacks {lacks:?}");
    }
}

/// Each option is named on its page, in a table or in a sentence.
#[test]
fn every_option_is_on_its_page() {
    for entry in registry().entries {
        let text = page(entry.name);
        for option in entry.options {
            let name = format!("`{}`", option.name);
            assert!(text.contains(&name), "docs/algorithms/{}.md lacks the option {name}", entry.name);
        }
    }
}

/// Lines around a table of options, of which the first goes on with the name of the entry, after its slot where two
/// entries have the name: `<!-- options of recovery=new-reno -->`.
const TABLE: [&str; 2] = ["<!-- options of ", "<!-- end of options -->"];

/// The tables of options on the pages are those of the registry. `LONGHAUL_PAGES=write` writes them.
#[test]
fn tables_of_options_are_those_of_the_registry() {
    let writes = std::env::var_os("LONGHAUL_PAGES").is_some_and(|what| what == "write");
    for entry in fs::read_dir(pages()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let filled = filled(&text);
        if writes && filled != text {
            fs::write(&path, filled).unwrap();
        } else {
            assert!(filled == text, "{}: LONGHAUL_PAGES=write renews its tables of options", path.display());
        }
    }
}

/// Returns a page with its tables of options filled.
fn filled(page: &str) -> String {
    let mut parts = page.split(TABLE[0]);
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("the end of the comment");
        let (_, after) = rest.split_once(TABLE[1]).expect("the end of the table");
        text += &format!("{}{name} -->\n\n{}\n{}{after}", TABLE[0], table(entry_of(name)), TABLE[1]);
    }
    text
}

fn entry_of(name: &str) -> &'static Entry {
    let (slot, name) = name.split_once('=').map_or((None, name), |(slot, name)| (Some(slot), name));
    let fits = |entry: &&&Entry| entry.name == name && slot.is_none_or(|slot| entry.slot().name() == slot);
    let entries: Vec<_> = registry().entries.iter().filter(fits).collect();
    assert_eq!(entries.len(), 1, "one entry has the name {name}");
    entries[0]
}

fn table(entry: &Entry) -> String {
    let mut text = "| option | default | range | meaning |\n|---|---|---|---|\n".to_owned();
    for option in entry.options {
        let range = if option.range() == "on or off" { String::new() } else { option.range() };
        let rules: String = option.rules.iter().map(|rule| format!("; {rule}")).collect();
        let row = format!("| `{}` | {} | {range} | {}{rules} |\n", option.name, option.default_value(), option.what);
        text += &row.replace("|  |", "| |");
    }
    text
}

#[test]
fn a_table_of_options_is_filled_and_the_rest_kept() {
    let page = format!("# x\n{}recovery=new-reno -->\n\nold\n{}\nend\n", TABLE[0], TABLE[1]);
    let text = filled(&page);
    assert!(
        text.starts_with("# x\n<!-- options of recovery=new-reno -->\n\n| option |") && text.ends_with(" -->\nend\n")
    );
    assert!(text.contains("| `careful-exit` | on | | ") && !text.contains("old"));
    assert_eq!(filled(&text), text);
}

#[test]
fn a_part_that_is_missing_is_found() {
    let text = "**Source.** A. **Where it\nhelps.** B.\n**Options.** None.\n";
    assert_eq!(missing(text, &PARTS[..1]), Vec::<&str>::new());
    assert_eq!(missing(text, &PARTS[3..7]), ["**Constants.**", "**Where it harms.**"]);
}
