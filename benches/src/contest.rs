//! Runs transports in turn until each has enough runs during which the machine was otherwise idle.

use anyhow::Result;

use crate::meter::Usage;

/// Ratio of the CPU time of the whole machine to that of sender and receiver above which a run is contended.
pub const CONTENDED: f64 = 1.2;
/// Maximum number of turns per rival, as a multiple of the requested runs.
const PATIENCE: usize = 2;

/// Resource usage of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The sender's usage. Its wall time is that of the transfer.
    pub tx: Usage,
    /// The receiver's usage.
    pub rx: Usage,
}

impl Run {
    /// Returns the ratio of the CPU time of the whole machine to that of the two processes: about 1 if no other process
    /// ran.
    #[must_use]
    pub fn foreign_ratio(&self) -> f64 {
        let own = self.tx.cpu_s + self.rx.cpu_s;
        // The CPU time of the machine has an error of one tick (10 ms) at the start and at the end.
        (self.tx.machine_s - 0.02).max(0.0) / own.max(f64::MIN_POSITIVE)
    }
}

struct Entrant<R> {
    rival: R,
    runs: Vec<Run>,
}

fn count(runs: &[Run], is: impl Fn(&Run) -> bool) -> usize {
    runs.iter().filter(|run| is(run)).count()
}

impl<R> Entrant<R> {
    /// Keeps the `wanted` runs with the lowest usage by other processes.
    fn choose(mut self, wanted: usize, limit: f64) -> Chosen<R> {
        self.runs.sort_by(|a, b| a.foreign_ratio().total_cmp(&b.foreign_ratio()));
        let dropped = self.runs.len().saturating_sub(wanted);
        self.runs.truncate(wanted);
        let contended = count(&self.runs, |run| run.foreign_ratio() > limit);
        Chosen { rival: self.rival, runs: self.runs, contended, dropped }
    }
}

/// Runs of a rival that count in the results.
#[derive(Clone, Debug)]
pub struct Chosen<R> {
    /// Transport that was measured.
    pub rival: R,
    /// Resource usage of each run.
    pub runs: Vec<Run>,
    /// Number of contended runs in `runs`, which count because there were too few others.
    pub contended: usize,
    /// Number of discarded runs.
    pub dropped: usize,
}

/// Runs all rivals in turn until each has `wanted` runs that were not contended, or has had twice as many turns. The
/// order is rotated after each round. A run is contended if its [`foreign_ratio`](Run::foreign_ratio) is above `limit`.
///
/// # Errors
/// Returns the first error of `run`.
pub fn hold<R: Copy>(
    rivals: &[R],
    wanted: usize,
    limit: f64,
    mut run: impl FnMut(R) -> Result<Run>,
) -> Result<Vec<Chosen<R>>> {
    let mut entrants: Vec<_> = rivals.iter().map(|&rival| Entrant { rival, runs: Vec::new() }).collect();
    for round in 0..wanted * PATIENCE {
        for turn in 0..entrants.len() {
            let index = (round + turn) % entrants.len();
            let entrant = &mut entrants[index];
            if count(&entrant.runs, |run| run.foreign_ratio() <= limit) < wanted {
                entrant.runs.push(run(entrant.rival)?);
            }
        }
    }
    Ok(entrants.into_iter().map(|entrant| entrant.choose(wanted, limit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a run in which both processes used 1 s in total, and the machine `machine_s`.
    fn run(machine_s: f64) -> Run {
        let usage = Usage { seconds: 1.0, cpu_s: 0.5, machine_s };
        Run { tx: usage, rx: usage }
    }

    #[test]
    fn contended_runs_are_repeated_and_dropped() {
        let mut turns = Vec::new();
        let chosen = hold(&['a', 'b'], 2, CONTENDED, |rival| {
            turns.push(rival);
            Ok(run(if turns.len() == 1 { 2.0 } else { 1.0 }))
        })
        .unwrap();
        assert_eq!(turns, ['a', 'b', 'b', 'a', 'a']);
        assert!(chosen.iter().all(|c| c.runs.len() == 2 && c.contended == 0));
        assert_eq!((chosen[0].dropped, chosen[1].dropped), (1, 0));
    }

    #[test]
    fn on_a_busy_machine_the_least_contended_runs_count() {
        let mut load = 9.0;
        let chosen = hold(&['a'], 2, CONTENDED, |_| {
            load -= 1.0;
            Ok(run(load))
        })
        .unwrap();
        assert_eq!((chosen[0].contended, chosen[0].dropped), (2, 2));
        assert!(chosen[0].runs.iter().all(|r| r.tx.machine_s <= 6.0));
    }
}
