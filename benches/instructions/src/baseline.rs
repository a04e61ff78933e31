//! Committed instruction counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Fraction by which a count may exceed the baseline, or fall below it before the baseline should be renewed.
pub const TOLERANCE: f64 = 0.03;

/// Instruction counts by the name of the workload, and the compiler that generated the counted code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// First line of `rustc --version`. Another compiler generates other code, whose counts are not compared.
    pub compiler: String,
    /// Instructions of each workload.
    pub counts: BTreeMap<String, u64>,
}

/// Result of comparing a count with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The workload is new.
    New,
    /// The count is within the tolerance.
    Same,
    /// The count is lower than the baseline by more than [`TOLERANCE`].
    Fewer,
    /// The count exceeds the baseline by more than [`TOLERANCE`].
    More,
}

impl Baseline {
    /// Parses the output of [`Baseline::print`]. Invalid lines are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut baseline = Self::default();
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix("# ") {
                baseline.compiler = compiler.to_owned();
            } else if let Some((name, count)) = line.rsplit_once(' ')
                && let Ok(count) = count.parse()
            {
                baseline.counts.insert(name.trim_end().to_owned(), count);
            }
        }
        baseline
    }

    /// Formats the baseline as text: the compiler in the first line, then a line per workload.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = format!("# {}\n", self.compiler);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "{name:<48} {count}");
        }
        text
    }

    /// Compares the count of a workload with the baseline.
    #[must_use]
    pub fn judge(&self, name: &str, count: u64) -> Change {
        let Some(&known) = self.counts.get(name) else { return Change::New };
        let ratio = count as f64 / (known.max(1)) as f64;
        match ratio {
            _ if ratio > 1.0 + TOLERANCE => Change::More,
            _ if ratio < 1.0 - TOLERANCE => Change::Fewer,
            _ => Change::Same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let counts = [("ack cubic".to_owned(), 1_000), ("ack westwood-bbe(capacity=pairs)".to_owned(), 2)];
        let baseline = Baseline { compiler: "rustc 1.95.0".to_owned(), counts: counts.into() };
        assert_eq!(Baseline::parse(&baseline.print()), baseline);
    }

    #[test]
    fn three_per_cent_either_way_are_the_same() {
        let baseline = Baseline { counts: [("a".to_owned(), 1_000)].into(), ..Baseline::default() };
        let judge = |count| baseline.judge("a", count);
        assert_eq!([970, 1_030].map(judge), [Change::Same; 2]);
        assert_eq!((judge(969), judge(1_031)), (Change::Fewer, Change::More));
        assert_eq!(baseline.judge("b", 1), Change::New);
    }
}
