//! Sequences of delays, losses and bunched ACKs, and their budget.

use std::{fmt, iter};

use anyhow::{Result, bail};

use super::{DURATION, RTT};

/// Maximum number of steps of a sequence.
pub(super) const MOST_STEPS: usize = 40;
/// Unit of a step's duration: half of the round-trip propagation time.
const UNIT: u64 = RTT / 2;
/// Maximum loss of a step, relative to the maximum mean loss.
const BURST: u64 = 5;
/// Half of a run in units. No step lasts longer.
pub(super) const HALF: usize = (DURATION * 1_000 / 2 / UNIT) as usize;

/// Limits of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Maximum extra delay of a round trip in microseconds.
    pub(super) delay: u64,
    /// Maximum mean loss of data packets over each half of a run, in hundredths of a percent.
    pub(super) loss: u64,
}

impl Budget {
    /// Returns the maximum loss of a step.
    pub(super) fn burst(self) -> u64 {
        (BURST * self.loss).min(10_000)
    }

    /// Creates a budget from a part of the round-trip propagation time, and a loss in percent.
    pub(super) fn new(delay: f64, loss: f64) -> Result<Self> {
        if !(0.0..=10.0).contains(&delay) {
            bail!("--delay {delay} is not within 0 to 10 round trips");
        }
        if !(0.0..=100.0).contains(&loss) {
            bail!("--loss {loss} is not within 0 to 100 %");
        }
        Ok(Self { delay: (delay * RTT as f64) as u64, loss: (loss * 100.0) as u64 })
    }
}

/// Behaviour of the path for some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Duration in [`UNIT`]s.
    pub(super) lasts: u64,
    /// Extra delay of data, extra delay of ACKs, and interval at which ACKs arrive, in microseconds.
    pub(super) delays: [u64; 3],
    /// Loss of data packets in hundredths of a percent.
    pub(super) loss: u64,
}

/// Steps that repeat until the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence(pub(super) Vec<Step>);

impl Sequence {
    /// Reduces delays and losses that exceed the budget.
    pub(super) fn fit(mut self, budget: Budget) -> Self {
        self.0.truncate(MOST_STEPS);
        for step in &mut self.0 {
            step.lasts = step.lasts.clamp(1, HALF as u64);
            step.loss = step.loss.min(budget.burst());
            let sum: u64 = step.delays.iter().sum();
            if sum > budget.delay {
                step.delays = step.delays.map(|delay| delay * budget.delay / sum);
            }
        }
        // Losses are relative to the time, as if the victim sent at a constant rate.
        let lost = self.lost();
        let most = budget.loss * HALF as u64;
        if lost > most {
            self.0.iter_mut().for_each(|step| step.loss = step.loss * most / lost);
        }
        self
    }

    /// Returns the larger sum of the losses of all units in a half of a run.
    pub(super) fn lost(&self) -> u64 {
        let once = || self.0.iter().flat_map(|step| iter::repeat_n(step.loss, step.lasts as usize));
        let run: Vec<u64> = iter::repeat_with(once).take(2 * HALF).flatten().take(2 * HALF).collect();
        run.chunks(HALF).map(|half| half.iter().sum()).max().unwrap_or_default()
    }

    /// Returns the phases of a direction: durations, and the text for the rest of a phase.
    fn phases(&self, rest: impl Fn(&Step) -> String) -> Vec<(u64, String)> {
        let mut phases: Vec<(u64, String)> = Vec::new();
        for step in &self.0 {
            match (phases.last_mut(), rest(step)) {
                (Some((lasts, last)), rest) if *last == rest => *lasts += step.lasts,
                (_, rest) => phases.push((step.lasts, rest)),
            }
        }
        phases
    }
}

/// Writes the options of the victim's access link at the receiver, where the down direction is that of the data.
impl fmt::Display for Sequence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let down = self.phases(|step| match (step.delays[0], step.loss) {
            (delay, 0) => format!("{delay}us"),
            (delay, loss) => format!("{delay}us,{}%", loss as f64 / 100.0),
        });
        let up = self.phases(|step| match step.delays {
            [_, delay, 0] => format!("{delay}us"),
            [_, delay, interval] => format!("{delay}us,0%,{interval}us"),
        });
        let written = |phases: Vec<(u64, String)>| {
            let phase = |(lasts, rest): (u64, String)| format!("{}ms,{rest}", lasts * UNIT / 1_000);
            phases.into_iter().map(phase).collect::<Vec<_>>().join("/")
        };
        out.write_str("--delay 0ms")?;
        for (name, phases) in [("down", down), ("up", up)] {
            if phases.iter().any(|(_, rest)| rest != "0us") {
                write!(out, " --cycle-{name} {}", written(phases))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use longhaul_link::Phase;
    use longhaul_link::spec::LinkOptions;
    use longhaul_units::Span;

    use super::*;

    #[test]
    fn the_text_of_a_sequence_is_its_link() {
        let step = |lasts, delays, loss| Step { lasts, delays, loss };
        let sequence = Sequence(vec![step(2, [0; 3], 0), step(3, [1_500, 7, 0], 123), step(1, [1_500, 7, 250], 123)]);
        let text = sequence.to_string();
        let words: Vec<&str> = text.split(' ').collect();
        let mut options = LinkOptions::new();
        assert_eq!(options.read(&words), Ok(words.len()));
        let link = options.build(|_| Err(String::new())).unwrap().link;
        let phase = |millis, micros, loss, interval| Phase {
            lasts: Span::from_millis(millis),
            delay: Span::from_micros(micros),
            loss,
            interval: Span::from_micros(interval),
        };
        assert_eq!(link.back.cycle, [phase(40, 0, 0.0, 0), phase(80, 1_500, 0.0123, 0)]);
        assert_eq!(link.there.cycle, [phase(40, 0, 0.0, 0), phase(60, 7, 0.0, 0), phase(20, 7, 0.0, 250)]);
        assert_eq!(Sequence::default().to_string(), "--delay 0ms");
    }

    #[test]
    fn budgets_have_limits() {
        assert_eq!(Budget::new(0.25, 1.5).unwrap(), Budget { delay: 10_000, loss: 150 });
        for (delay, loss, told) in [(-0.1, 0.0, "--delay -0.1"), (f64::NAN, 0.0, "--delay"), (0.5, 101.0, "--loss 101")]
        {
            assert!(Budget::new(delay, loss).unwrap_err().to_string().starts_with(told));
        }
    }
}
