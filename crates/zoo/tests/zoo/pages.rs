//! Every name of the registry has its page, and the page is complete.

use std::fs;
use std::path::Path;

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
    &["**Differences to ", "**Reconstructed", "**Choices"],
    &["**Tests.**"],
    &["\n## Scores\n"],
];

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/algorithms/{name}.md"));
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
/// Estimators that are part of congestion controllers, and are measured with them.
const PARTS_OF_CONTROLLERS: [&str; 2] = ["delivery-rate", "congestion-level"];

#[test]
fn every_estimator_has_a_page_with_all_parts() {
    for name in ESTIMATORS.into_iter().chain(PARTS_OF_CONTROLLERS) {
        let text = page(name);
        let mut lacks = missing(&text, &PARTS[..4]);
        lacks.extend(missing(&text, &[&["| option ", "**Options.**"]]));
        lacks.extend(missing(&text, &PARTS[5..9]));
        if ESTIMATORS.contains(&name) {
            lacks.extend(missing(&text, &[&["\n## Scores\n"], &["\n<!-- table: estimates"]]));
        }
        assert!(lacks.is_empty(), "docs/algorithms/{name}.md lacks {lacks:?}");
    }
}

/// Each option is named on its page, in a table or in a sentence. If it has its own row, the row has the default of
/// the registry.
#[test]
fn every_option_is_on_its_page_with_its_default() {
    for entry in registry().entries {
        let text = page(entry.name);
        for option in entry.options {
            let name = format!("`{}`", option.name);
            assert!(text.contains(&name), "docs/algorithms/{}.md lacks the option {name}", entry.name);
            let default = option.default_value().to_string();
            for row in rows_of(&text, &name, entry) {
                let said = row.split('|').nth(2).unwrap_or_default().trim();
                assert_eq!(said, default, "docs/algorithms/{}.md, {name}", entry.name);
            }
        }
    }
}

/// Returns the rows whose first cell is this option, alone or with the name of `entry` or `both` in parentheses.
fn rows_of<'a>(text: &'a str, option: &str, entry: &Entry) -> Vec<&'a str> {
    let own = [option.to_owned(), format!("{option} (`{}`)", entry.name), format!("{option} (both)")];
    text.lines()
        .filter(|line| line.split('|').nth(1).is_some_and(|cell| own.iter().any(|own| cell.trim() == own)))
        .collect()
}

#[test]
fn a_part_that_is_missing_is_found() {
    let text = "**Source.** A. **Where it\nhelps.** B.\n**Options.** None.\n";
    assert_eq!(missing(text, &PARTS[..1]), Vec::<&str>::new());
    assert_eq!(missing(text, &PARTS[3..7]), ["**Constants.**", "**Where it harms.**"]);
}
