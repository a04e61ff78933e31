//! Links of the documents, and titles of the pages, of which the table of contents of the book is made.

use std::collections::BTreeSet;
use std::path::Path;

use super::{files, read, root};

/// First directories of paths that documents name.
const PLACES: [&str; 9] =
    [".ci/", "adapters/", "benches/", "crates/", "docs/", "examples/", "fuzz/", "packaging/", "tests/"];

/// Returns the lines of a document outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of the links in a document.
fn links(text: &str) -> Vec<&str> {
    let of_line = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    prose(text).flat_map(of_line).collect()
}

/// Returns the paths in a document that are written as code.
fn paths(text: &str) -> Vec<&str> {
    let spans = prose(text).flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |span: &&str| {
        PLACES.iter().any(|place| span.starts_with(place)) && !span.contains(['*', '<', '{', ' ', ':', '$'])
    };
    spans.filter(is_path).collect()
}

/// Returns the names by which links can point to the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter),
        _ => None,
    };
    headings.map(|heading| heading.to_lowercase().chars().filter_map(kept).collect()).collect()
}

/// Returns the links of the document at `path` that lead nowhere.
fn broken(path: &Path, text: &str) -> Vec<String> {
    let is_broken = |link: &&str| {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        let has_anchor = || anchor.is_empty() || anchors(&read(&target)).contains(anchor);
        let is_elsewhere = link.contains("://") || link.starts_with("mailto:");
        !(is_elsewhere || target.exists() && has_anchor())
    };
    links(text).into_iter().filter(is_broken).map(str::to_owned).collect()
}

#[test]
fn links_lead_to_pages_and_headings() {
    let root = root();
    for path in files(&root, &["md"]) {
        let broken = broken(&path, &read(&path));
        assert!(broken.is_empty(), "{}: {broken:?}", path.display());
    }
}

/// Decisions and the changelog name files of their time.
#[test]
fn documents_name_files_that_exist() {
    let root = root();
    // Paths of an example.
    let is_made_up = |named: &&str| named.contains("/example.");
    let is_history = |path: &Path| path.starts_with(root.join("docs/decisions")) || path.ends_with("CHANGELOG.md");
    for path in files(&root, &["md"]).into_iter().filter(|path| !is_history(path)) {
        let text = read(&path);
        let missing: Vec<_> =
            paths(&text).into_iter().filter(|named| !is_made_up(named) && !root.join(named).exists()).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", path.display());
    }
}

#[test]
fn each_page_begins_with_its_title() {
    for path in files(&root().join("docs"), &["md"]) {
        assert!(read(&path).starts_with("# "), "{}", path.display());
    }
}

#[test]
fn broken_links_are_found() {
    let text =
        "# A title, `code`\n[a](#a-title-code) [b](#other) [c](none.md)\n```\n[d](none.md)\n```\n[e](https://e.org/x)";
    let path = root().join("docs/made.md");
    assert_eq!(anchors(text), ["a-title-code".to_owned()].into());
    assert_eq!(links(text), ["#a-title-code", "#other", "none.md", "https://e.org/x"]);
    let only_files = text.replace("[a](#a-title-code) [b](#other)", "[b](../README.md)");
    assert_eq!(broken(&path, &only_files), ["none.md"]);
    assert_eq!(paths("`tests/a.rs` and `tests/*`, `made`\n`.ci/run`"), ["tests/a.rs", ".ci/run"]);
}
