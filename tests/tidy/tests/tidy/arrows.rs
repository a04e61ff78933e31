//! Direction of the dependencies between crates.

use std::collections::BTreeMap;

use super::{Crate, crates};

/// Each shelf, the shelves that its crates may depend on, and shelves that only its tests may use in addition.
const SHELVES: [(&str, &[&str], &[&str]); 5] = [
    ("core", &["core"], &["testbed"]),
    ("zoo", &["core"], &["testbed"]),
    ("testbed", &["core", "testbed"], &[]),
    ("programs", &["core", "testbed", "programs"], &[]),
    ("lab", &["core", "zoo", "testbed", "programs", "lab"], &[]),
];
/// A shelf, and another one that its crates may depend on optionally.
const BY_FEATURE: (&str, &str) = ("programs", "zoo");

/// Returns the dependencies that are not allowed.
fn wrong(crates: &[Crate]) -> Vec<String> {
    let shelves: BTreeMap<&str, &str> = crates.iter().map(|one| (one.package.as_str(), one.shelf())).collect();
    let mut wrong = Vec::new();
    for one in crates {
        let Some((shelf, uses, tests_use)) = SHELVES.iter().find(|(shelf, ..)| *shelf == one.shelf()) else {
            wrong.push(format!("{} is on no shelf", one.place));
            continue;
        };
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for (package, is_optional) in one.dependencies(kind) {
                let Some(to) = shelves.get(package.as_str()) else { continue };
                let allowed = uses.contains(to)
                    || (kind == "dev-dependencies" && tests_use.contains(to))
                    || (is_optional && BY_FEATURE == (*shelf, *to));
                if !allowed {
                    wrong.push(format!("{} ({shelf}) depends on {package} ({to}), in {kind}", one.package));
                }
            }
        }
    }
    wrong
}

#[test]
fn crates_depend_on_the_shelves_below_only() {
    let wrong = wrong(&crates());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn wrong_arrows_are_found() {
    let made = |place: &str, package: &str, manifest: &str| Crate {
        place: place.to_owned(),
        package: package.to_owned(),
        manifest: manifest.parse().unwrap(),
    };
    let crates = [
        made("core/a", "a", "[dependencies]\nz.workspace = true"),
        made("core/b", "b", "[target.'cfg(unix)'.dependencies]\nt = \"1\"\n[dev-dependencies]\nt = \"1\"\nl = \"1\""),
        made("zoo", "z", "[dependencies]\na = \"1\"\nserde = \"1\""),
        made("testbed/t", "t", ""),
        made("programs/p", "p", "[dependencies]\nz = { workspace = true, optional = true }"),
        made("programs/q", "q", "[dependencies]\nz = \"1\"\nl = \"1\""),
        made("lab", "l", "[dependencies]\np = \"1\"\nz = \"1\""),
        made("attic", "x", ""),
    ];
    let pairs = [("a", "z"), ("b", "t"), ("b", "l"), ("q", "l"), ("q", "z")];
    let found = wrong(&crates);
    assert_eq!(found.len(), pairs.len() + 1, "{found:#?}");
    for (from, to) in pairs {
        assert!(
            found.iter().any(|line| line.starts_with(&format!("{from} (")) && line.contains(&format!("on {to} (")))
        );
    }
    assert!(found.contains(&"attic is on no shelf".to_owned()));
}
