//! The `speed` command.

use std::thread;

use anyhow::{Result, bail};
use clap::Args;

use super::print;
use crate::speed::{self, Point};

#[derive(Debug, Args)]
pub(super) struct Speed {
    /// Approximate processor seconds per run.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Maximum number of processors; the default is all.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print one JSON object per measurement instead of a table.
    #[arg(long)]
    json: bool,
}

impl Speed {
    pub(super) fn execute(&self) -> Result<()> {
        if !(self.seconds > 0.0 && self.seconds <= 3600.0) {
            bail!("--seconds {} is not within 0 to 3600", self.seconds);
        }
        let most = self.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
        let points = speed::measure(self.seconds, most)?;
        if self.json {
            return points.iter().try_for_each(|point| print::out(&serde_json::to_string(point)?));
        }
        let cores: Vec<String> = (1..=most).map(|cores| format!("{cores} at a time |")).collect();
        print::out(&format!("| flows | Mb/s | {}", cores.join(" ")))?;
        print::out(&format!("|---:|---:|{}", "---:|".repeat(most)))?;
        for line in points.chunks(most) {
            let Some(Point { flows, mbps, .. }) = line.first() else { continue };
            let speeds: Vec<String> = line.iter().map(|point| format!("{} |", short(point.speed))).collect();
            print::out(&format!("| {flows} | {mbps} | {}", speeds.join(" ")))?;
        }
        Ok(())
    }
}

/// Formats a number with three significant digits.
fn short(speed: f64) -> String {
    match speed {
        speed if speed >= 100.0 => {
            let digits = 10_f64.powi(speed.log10().floor() as i32 - 2);
            format!("{:.0}", (speed / digits).round() * digits)
        }
        speed if speed >= 10.0 => format!("{speed:.1}"),
        speed => format!("{speed:.2}"),
    }
}
