//! Checks of this machine and of the path to a host, for settings that slow longhaul down.
//!
//! [`machine`] checks the machine, [`path`](mod@path) the path to a reflector (`longhaul receive --reflect`), [`nat`] how
//! long a NAT on the path keeps a binding.

use std::fmt;
use std::time::Duration;

use longhaul_units::text;
use serde::Serialize;

pub(crate) mod machine;
pub(crate) mod nat;
pub(crate) mod path;
mod prober;
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
    /// Something worth knowing that does not slow longhaul down.
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

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Wrong => "WRONG",
            Verdict::Unknown => "unknown",
        };
        write!(f, "{verdict:<8}{:<16}{}", self.check, self.found)?;
        match &self.command {
            Some(command) => write!(f, "; mend it with: {command}"),
            None => Ok(()),
        }
    }
}

/// Rate and round-trip time of the path that the machine is to fill.
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
    fn a_finding_is_a_line() {
        let finding = Finding::wrong("timer-slack", "it is 1 ms").mend("echo 50000 > x");
        assert_eq!(finding.to_string(), "WRONG   timer-slack     it is 1 ms; mend it with: echo 50000 > x");
        let json = serde_json::to_string(&finding).unwrap();
        assert_eq!(
            json,
            r#"{"check":"timer-slack","verdict":"wrong","found":"it is 1 ms","command":"echo 50000 > x"}"#
        );
        assert_eq!(Finding::ok("gso", "works").to_string(), "ok      gso             works");
    }
}
