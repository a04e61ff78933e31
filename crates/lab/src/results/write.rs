//! Atomic writing of files.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes a file under a temporary name and renames it.
pub(crate) fn whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&temporary, path)
    };
    write().with_context(|| path.display().to_string())
}

pub(crate) fn json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).with_context(|| path.display().to_string())?;
    whole(path, (text + "\n").as_bytes())
}

pub(super) fn json_lines(path: &Path, values: &[impl Serialize]) -> Result<()> {
    let lines: Result<Vec<String>, _> = values.iter().map(serde_json::to_string).collect();
    let lines = lines.with_context(|| path.display().to_string())?;
    whole(path, format!("[\n{}\n]\n", lines.join(",\n")).as_bytes())
}

/// Writes rows of values in CSV format (RFC 4180), with line feeds as line ends. The first row contains the names.
pub(super) fn csv(path: &Path, rows: &[Vec<String>]) -> Result<()> {
    let quoted = |value: &String| {
        if value.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", value.replace('"', "\"\""))
        } else {
            value.clone()
        }
    };
    let lines = rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n");
    whole(path, lines.collect::<String>().as_bytes())
}
