//! What runs are of.

use serde::{Deserialize, Serialize};

use super::program;

/// Parts of an experiment's text that its runs do not depend on: how many there are, how they are judged and drawn, and what is said of them.
const AFTERWARDS: [&str; 6] = ["title", "source", "runs", "quick-runs", "rows", "plots"];

/// What a folder has, or is to have, of an experiment.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The program that ran it.
    pub program: String,
    /// BLAKE3, hexadecimal, of what its runs depend on: its text without comments, rows and plots.
    pub blake3: String,
    /// Runs of each cell that were asked for.
    pub runs: u32,
}

impl Kept {
    /// This program, that text.
    #[must_use]
    pub fn new(text: &str, runs: u32) -> Self {
        Self { program: program(), blake3: hash(text), runs }
    }

    /// Whether an experiment of that text has the same runs.
    #[must_use]
    pub fn is_of(&self, text: &str) -> bool {
        self.blake3 == hash(text)
    }
}

/// Of what runs depend on; of the whole text if it is no TOML.
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
    fn what_is_judged_and_told_afterwards_is_left_out() {
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
