//! Archives for repositories of research data.

use std::path::Path;
use std::process::Command;

use crate::common::{Place, SMALL, lab, refused, text};

/// Runs a program in a folder, and returns what it prints.
fn print_of(folder: &str, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Another program unpacks the archive and verifies the checksums; citation and description have what their formats
/// require.
#[test]
fn an_archive_can_be_unpacked_verified_and_cited() {
    let place = Place::new("pack");
    let file = place.file("small.toml", SMALL);
    assert_eq!(lab(&["run", &file, "--seeds", "3..4", "--out", &place.path("out")]).status.code(), Some(0));
    let archive = place.path("results.tar");
    let packed = lab(&["pack", &place.path("out"), &archive]);
    assert_eq!(packed.status.code(), Some(0), "{}", text(&packed.stderr));
    assert_eq!(
        lab(&["pack", &place.path("out"), &place.path("again/results.tar")]).status.code(),
        Some(2),
        "no folder"
    );
    let first = place.bytes("results.tar");
    assert_eq!(lab(&["pack", &place.path("out"), &archive]).status.code(), Some(0));
    assert_eq!(place.bytes("results.tar"), first, "the same folder gives the same archive");

    let top = place.path("");
    print_of(&top, "tar", &["-xf", "results.tar"]);
    let inside = place.path("results");
    let verified = print_of(&inside, "sha256sum", &["--check", "--strict", "SHA256SUMS"]);
    let found = print_of(&inside, "find", &[".", "-type", "f"]);
    assert_eq!(verified.lines().count() + 1, found.lines().count(), "all but the list: {found}");
    assert!(packed.stdout.ends_with(format!(": {} files\n", found.lines().count()).as_bytes()));
    for name in
        ["index.html", "lab.json", "origins.jsonl", "small/values.csv", "small/rows.json", "small/experiment.toml"]
    {
        assert_eq!(place.bytes(&format!("results/{name}")), place.bytes(&format!("out/{name}")), "{name}");
    }
    assert!(!place.exists("results/small/runs.jsonl") && !place.exists("results/lab.lock"));

    // CFF 1.2.0 requires these keys.
    let citation = text(&place.bytes("results/CITATION.cff"));
    for key in ["cff-version: 1.2.0", "message: ", "title: ", "authors:", "version: ", "date-released: 2"] {
        assert_eq!(citation.lines().filter(|line| line.starts_with(key)).count(), 1, "{key}: {citation}");
    }
    // RO-Crate 1.1 requires the descriptor, the root and its properties, and that all parts are described.
    let crated: serde_json::Value = serde_json::from_slice(&place.bytes("results/ro-crate-metadata.json")).unwrap();
    let graph = crated["@graph"].as_array().unwrap();
    assert_eq!(crated["@context"], "https://w3id.org/ro/crate/1.1/context");
    assert_eq!(graph[0]["about"]["@id"], "./");
    assert_eq!(graph[0]["conformsTo"]["@id"], crated["@context"].as_str().unwrap().trim_end_matches("/context"));
    for key in ["name", "description", "datePublished", "license", "hasPart"] {
        assert!(!graph[1][key].is_null(), "{key}");
    }
    let parts = graph[1]["hasPart"].as_array().unwrap();
    assert_eq!(parts.len(), graph.len() - 2);
    for (part, described) in parts.iter().zip(&graph[2..]) {
        assert_eq!(part["@id"], described["@id"]);
        let path = Path::new(&inside).join(described["@id"].as_str().unwrap());
        assert_eq!(described["contentSize"], path.metadata().unwrap().len(), "{}", path.display());
    }
    let claims = text(&place.bytes("results/CLAIMS.md"));
    assert!(claims.contains("| E1 | small | `longhaul-lab run small --seeds 3..4` | 8 |"), "{claims}");
    assert!(claims.contains("| C1 | ") && claims.contains(", row 1 | "), "{claims}");
}

#[test]
fn incomplete_results_are_not_packed() {
    let place = Place::new("pack-part");
    let file = place.file("small.toml", SMALL);
    assert_eq!(lab(&["run", &file, "--shard", "1/3", "--out", &place.path("part")]).status.code(), Some(0));
    refused(&["pack", &place.path("part"), &place.path("part.tar")], "small: 8 of 24 runs exist");
    assert!(!place.exists("part.tar"));
}
