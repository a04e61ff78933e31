//! Text format of the metrics cache, so that it can outlive the process.
//!
//! Each line is one entry, least recently updated first, as words separated by spaces: address, congestion controller,
//! and then for each of threshold, round-trip time and saved path either `-` or the age in milliseconds and the values,
//! separated by commas. If the path drops ECN-capable packets, the age of this information follows. Ages are stored
//! because times relative to the start of a process are meaningless in another one.

use std::fmt::Write;
use std::net::IpAddr;
use std::str::FromStr;

use longhaul_cc::SavedPath;
use longhaul_units::{Bytes, Rate, Span, Time};

use super::{Entry, Learnt, Rtt, key};
use crate::PathCache;

/// First line: file type and version.
const HEAD: &str = "longhaul paths 1";
/// Maximum length of the name of a congestion controller.
const MAX_NAME: usize = 1024;

/// Error in the text of a metrics cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LoadError {
    /// Line number, starting at 1.
    pub line: usize,
    /// Reason.
    pub reason: LoadReason,
}

/// Reason why a line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadReason {
    /// The first line has a different file type or version.
    #[error("not a path cache: the first line must be `{HEAD}`")]
    Head,
    /// The first word is not an IP address.
    #[error("the first word is not an IP address")]
    Address,
    /// The second word is not a congestion controller.
    #[error("the second word is not a congestion controller")]
    Congestion,
    /// Numbers are missing, invalid or too many.
    #[error(
        "each of the next three words must be `-` or an age in ms and values: ssthresh; srtt,rttvar in us; window,rate,rtt; then, if the path drops ECN-capable packets, the age of that"
    )]
    Numbers,
    /// The values of the saved path are impossible ([`SavedPath::is_possible`]).
    #[error("a saved path needs a window of 1 to {} bytes, a rate above 0 and a round-trip time of at least 1 us", SavedPath::MAX_WINDOW.0)]
    Impossible,
}

impl PathCache {
    /// Returns all entries as text, with their ages at `now`.
    #[must_use]
    pub fn save(&self, now: Time) -> String {
        let mut text = format!("{HEAD}\n");
        let entries = self.lock();
        for name in entries.by_turn.values() {
            let Some(entry) = entries.by_key.get(name) else { continue };
            let ssthresh = word(now, entry.ssthresh, |ssthresh| vec![ssthresh.0]);
            let rtt = word(now, entry.rtt, |rtt| vec![micros(rtt.srtt), micros(rtt.rttvar)]);
            // A seeded saved path may be impossible. It is omitted, because `load` would refuse it.
            let saved = entry.saved.filter(|saved| saved.value.is_possible());
            let saved =
                word(now, saved, |saved| vec![saved.window.0, saved.rate.as_bytes_per_sec(), micros(saved.rtt)]);
            let drops_ect = entry.drops_ect.map(|_| word(now, entry.drops_ect, |()| Vec::new()));
            let words = [Some(ssthresh), Some(rtt), Some(saved), drops_ect].into_iter().flatten();
            // Writing to a string cannot fail.
            let _ = write!(text, "{} {}", name.0, name.1);
            words.for_each(|word| text.extend([" ", &word]));
            text.push('\n');
        }
        text
    }

    /// Adds the entries that [`save`](Self::save) wrote `ago` before `now`, replacing existing entries of the same
    /// paths. Returns the number of entries. If any line is invalid, nothing is added.
    ///
    /// # Errors
    /// Returns the first invalid line and the reason.
    pub fn load(&self, now: Time, ago: Span, text: &str) -> Result<usize, LoadError> {
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(head, _)| head.trim_end() != HEAD) {
            return Err(LoadError { line: 1, reason: LoadReason::Head });
        }
        let parsed: Result<Vec<_>, LoadError> = lines
            .filter(|(line, _)| !line.trim().is_empty())
            .map(|(text, line)| parse(now, ago, text).map_err(|reason| LoadError { line, reason }))
            .collect();
        let parsed = parsed?;
        let (count, entries) = (parsed.len(), &mut *self.lock());
        for (name, entry) in parsed {
            entries.remove(&name);
            entries.insert(name, entry, self.0.config.capacity);
        }
        Ok(count)
    }
}

fn micros(span: Span) -> u64 {
    span.as_nanos() / 1_000
}

fn word<T: Copy>(now: Time, learnt: Option<Learnt<T>>, numbers: impl Fn(T) -> Vec<u64>) -> String {
    let Some(learnt) = learnt else { return "-".to_owned() };
    let age = (now - learnt.at + learnt.age).as_millis();
    numbers(learnt.value).into_iter().fold(age.to_string(), |text, number| format!("{text},{number}"))
}

fn parse(now: Time, ago: Span, line: &str) -> Result<((IpAddr, String), Entry), LoadReason> {
    let mut words = line.split_ascii_whitespace();
    let address = words.next().and_then(|word| word.parse().ok()).ok_or(LoadReason::Address)?;
    let name = words.next().filter(|name| name.len() <= MAX_NAME).ok_or(LoadReason::Congestion)?;
    longhaul_cc::Congestion::from_str(name).map_err(|_| LoadReason::Congestion)?;
    let mut next = || words.next().ok_or(LoadReason::Numbers);
    let ssthresh = learnt((now, ago), next()?, |[bytes]| Bytes(bytes))?;
    let rtt = learnt((now, ago), next()?, |[srtt, rttvar]| Rtt { srtt: span(srtt), rttvar: span(rttvar) })?;
    let saved = learnt((now, ago), next()?, |[window, rate, rtt]| {
        SavedPath::new(Bytes(window), Rate::from_bytes_per_sec(rate), span(rtt))
    })?;
    let drops_ect = words.next().map_or(Ok(None), |word| learnt((now, ago), word, |[]: [u64; 0]| ()))?;
    if words.next().is_some() {
        return Err(LoadReason::Numbers);
    }
    if saved.is_some_and(|saved| !saved.value.is_possible()) {
        return Err(LoadReason::Impossible);
    }
    Ok((key(address, name), Entry { ssthresh, rtt, saved, drops_ect, turn: 0 }))
}

fn span(micros: u64) -> Span {
    Span::from_micros(micros.min(u64::MAX / 1_000))
}

fn learnt<T, const N: usize>(
    (now, ago): (Time, Span),
    word: &str,
    make: impl FnOnce([u64; N]) -> T,
) -> Result<Option<Learnt<T>>, LoadReason> {
    if word == "-" {
        return Ok(None);
    }
    let numbers: Result<Vec<u64>, _> = word.split(',').map(str::parse).collect();
    let numbers = numbers.map_err(|_| LoadReason::Numbers)?;
    let (age, rest) = numbers.split_first().ok_or(LoadReason::Numbers)?;
    let values = <[u64; N]>::try_from(rest).map_err(|_| LoadReason::Numbers)?;
    let age = Span::from_millis((*age).min(u64::MAX / 1_000_000));
    Ok(Some(Learnt { value: make(values), at: now, age: age + ago }))
}
