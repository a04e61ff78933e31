//! Checks of the project's structure: dependencies between crates, sizes, links, and leftovers. The tests read files, and
//! build none of the other crates.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

mod arrows;
mod budgets;
mod leftovers;
mod links;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns all files below `directory` with one of these extensions, in order, without those that a build has
/// generated.
fn files(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !path.is_symlink() && !["target", ".git", "generated", "corpus"].contains(&name) {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|has| extensions.iter().any(|extension| has == *extension)) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Crate on one of the shelves below `crates`.
struct Crate {
    /// Directory relative to `crates`, such as `core/tcp`.
    place: String,
    package: String,
    manifest: toml::Table,
}

impl Crate {
    fn shelf(&self) -> &str {
        self.place.split('/').next().unwrap()
    }

    /// Returns the files of its source without tests.
    fn sources(&self) -> Vec<PathBuf> {
        let mut sources = files(&root().join("crates").join(&self.place).join("src"), &["rs"]);
        sources.retain(|path| !path.ends_with("tests.rs") && !path.iter().any(|part| part == "tests"));
        sources
    }

    /// Returns the names of the packages that the crate depends on, on any system, and whether they are optional.
    fn dependencies(&self, kind: &str) -> Vec<(String, bool)> {
        let mut tables: Vec<_> = self.manifest.get(kind).into_iter().collect();
        let targets = self.manifest.get("target").and_then(toml::Value::as_table);
        tables.extend(targets.into_iter().flat_map(|targets| targets.values().filter_map(|target| target.get(kind))));
        let entries = tables.into_iter().flat_map(|table| table.as_table().unwrap());
        let is_optional = |value: &toml::Value| value.get("optional").and_then(toml::Value::as_bool) == Some(true);
        let mut all: Vec<_> = entries.map(|(name, value)| (name.clone(), is_optional(value))).collect();
        all.sort();
        all.dedup();
        all
    }
}

fn crates() -> Vec<Crate> {
    let crates = root().join("crates");
    let manifests = files(&crates, &["toml"]).into_iter().filter(|path| path.ends_with("Cargo.toml"));
    let read_crate = |path: PathBuf| {
        let manifest: toml::Table = read(&path).parse().unwrap();
        let place = path.parent().unwrap().strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        Crate { place, package: manifest["package"]["name"].as_str().unwrap().to_owned(), manifest }
    };
    manifests.map(read_crate).collect()
}

/// Returns the text of a source file without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap()
}
