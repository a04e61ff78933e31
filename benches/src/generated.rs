//! Sections of the documentation that a bench writes.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};

/// Arguments of a bench that writes a section of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Whether to write the section after printing it.
    pub writes: bool,
    /// Whether to make fewer measurements.
    pub is_quick: bool,
}

impl Task {
    /// Reads the command line.
    ///
    /// # Errors
    /// Returns an error if there is an unknown argument.
    pub fn from_args() -> Result<Self> {
        Self::parse(env::args().skip(1))
    }

    fn parse(args: impl Iterator<Item = String>) -> Result<Self> {
        let mut task = Self { writes: false, is_quick: false };
        for arg in args {
            match arg.as_str() {
                "--write" => task.writes = true,
                "--quick" => task.is_quick = true,
                // Cargo adds this argument.
                "--bench" => {}
                other => bail!("there is no argument {other}; there are --write and --quick"),
            }
        }
        if task.is_quick && task.writes {
            bail!("--write needs everything, and --quick measures a part");
        }
        Ok(task)
    }
}

/// Page of the documentation and its text.
#[derive(Clone, Debug)]
pub struct Page {
    /// Path of the file.
    pub path: PathBuf,
    /// Complete text.
    pub text: String,
}

/// Returns a path in the documentation.
#[must_use]
pub fn docs(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(path)
}

impl Page {
    /// Writes the page if the arguments request it.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn settle(&self, task: Task) -> Result<()> {
        if task.writes {
            let path = self.path.display();
            fs::write(&self.path, &self.text).with_context(|| format!("writing {path}"))?;
            println!("\nwritten: {path}");
        }
        Ok(())
    }
}

/// Returns the text of the page `path`, in which the section `title` is replaced by `body`.
///
/// # Errors
/// Returns an error if the page cannot be read.
pub fn section(path: &Path, title: &str, body: &str) -> Result<String> {
    let page = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(replace_section(&page, title, body))
}

/// Replaces a section with a heading of the second level, or adds it at the end.
fn replace_section(page: &str, title: &str, body: &str) -> String {
    let (heading, body) = (format!("\n## {title}\n"), body.trim_end());
    let (before, rest) = page.split_once(&heading).unwrap_or((page.trim_end_matches('\n'), ""));
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    let before = if rest.is_empty() { format!("{before}\n") } else { before.to_owned() };
    format!("{before}{heading}\n{body}\n{after}")
}

/// Returns the name of the processor, if the kernel knows it.
#[must_use]
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// Returns a table in Markdown. The first row is the head.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        text += &format!("| {} |\n", row.join(" | "));
        if number == 0 {
            text += &format!("|---|{}\n", "--:|".repeat(row.len().saturating_sub(1)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse = |args: &[&str]| Task::parse(args.iter().map(|arg| (*arg).to_owned()));
        assert_eq!(parse(&["--bench"]).unwrap(), Task { writes: false, is_quick: false });
        assert_eq!(parse(&["--quick", "--bench"]).unwrap(), Task { writes: false, is_quick: true });
        assert!(parse(&["--write", "--quick"]).is_err());
        assert!(parse(&["--wrong"]).is_err());
    }

    #[test]
    fn a_section_is_replaced_or_added() {
        let page = "# Costs\n\n## A\n\nold\n\n## B\n\nkept\n";
        assert_eq!(replace_section(page, "A", "new\n"), "# Costs\n\n## A\n\nnew\n\n## B\n\nkept\n");
        assert_eq!(replace_section(page, "B", "new"), "# Costs\n\n## A\n\nold\n\n## B\n\nnew\n");
        assert_eq!(replace_section("# Costs\n", "A", "new"), "# Costs\n\n## A\n\nnew\n");
        let same = replace_section(page, "A", "old");
        assert_eq!(same, page);
    }

    #[test]
    fn a_table_has_a_line_below_its_head() {
        let rows = [vec!["a".to_owned(), "b".to_owned()], vec!["1".to_owned(), "2".to_owned()]];
        assert_eq!(table(&rows), "| a | b |\n|---|--:|\n| 1 | 2 |\n");
    }
}
