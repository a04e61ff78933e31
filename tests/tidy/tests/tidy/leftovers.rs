//! Search for text that was meant to be removed or finished before a commit.

use super::{files, read, root};

/// Words that mark something as unfinished or forgotten. Each is written in two parts, so that this file does not
/// contain it.
const LEFTOVERS: [(&str, &str); 7] =
    [("TO", "DO"), ("FIX", "ME"), ("XX", "X:"), ("dbg", "!("), ("<<<<", "<<<"), (">>>>", ">>>"), ("==== ", "wip")];

/// Returns the lines of a text with a leftover, or with a space at their end.
fn left(text: &str) -> Vec<(usize, &str)> {
    let has_any = |line: &str| LEFTOVERS.iter().any(|(a, b)| line.contains(&format!("{a}{b}")));
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    lines.filter(|(_, line)| has_any(line) || line.ends_with([' ', '\t'])).collect()
}

#[test]
fn no_leftovers() {
    let root = root();
    for path in files(&root, &["rs", "md", "toml", "sh", "orig", "rej", "bak"]) {
        let name = path.strip_prefix(&root).unwrap();
        assert!(!["orig", "rej", "bak"].iter().any(|end| path.extension().unwrap() == *end), "{}", name.display());
        let text = read(&path);
        let left = left(&text);
        assert!(left.is_empty(), "{}: {left:?}", name.display());
    }
}

#[test]
fn leftovers_are_found() {
    let unfinished = format!("// {}{} later", LEFTOVERS[0].0, LEFTOVERS[0].1);
    let text = format!("fine\n{unfinished}\nspace \nfine");
    assert_eq!(left(&text), [(2, unfinished.as_str()), (3, "space ")]);
}
