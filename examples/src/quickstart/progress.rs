//! Progress of several transfers, on one line.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval between updates of a terminal's line, and between lines elsewhere.
const INTERVALS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// What has arrived of one transfer.
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
}

/// Shows the progress on standard error until dropped.
pub async fn show_progress(all: Vec<Progress>) {
    let is_terminal = std::io::stderr().is_terminal();
    let [terminal, other] = INTERVALS;
    let mut ticks = tokio::time::interval(if is_terminal { terminal } else { other });
    loop {
        ticks.tick().await;
        let (before, after) = if is_terminal { ("\r", "") } else { ("", "\n") };
        // Without standard error, there is nobody to tell.
        let _ = write!(std::io::stderr(), "{before}{}{after}", line(&all));
        if is_terminal && all.iter().all(|one| one.percent() == 100) {
            let _ = writeln!(std::io::stderr());
            return;
        }
    }
}

fn line(all: &[Progress]) -> String {
    all.iter().map(|one| format!("{} {:3} %", one.name, one.percent())).collect::<Vec<_>>().join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_percentage_that_has_arrived() {
        let of = |name: &str, received| Progress::new(name.into(), 1000, Arc::new(AtomicU64::new(received)));
        assert_eq!(line(&[of("cubic", 0), of("bbr", 999), of("copa", 1000)]), "cubic   0 %   bbr  99 %   copa 100 %");
    }
}
