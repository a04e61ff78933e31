//! One-line descriptions of scenarios.

use std::fmt;

use super::draw::{Aqm, Competition, Scenario};

impl fmt::Display for Scenario {
    /// Writes the properties that differ from a plain link: `24.1 Mb/s, 120 ms, queue 0.31 BDP, loss 0.02 %`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} Mb/s, {} ms", thousandth(self.rate), thousandth(self.rtt))?;
        // A queue of few packets is larger than drawn.
        let bdp = self.rate as f64 * self.rtt as f64 / 8_000.0;
        write!(out, ", queue {:.2} BDP", self.queue as f64 / bdp)?;
        // Queue management.
        match self.aqm {
            Aqm::DropTail => {}
            Aqm::CoDel => out.write_str(", CoDel")?,
            Aqm::Pie => out.write_str(", PIE")?,
            Aqm::Red => out.write_str(", RED")?,
        }
        if self.ecn {
            out.write_str(" with ECN")?;
        }
        // Impairments of data packets.
        if let Some(loss) = self.loss {
            write!(out, ", loss {} %", loss.ppm as f64 / 1e4)?;
            if let Some(burst) = loss.burst {
                write!(out, " in bursts of {burst}")?;
            }
        }
        if self.jitter > 0 {
            write!(out, ", jitter {} ms", thousandth(self.jitter))?;
        }
        if let Some(reordering) = self.reordering {
            let share = reordering.ppm as f64 / 1e4;
            write!(out, ", {share} % late by up to {} ms", thousandth(reordering.extra))?;
        }
        if let Some(policer) = self.policer {
            let kilobytes = thousandth(policer.burst);
            write!(out, ", policer {} Mb/s with {kilobytes} kB", thousandth(policer.rate))?;
        }
        // Changes over time.
        if let [step, ..] = self.steps[..] {
            let rates: Vec<String> = self.steps.iter().map(|step| thousandth(step.rate).to_string()).collect();
            write!(out, ", every {} s a step ({} Mb/s)", thousandth(step.at), rates.join(", "))?;
        }
        if let Some((_, silence)) = self.handovers.first() {
            write!(out, ", handovers of {silence} ms")?;
        }
        if let Some((at, length)) = self.outage {
            write!(out, ", outage of {} s at {} s", thousandth(length), thousandth(at))?;
        }
        // Competing flows and traffic.
        match self.competition {
            Competition::Alone => {}
            Competition::Own(count) => write!(out, ", {count} of its kind")?,
            Competition::Others { count, are_new_reno, are_first } => {
                let (name, order) =
                    (if are_new_reno { "NewReno" } else { "CUBIC" }, if are_first { "first" } else { "last" });
                write!(out, ", {count} {name} {order}")?;
            }
            Competition::Traffic(traffic) => {
                let kind = if traffic.is_poisson { "Poisson" } else { "constant" };
                write!(out, ", {} % {kind} traffic", traffic.percent)?;
            }
            Competition::Short(load) => write!(out, ", {load} % short flows")?,
        }
        // The return path.
        write!(out, ", back {} Mb/s", thousandth(self.back))?;
        if self.burst_interval > 0 {
            write!(out, " every {} ms", self.burst_interval)?;
        }
        Ok(())
    }
}

fn thousandth(value: u64) -> f64 {
    value as f64 / 1e3
}
