//! Search for text and files that were meant to be removed or finished before a commit.

use std::path::{Path, PathBuf};

use super::{crates, files, read, root};

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

/// Returns the source files below `src` that no other file declares as a module: the compiler does not read them.
fn unread(src: &Path) -> Vec<PathBuf> {
    let all: Vec<_> = files(src, &["rs"]).into_iter().map(|path| (read(&path), path)).collect();
    let is_root = |path: &Path| ["lib", "main"].iter().any(|name| path == src.join(name).with_extension("rs"));
    let is_read = |path: &Path| {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let (module, named) = (format!("mod {stem};"), format!("{stem}.rs\""));
        // A module is declared in the file of a directory above it, of which some may be modules within that file.
        let declares = |(text, file): &(String, PathBuf)| {
            let above = if is_root(file) { src.to_owned() } else { file.with_extension("") };
            text.contains(&named) || (path != file && path.starts_with(above) && text.contains(&module))
        };
        is_root(path) || all.iter().any(declares)
    };
    all.iter().map(|(_, path)| path.clone()).filter(|path| !is_read(path)).collect()
}

#[test]
fn the_compiler_reads_every_source_file() {
    for one in crates() {
        let unread = unread(&root().join("crates").join(&one.place).join("src"));
        assert!(unread.is_empty(), "no module leads to {unread:?}");
    }
}
