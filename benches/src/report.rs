//! Settings from the environment, and files of results.

use std::path::Path;
use std::str::FromStr;
use std::{env, fs};

use anyhow::{Context, Result};
use longhaul_link::statistics::{median, sorted};
use serde::Serialize;

/// Median and range of several runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Median of the runs.
    pub median: f64,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
}

impl Spread {
    /// Computes the median and range of `values`, or NaN without values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values = sorted(values);
        let [min, median, max] =
            [values.first().copied(), median(&values), values.last().copied()].map(|value| value.unwrap_or(f64::NAN));
        Self { median, min, max }
    }
}

/// Returns the environment variable `name` as a number, or `default` if the variable is not set.
///
/// # Errors
/// Returns an error if the value is not a number of type `T`.
pub fn setting<T: FromStr>(name: &str, default: T) -> Result<T> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|_| anyhow::anyhow!("{name}={text} is not a number")),
        Err(_) => Ok(default),
    }
}

/// Writes `value` to `bench/<file>` of the target directory. `target_tmpdir` is the `CARGO_TARGET_TMPDIR` that cargo
/// sets when it builds a bench: no other variable contains the target directory.
///
/// # Errors
/// Returns an error if the file cannot be written.
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
