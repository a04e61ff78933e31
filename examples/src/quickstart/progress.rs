//! Progress of several transfers, on one line.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval between updates of the line on a terminal, and between lines if standard error is no terminal.
const INTERVALS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// Counters of one transfer, from which its progress is shown.
#[derive(Debug)]
pub struct Progress {
    name: String,
    size: u64,
    received: Arc<AtomicU64>,
}

impl Progress {
    pub(super) fn new(name: String, size: u64, received: Arc<AtomicU64>) -> Self {
        Self { name, size, received }
    }

    fn percent(&self) -> u64 {
        100 * self.received.load(Ordering::Relaxed) / self.size.max(1)
    }

    /// Estimates the seconds until all data has arrived, from the mean rate over the `elapsed` time.
    fn left(&self, elapsed: Duration) -> Option<u64> {
        let received = self.received.load(Ordering::Relaxed).min(self.size);
        let left = elapsed.as_secs_f64() * (self.size - received) as f64 / received as f64;
        (received > 0 && received < self.size).then_some(left.ceil() as u64)
    }
}

/// Shows the progress on standard error until dropped.
pub async fn show_progress(all: Vec<Progress>) {
    let is_terminal = std::io::stderr().is_terminal();
    let [terminal, other] = INTERVALS;
    let mut ticks = tokio::time::interval(if is_terminal { terminal } else { other });
    let mut began = None;
    loop {
        let now = ticks.tick().await;
        let line = line(&all, now - *began.get_or_insert(now));
        // Errors of standard error cannot be reported anywhere. On a terminal, spaces overwrite the end of a longer
        // line.
        let _ =
            if is_terminal { write!(std::io::stderr(), "\r{line:<79}") } else { writeln!(std::io::stderr(), "{line}") };
        if is_terminal && all.iter().all(|one| one.percent() == 100) {
            let _ = writeln!(std::io::stderr());
            return;
        }
    }
}

fn line(all: &[Progress], elapsed: Duration) -> String {
    let part = |one: &Progress| {
        let left = one.left(elapsed).map_or_else(String::new, |seconds| format!(", {seconds} s left"));
        format!("{} {:3} %{left}", one.name, one.percent())
    };
    all.iter().map(part).collect::<Vec<_>>().join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the data arrived in 4 s, so that the rest takes another 4 s. If a tenth arrived, the rest takes 36 s.
    #[test]
    fn the_line_has_the_percentage_that_has_arrived_and_the_time_left() {
        let of = |name: &str, received| Progress::new(name.into(), 1000, Arc::new(AtomicU64::new(received)));
        let all = [of("cubic", 0), of("bbr", 500), of("abse", 100), of("hybla", 999), of("copa", 1000)];
        assert_eq!(
            line(&all, Duration::from_secs(4)),
            "cubic   0 %   bbr  50 %, 4 s left   abse  10 %, 36 s left   hybla  99 %, 1 s left   copa 100 %"
        );
    }
}
