//! Archive of a folder of results for a repository of research data.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::held::{Held, Results};
use super::tables::Times;
use super::{LOCK, RUNS, write};
use crate::definition::Kind;

/// Files that are left out: runs are large, and the same program makes them again.
const LEFT_OUT: [&str; 2] = [RUNS, LOCK];
const TITLE: &str = "Results of longhaul-lab";
/// Size of a block of a tar archive in bytes.
const BLOCK: usize = 512;

/// Contents by path, relative to the folder.
type Files = BTreeMap<String, Vec<u8>>;

/// Writes a tar archive (POSIX ustar) of the folder, with an appendix of claims, a citation file, a description as RO-Crate
/// (JSON-LD) and checksums. The same folder yields the same archive. Returns the number of files.
pub(crate) fn pack(results: &Results, archive: &Path) -> Result<usize> {
    if let Some(held) = results.experiments.iter().find(|held| !held.is_complete()) {
        bail!("{}: {} of {} runs exist", held.id(), held.records.len(), held.all());
    }
    let origin = results.origins.last().context("the folder does not state which program wrote it")?;
    let version = format!("{}{}", origin.commit, if origin.modified { "-modified" } else { "" });
    let day = origin.date.get(..10).unwrap_or_default();
    let mut files = Files::new();
    collect(&results.path, "", &mut files)?;
    files.insert("CLAIMS.md".into(), claims(results, &files).into_bytes());
    files.insert("CITATION.cff".into(), citation(&version, day).into_bytes());
    let described = serde_json::to_vec_pretty(&description(&files, &version, day))?;
    files.insert("ro-crate-metadata.json".into(), described);
    let sum = |(path, bytes): (&String, &Vec<u8>)| {
        let digits = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{digits}  {path}\n")
    };
    let sums = files.iter().map(sum).collect::<String>();
    files.insert("SHA256SUMS".into(), sums.into_bytes());
    let name = archive.file_name().and_then(|name| name.to_str()).context("the archive needs a name")?;
    write::whole(archive, &tar(name.split('.').next().unwrap_or(name), &files)?)?;
    Ok(files.len())
}

/// Reads all files in a folder and its subfolders.
fn collect(folder: &Path, place: &str, files: &mut Files) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{place}{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if !LEFT_OUT.contains(&name.as_str()) {
            files.insert(path, fs::read(entry.path()).with_context(|| entry.path().display().to_string())?);
        }
    }
    Ok(())
}

/// Lists the experiments E1, E2, ... with the time and the space that they need, and the claims C1, C2, ... with the
/// experiments that decide them.
fn claims(results: &Results, files: &Files) -> String {
    let mut experiments = String::new();
    let (mut claims, mut count) = (String::new(), 0);
    for (nth, held) in (1..).zip(&results.experiments) {
        let id = held.id();
        let size: usize =
            files.iter().filter(|(path, _)| path.starts_with(&format!("{id}/"))).map(|(_, bytes)| bytes.len()).sum();
        let seconds = Times::of(&held.records, 0.0).computed_seconds;
        let _ = writeln!(
            experiments,
            "| E{nth} | {id} | `{}` | {} | {seconds:.0} | {size} |",
            command(held),
            held.records.len()
        );
        for row in held.rows().unwrap_or_default().iter().filter(|row| row.kind == Kind::Claim) {
            count += 1;
            let claim = if row.claim.is_empty() { &row.row } else { &row.claim };
            let [claim, name, isolated] = [claim, &row.row, &row.isolated_by].map(|text| text.replace('|', "\\|"));
            let verdict = row.verdict.name();
            let _ = writeln!(claims, "| C{count} | {claim} | {verdict} | E{nth}, row {name} | {isolated} |");
        }
    }
    format!(
        "# Claims and experiments\n\n| | experiment | command | runs | processor seconds | bytes |\n|---|---|---|--:|--:|--:|\n\
         {experiments}\n| | claim | verdict | by | isolated by |\n|---|---|---|---|---|\n{claims}"
    )
}

/// Returns the command that makes the runs of an experiment.
fn command(held: &Held) -> String {
    format!("longhaul-lab run {} --seeds {}..{}", held.id(), held.kept.first, held.kept.last())
}

/// Returns a citation file (Citation File Format 1.2.0).
fn citation(version: &str, day: &str) -> String {
    format!(
        "cff-version: 1.2.0\nmessage: Please cite these results as below.\ntype: dataset\ntitle: {TITLE}\nauthors:\n  \
         - name: The longhaul authors\nversion: {version}\ndate-released: {day}\nrepository-code: {}\n\
         license: [MIT, Apache-2.0]\n",
        env!("CARGO_PKG_REPOSITORY")
    )
}

/// Returns the description of the files as RO-Crate 1.1.
fn description(files: &Files, version: &str, day: &str) -> serde_json::Value {
    let parts: Vec<_> = files.keys().map(|path| json!({ "@id": path })).collect();
    let mut graph = vec![
        json!({ "@id": "ro-crate-metadata.json", "@type": "CreativeWork", "about": { "@id": "./" },
                "conformsTo": { "@id": "https://w3id.org/ro/crate/1.1" } }),
        json!({ "@id": "./", "@type": "Dataset", "name": TITLE, "datePublished": day, "version": version,
                "description": "Rows, values and pictures of experiments on transport protocols.",
                "license": { "@id": "https://spdx.org/licenses/Apache-2.0" }, "hasPart": parts }),
    ];
    let file = |(path, bytes): (&String, &Vec<u8>)| json!({ "@id": path, "@type": "File", "contentSize": bytes.len() });
    graph.extend(files.iter().map(file));
    json!({ "@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph })
}

/// Returns the archive of these files in a folder of this name, without owners and times.
fn tar(folder: &str, files: &Files) -> Result<Vec<u8>> {
    let mut archive = Vec::new();
    for (path, bytes) in files {
        archive.extend(header(&format!("{folder}/{path}"), bytes.len())?);
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

/// Returns the header of a regular file (POSIX.1-2001, pax, "ustar Interchange Format").
fn header(name: &str, size: usize) -> Result<[u8; BLOCK]> {
    ensure!(name.len() <= 100, "{name}: the path has more than 100 bytes");
    let mut header = [0; BLOCK];
    let size = format!("{size:011o}");
    ensure!(size.len() == 11, "{name}: the file has 8 GiB or more");
    let fields: [(usize, &str); 8] = [
        (0, name),
        (100, "0000644"),
        (108, "0000000"),
        (116, "0000000"),
        (124, &size),
        (136, "00000000000"),
        // The sum counts its own field as spaces.
        (148, "        0"),
        (257, "ustar\x0000"),
    ];
    for (at, text) in fields {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Ok(header)
}
