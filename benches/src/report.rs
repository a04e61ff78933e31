//! Where settings come from and results go.

use std::path::Path;
use std::str::FromStr;
use std::{env, fs};

use anyhow::{Context, Result};
use serde::Serialize;

/// The environment variable `name` as a number, or `default` when it is not set.
///
/// # Errors
/// It is set and no such number.
pub fn setting<T: FromStr>(name: &str, default: T) -> Result<T> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|_| anyhow::anyhow!("{name}={text} is not a number")),
        Err(_) => Ok(default),
    }
}

/// Writes `value` to `bench/<file>` of the target directory. `target_tmpdir` is the `CARGO_TARGET_TMPDIR` that cargo
/// sets when it builds a bench: the one thing that says where the target directory is, however it was chosen.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(target_tmpdir: &str, file: &str, value: &impl Serialize) -> Result<()> {
    let target = Path::new(target_tmpdir).parent().context("CARGO_TARGET_TMPDIR has no parent")?;
    let directory = target.join("bench");
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let path = directory.join(file);
    fs::write(&path, serde_json::to_string_pretty(value)? + "\n")
        .with_context(|| format!("writing {}", path.display()))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}
