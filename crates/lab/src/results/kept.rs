//! Identity of the runs in a folder.

use serde::{Deserialize, Serialize};

use super::program;

/// Fields of an experiment that its runs do not depend on: the number of runs, how they are judged and drawn, and
/// descriptions.
const AFTERWARDS: [&str; 7] = ["title", "source", "runs", "quick-runs", "rows", "plots", "tables"];

/// The identity of an experiment's runs, stored or requested.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The program that ran it.
    pub program: String,
    /// BLAKE3 hash, in hexadecimal, of everything that the runs depend on: the text without comments and
    /// the fields that only later steps use.
    pub blake3: String,
    /// Requested runs per cell.
    pub runs: u32,
}

impl Kept {
    /// Creates the identity of runs of this text with this program.
    #[must_use]
    pub fn new(text: &str, runs: u32) -> Self {
        Self { program: program(), blake3: hash(text), runs }
    }

    /// Returns whether an experiment with this text has the same runs.
    #[must_use]
    pub fn is_of(&self, text: &str) -> bool {
        self.blake3 == hash(text)
    }
}

/// Hashes what the runs depend on, or the whole text if it is not TOML.
fn hash(text: &str) -> String {
    let essence = text.parse::<toml::Table>().ok().and_then(|mut table| {
        table.retain(|field, _| !AFTERWARDS.contains(&field));
        serde_json::to_vec(&table).ok()
    });
    blake3::hash(essence.as_deref().unwrap_or(text.as_bytes())).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "id = 'x'\nruns = 3\nduration = '9s'\n[metrics]\na = 'goodput(x)'\n[[rows]]\nid = 'r'\n[[rows]]\nid = 's'\n";

    #[test]
    fn judgements_and_notes_do_not_affect_the_comparison() {
        let kept = Kept::new(TEXT, 1);
        for (from, to) in
            [("", "# Why.\n"), ("runs = 3", "runs = 9"), ("'r'", "'q'"), ("id = 'x'\nruns = 3", "runs = 3\nid = 'x'")]
        {
            assert!(kept.is_of(&TEXT.replacen(from, to, 1)), "{to}");
        }
        for (from, to) in [
            ("'9s'", "'8s'"),
            ("goodput", "sent"),
            ("id = 'x'", "id = 'y'"),
            ("[metrics]", "add = { a = ['b'] }\n[metrics]"),
        ] {
            assert!(!kept.is_of(&TEXT.replacen(from, to, 1)), "{to}");
        }
        assert!(Kept::new("no = [toml", 1).is_of("no = [toml") && !Kept::new("no = [toml", 1).is_of("nor = [toml"));
    }
}
