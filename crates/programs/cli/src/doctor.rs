//! Checks of this machine and of the path to a host, for settings that slow longhaul down.
//!
//! [`machine`] checks the machine, [`path`](mod@path) checks the path to a reflector (`longhaul receive --reflect`),
//! and [`nat`] measures how long a NAT on the path keeps a binding.

use std::fmt;
use std::time::Duration;

use longhaul_link::text;
use serde::Serialize;

pub(crate) mod machine;
pub(crate) mod nat;
pub(crate) mod path;
mod ramp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) found: String,
    /// Command that fixes the problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Ok,
    /// A remark that does not affect longhaul's speed.
    Note,
    /// A problem that slows longhaul down.
    Wrong,
    Unknown,
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { check, verdict, found: found.into(), command: None }
    }

    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found)
    }

    fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Note, found)
    }

    fn wrong(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Wrong, found)
    }

    fn unknown(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, found)
    }

    fn mend(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }
}

impl Finding {
    /// Returns the advice on a finding that has no command.
    fn advice(&self) -> &'static str {
        match (self.check, self.verdict) {
            ("ecn", Verdict::Wrong) => " Nothing to do: connections go on without ECN.",
            ("dscp", Verdict::Note) => " Nothing to do: longhaul needs no priorities.",
            ("dscp", Verdict::Wrong) => " Do not set a DSCP.",
            ("path-mtu", Verdict::Wrong) => " Raise the MTU of the tunnel or link on the way.",
            ("udp-rate", Verdict::Note) => " Nothing to do: longhaul adapts.",
            _ => "",
        }
    }
}

/// Returns the findings as readable text: numbered, and problems first. For findings without a problem, only their
/// number is shown unless `all` is true.
pub(crate) fn summary(findings: &[Finding], all: bool, columns: usize) -> String {
    let (fine, mut others): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding: &&Finding| finding.verdict == Verdict::Ok);
    others.sort_by_key(|finding| finding.verdict != Verdict::Wrong);
    let mut text = String::new();
    for (number, finding) in (1..).zip(&others) {
        let sentence = format!("{}: {}{}", finding.check, sentence(&finding.found), finding.advice());
        text += &wrapped(&format!("{number}. "), &sentence, columns);
        // The command is not wrapped, so that it can be copied.
        text.extend(finding.command.as_ref().map(|command| format!("     {command}\n")));
    }
    text += if others.is_empty() { "" } else { "\n" };
    if all {
        for finding in fine {
            text += &wrapped("ok ", &format!("{}: {}.", finding.check, finding.found), columns);
        }
        return text;
    }
    let more = if others.is_empty() { "" } else { "more " };
    match fine.len() {
        0 => text,
        1 => text + &format!("1 {more}check is fine (-v).\n"),
        fine => text + &format!("{fine} {more}checks are fine (-v).\n"),
    }
}

/// Returns a finding with the point that ends it, unless it ends with a question.
fn sentence(found: &str) -> String {
    let end = if found.ends_with('?') { "" } else { "." };
    format!("{found}{end}")
}

/// Breaks a text into lines. The first one begins with `mark`, and the other lines are indented by its width.
fn wrapped(mark: &str, text: &str, columns: usize) -> String {
    let mut lines = String::new();
    let mut line = mark.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
            lines += &line;
            lines.push('\n');
            line = " ".repeat(mark.len());
            is_empty = true;
        }
        line += if is_empty { "" } else { " " };
        line += word;
        is_empty = false;
    }
    lines + &line + "\n"
}

/// Rate and round-trip time of the path that this machine should be able to fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    /// Rate in bit/s.
    pub(crate) bandwidth: u64,
    pub(crate) rtt: Duration,
}

impl Target {
    /// Returns the bandwidth-delay product in bytes.
    pub(crate) fn bdp(&self) -> u64 {
        let bits = u128::from(self.bandwidth) * self.rtt.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", text::rate(self.bandwidth as f64), crate::report::time(Some(self.rtt)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_of_rate_and_round_trip_is_in_bytes() {
        let target = |bandwidth, millis| Target { bandwidth, rtt: Duration::from_millis(millis) };
        assert_eq!(target(20_000_000, 600).bdp(), 1_500_000);
        assert_eq!(target(1, 1).bdp(), 0);
        assert_eq!(target(u64::MAX, u64::MAX / 1_000_000).bdp(), u64::MAX);
        assert_eq!(target(20_000_000, 600).to_string(), "20.0 Mb/s and 600.0 ms");
    }

    #[test]
    fn what_is_wrong_comes_first_and_lines_are_wrapped() {
        let findings = [
            Finding::ok("gso", "works"),
            Finding::note("dscp", "priorities end on the way"),
            Finding::wrong("timer-slack", "timers may be late by 5000 us").mend("echo 50000 > /proc/x/timerslack_ns"),
            Finding::ok("gro", "works"),
        ];
        assert_eq!(summary(&[Finding::wrong("udp", "is it there?")], false, 30), "1. udp: is it there?\n\n");
        assert_eq!(
            summary(&findings, false, 30),
            "1. timer-slack: timers may be\n   late by 5000 us.\n     echo 50000 > /proc/x/timerslack_ns\n\
             2. dscp: priorities end on the\n   way. Nothing to do:\n   longhaul needs no\n   priorities.\n\n\
             2 more checks are fine (-v).\n"
        );
        assert_eq!(summary(&findings[..1], false, 30), "1 check is fine (-v).\n");
        assert_eq!(summary(&findings[..1], true, 30), "ok gso: works.\n");
    }

    #[test]
    fn a_finding_is_an_object() {
        let finding = Finding::wrong("timer-slack", "it is 1 ms").mend("echo 50000 > x");
        let json = serde_json::to_string(&finding).unwrap();
        assert_eq!(
            json,
            r#"{"check":"timer-slack","verdict":"wrong","found":"it is 1 ms","command":"echo 50000 > x"}"#
        );
    }
}
