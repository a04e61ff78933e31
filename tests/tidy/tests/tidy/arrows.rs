//! Direction of the dependencies between crates.

use std::collections::{BTreeMap, BTreeSet};

use super::{Crate, crates, read, root, without_tests};

/// Each shelf, the shelves that its crates may depend on, and shelves that only its tests may use in addition.
const SHELVES: [(&str, &[&str], &[&str]); 5] = [
    ("core", &["core"], &["zoo", "testbed"]),
    ("zoo", &["core"], &["testbed"]),
    ("testbed", &["core", "testbed"], &["zoo"]),
    ("programs", &["core", "testbed", "programs"], &["zoo"]),
    ("lab", &["core", "zoo", "testbed", "programs", "lab"], &[]),
];
/// Literals of the core that are not names of algorithms: files and words.
const WORDS: [(&str, &str); 1] = [("cached_start.rs", "fast-start")]; // its phase is named after Fast Start
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

/// The tests of the core are built without the zoo, the programs and the lab, so that a change of the core needs none of
/// them to be tested.
#[test]
fn the_cores_tests_need_the_core_and_the_testbed_only() {
    let manifest: toml::Table = read(&root().join("tests/core/Cargo.toml")).parse().unwrap();
    let tests = Crate { place: "tests".to_owned(), package: "longhaul-tests-core".to_owned(), manifest };
    let crates = crates();
    let is_other =
        |package: &str| crates.iter().any(|one| one.package == package && !["core", "testbed"].contains(&one.shelf()));
    for kind in ["dependencies", "dev-dependencies"] {
        let others: Vec<_> = tests.dependencies(kind).into_iter().filter(|(package, _)| is_other(package)).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

/// Each command for the tests of a shelf selects all of its packages.
#[test]
fn the_commands_for_tests_select_whole_shelves() {
    let config: toml::Table = read(&root().join(".cargo/config.toml")).parse().unwrap();
    let commands =
        [("test-core", ["core", "testbed"]), ("test-programs", ["programs", ""]), ("test-papers", ["zoo", "lab"])];
    for (command, shelves) in commands {
        let selected: BTreeSet<_> = config["alias"][command].as_str().unwrap().split_whitespace().collect();
        for one in crates().iter().filter(|one| shelves.contains(&one.shelf())) {
            assert!(selected.contains(one.package.as_str()), "{command} lacks {}", one.package);
        }
        let own = command.replace("test-", "longhaul-tests-");
        assert!(selected.contains(own.as_str()), "{command} lacks {own}");
    }
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

/// Text is an arrow, too: a core crate that names an algorithm of the zoo works only in programs that register it.
#[test]
fn the_core_names_no_algorithm_of_the_zoo() {
    let sources = |shelf: &str| {
        let crates = crates().into_iter().filter(|one| one.shelf() == shelf);
        crates.flat_map(|one| one.sources()).map(|path| (read(&path), path)).collect::<Vec<_>>()
    };
    let core = sources("core");
    let declared = |sources: &[_]| declared(sources.iter().map(|(text, _): &(String, _)| without_tests(text)));
    // A name that the core declares, too, as that of another algorithm, may be either.
    let names = &declared(&sources("zoo")) - &declared(&core);
    assert!(names.contains("scalable") && names.contains("hybla-start"), "{names:?}");
    let mut found = Vec::new();
    for (text, path) in &core {
        for (_, literal) in literals(without_tests(text)) {
            if named(literal, &names) && !WORDS.iter().any(|(file, word)| path.ends_with(file) && *word == literal) {
                found.push(format!("{}: {literal:?}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn names_in_text_are_found() {
    let zoo = r#"
        /// "Quoted" in a comment.
        static ENTRY: Entry = Entry::avoidance("abse", |values| Box::new(Abse::from_values(values)))
            .described("a summary", "a source");
        static OTHER: Entry = Entry::slow_start(
            "fast-start", |values| '"'.into());
        Profile::new("tcpw-a", "avoidance=abse", "a summary", "a source"),
    "#;
    let names = declared([zoo].into_iter());
    assert_eq!(names, ["abse", "fast-start", "tcpw-a"].map(str::to_owned).into());
    let core = r#"set("slow-start+abse(tau=1)"); '"'; "avoidance=abse,recovery=prr" // "abse"
        "an abse", "abses", "\"abse", "tcpw", "tcpw-a"#;
    let core = format!("{core}\"");
    let found: Vec<_> = literals(&core).into_iter().filter(|(_, text)| named(text, &names)).collect();
    assert_eq!(found.len(), 3, "{found:?}");
}

/// Returns the names of the algorithms and profiles that these sources declare.
fn declared<'a>(sources: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let declares = |before: &str| {
        let entry = before.rsplit_once("Entry::").and_then(|(_, kind)| kind.strip_suffix('('));
        before.ends_with("Profile::new(") || entry.is_some_and(is_word)
    };
    let names = sources.flat_map(literals).filter(|(before, _)| declares(before.trim_end()));
    names.map(|(_, name)| name.to_owned()).collect()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

/// Returns the string literals of a source, each with the text before it in the same statement, without comments.
fn literals(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let (mut rest, mut at) = (text, 0);
    while let Some(next) = rest.find(['"', '/', '\'']) {
        let (start, after) = (at + next, &rest[next..]);
        let skipped = if after.starts_with("//") {
            after.find('\n').unwrap_or(after.len())
        } else if after.starts_with("'\"'") {
            3
        } else if let Some(inside) = after.strip_prefix('"') {
            let mut escaped = false;
            let is_end = |letter: char| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            };
            let Some(length) = inside.find(is_end) else { break };
            let before = text[..start].rsplit([';', '{', '}', ',']).next().unwrap_or_default();
            found.push((before, &inside[..length]));
            length + 2
        } else {
            1
        };
        at = start + skipped;
        rest = &text[at..];
    }
    found
}

/// Returns whether a literal is a composition with one of `names`, such as `slow-start+abse` or `avoidance=fast`. Other
/// text has spaces.
fn named(literal: &str, names: &BTreeSet<String>) -> bool {
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-+=,.()".contains(letter);
    literal.chars().all(fits) && literal.split(['+', '=', ',', '(', ')']).any(|part| names.contains(part))
}
