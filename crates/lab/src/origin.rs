//! Origin of results: the program, the machine, the time and the command.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use serde::{Deserialize, Serialize};

/// Number of hexadecimal digits by which a commit and an executable are named.
const DIGITS: usize = 12;

/// Origin of the runs of one execution of the program.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Name of the program, with its identification.
    pub program: String,
    /// The commit from which it was built; empty if unknown.
    pub commit: String,
    /// Whether the source differed from the commit.
    pub modified: bool,
    /// The BLAKE3 hash of the executable.
    pub executable: String,
    /// Compiler version with which the program was built.
    pub compiler: String,
    /// Target triple for which the program was compiled.
    pub target: String,
    /// The name of the machine.
    pub host: String,
    /// The start of the execution, in UTC.
    pub date: String,
    /// Command line of the run.
    pub command: Vec<String>,
    /// The seeds of the runs, per experiment.
    pub seeds: Vec<String>,
}

impl Origin {
    /// Returns the origin of the results of this execution.
    pub(crate) fn of(seeds: Vec<String>) -> Self {
        Self {
            program: program(),
            commit: env!("LONGHAUL_LAB_COMMIT").into(),
            modified: is_modified(),
            executable: executable().into(),
            compiler: env!("LONGHAUL_LAB_COMPILER").into(),
            target: env!("LONGHAUL_LAB_TARGET").into(),
            host: host(),
            date: date(now()),
            command: env::args().collect(),
            seeds,
        }
    }
}

/// Returns the name and version of this program with its identification: the commit if it was built from an unmodified
/// source, otherwise also the hash of the executable. Two programs built from one commit produce the same runs on any
/// machine.
pub(crate) fn program() -> String {
    let (name, commit) = (concat!("longhaul-lab ", env!("CARGO_PKG_VERSION")), env!("LONGHAUL_LAB_COMMIT"));
    let commit = commit.get(..DIGITS).unwrap_or(commit);
    // A program of another crate has its own algorithms.
    let is_own = env::current_exe().is_ok_and(|path| path.file_stem().is_some_and(|name| name == "longhaul-lab"));
    if is_own && !is_modified() && !commit.is_empty() {
        return format!("{name} ({commit})");
    }
    let executable = executable();
    let commit = if commit.is_empty() { "unknown commit".to_owned() } else { format!("{commit}, modified") };
    format!("{name} ({commit}, executable {})", executable.get(..DIGITS).unwrap_or(executable))
}

fn is_modified() -> bool {
    env!("LONGHAUL_LAB_MODIFIED") == "true"
}

fn executable() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| {
        let bytes = env::current_exe().and_then(fs::read);
        bytes.map_or_else(|_| "unknown".into(), |bytes| blake3::hash(&bytes).to_hex().to_string())
    })
}

fn host() -> String {
    let of_kernel = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = of_kernel.or_else(|| env::var("COMPUTERNAME").ok()).or_else(|| env::var("HOSTNAME").ok());
    named.map_or_else(|| "unknown".into(), |name| name.trim().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "when a run was made is the computer's time, and no part of the run")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats seconds since 1970 as in RFC 3339 (Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March, so that leap days are at their end.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `date -u -d @SECONDS`.
    #[test]
    fn dates_by_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), wanted);
        }
    }

    /// The program of a test is none of a clean commit, and names its executable.
    #[test]
    fn another_executable_is_another_program() {
        let program = program();
        assert!(program.starts_with("longhaul-lab ") && program.contains(", executable "), "{program}");
        assert_eq!(executable().len(), 64);
    }
}
