//! Parts of the documentation that a bench writes, and finds again.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};

/// What to do with what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Print it.
    Print,
    /// Print it, and write it into the documentation.
    Write,
    /// Compare it with the documentation.
    Check,
}

/// The arguments of a bench that writes documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub mode: Mode,
    /// Measure only what is quick.
    pub is_quick: bool,
}

impl Task {
    /// Of the command line.
    ///
    /// # Errors
    /// An argument that is none.
    pub(crate) fn from_args() -> Result<Self> {
        Self::parse(env::args().skip(1))
    }

    fn parse(args: impl Iterator<Item = String>) -> Result<Self> {
        let mut task = Self { mode: Mode::Print, is_quick: false };
        for arg in args {
            match arg.as_str() {
                "--write" => task.mode = Mode::Write,
                "--check" => task.mode = Mode::Check,
                "--quick" => task.is_quick = true,
                // cargo's own.
                "--bench" => {}
                other => bail!("there is no argument {other}; there are --write, --check and --quick"),
            }
        }
        if task.is_quick && task.mode == Mode::Write {
            bail!("--write needs all that is measured, --quick is for --check");
        }
        Ok(task)
    }
}

/// A file of the documentation and what it shall say.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub path: PathBuf,
    pub text: String,
}

/// A path in the documentation.
pub(crate) fn docs(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(path)
}

/// The text of a file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_page(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Writes pages, or finds those that differ from what they shall say.
///
/// # Errors
/// A page cannot be read or written, or differs; then `command` is how to write it.
pub(crate) fn settle(pages: &[Page], mode: Mode, command: &str) -> Result<()> {
    let mut stale = Vec::new();
    for page in pages {
        match mode {
            Mode::Print => {}
            Mode::Write => {
                fs::write(&page.path, &page.text).with_context(|| format!("writing {}", page.path.display()))?;
            }
            Mode::Check if read_page(&page.path)? != page.text => stale.push(page.path.display().to_string()),
            Mode::Check => {}
        }
    }
    match mode {
        Mode::Print => {}
        Mode::Write => println!("\nwritten: {} pages", pages.len()),
        Mode::Check if stale.is_empty() => println!("\nas documented: {} pages", pages.len()),
        Mode::Check => bail!("no longer what is measured: {}; write it with: {command}", stale.join(", ")),
    }
    Ok(())
}

/// `text` with `section` between the lines `begin` and `end`, which come last if they are missing.
pub(crate) fn with_section(text: &str, begin: &str, end: &str, section: &str) -> String {
    let (before, after) = match text.split_once(begin) {
        Some((before, rest)) => (before.to_owned(), rest.split_once(end).map_or("\n", |(_, after)| after)),
        None => (format!("{}\n\n", text.trim_end()), "\n"),
    };
    format!("{before}{begin}\n{section}{end}{after}")
}

/// A table of Markdown. The first row is the head.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
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
        assert_eq!(parse(&["--bench"]).unwrap(), Task { mode: Mode::Print, is_quick: false });
        assert_eq!(parse(&["--check", "--quick", "--bench"]).unwrap(), Task { mode: Mode::Check, is_quick: true });
        assert!(parse(&["--write", "--quick"]).is_err());
        assert!(parse(&["--wrong"]).is_err());
    }

    #[test]
    fn a_section_is_put_last_once_and_then_replaced() {
        let first = with_section("# page\n\ntext\n", "<!-- b -->", "<!-- e -->", "one\n");
        assert_eq!(first, "# page\n\ntext\n\n<!-- b -->\none\n<!-- e -->\n");
        let more = format!("{first}\nmore\n");
        let second = with_section(&more, "<!-- b -->", "<!-- e -->", "two\n");
        assert_eq!(second, "# page\n\ntext\n\n<!-- b -->\ntwo\n<!-- e -->\n\nmore\n");
    }

    #[test]
    fn a_table_has_a_line_below_its_head() {
        let rows = [vec!["a".to_owned(), "b".to_owned()], vec!["1".to_owned(), "2".to_owned()]];
        assert_eq!(table(&rows), "| a | b |\n|---|--:|\n| 1 | 2 |\n");
    }
}
