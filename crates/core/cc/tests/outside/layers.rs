//! The modules of the crate depend on each other in one direction only.

use std::fs;
use std::path::Path;

/// Files and directories that may name the registry: the crate's root, the factory that parses names, and tests.
const ABOVE: [&str; 4] = ["lib.rs", "registry", "factory.rs", "tests.rs"];

/// The registry knows the algorithms, so no algorithm may know the registry: it describes itself by `describe`.
#[test]
fn no_algorithm_imports_the_registry() {
    let mut found = Vec::new();
    scan(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.is_empty(), "these lines name the registry: {found:#?}");
}

/// Adds the offending lines of all files below `directory` to `found`.
fn scan(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("the source is there") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name of ASCII");
        if ABOVE.contains(&name) {
            continue;
        }
        if path.is_dir() {
            scan(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let lines = code.filter(|line| line.contains("registry"));
        found.extend(lines.map(|line| format!("{}: {line}", path.display())));
    }
}
