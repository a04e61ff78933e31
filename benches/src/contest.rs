//! Rivals take turns until each has enough runs on a machine that was otherwise idle.

use anyhow::Result;

use crate::meter::Usage;

/// A run is contended if the machine used more than this times what sender and receiver used themselves.
const CONTENDED: f64 = 1.2;
/// Turns of each rival, at most, as a multiple of the runs wanted.
const PATIENCE: usize = 2;

/// One transfer.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The sender's side; its wall time is the transfer's.
    pub tx: Usage,
    /// The receiver's side.
    pub rx: Usage,
}

impl Run {
    /// What the machine used, over what the two processes used: about 1 when nobody else was busy.
    #[must_use]
    pub fn foreign_ratio(&self) -> f64 {
        let own = self.tx.cpu_s + self.rx.cpu_s;
        // The machine's figure is good to one tick of 10 ms at either end.
        (self.tx.machine_s - 0.02).max(0.0) / own.max(f64::MIN_POSITIVE)
    }

    /// Whether others kept the machine busy.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.foreign_ratio() > CONTENDED
    }
}

/// All runs of one rival.
struct Entrant<R> {
    rival: R,
    runs: Vec<Run>,
}

impl<R> Entrant<R> {
    fn clean(&self) -> usize {
        self.runs.iter().filter(|run| !run.is_contended()).count()
    }

    /// Keeps the `wanted` runs with the least foreign work.
    fn choose(mut self, wanted: usize) -> Chosen<R> {
        self.runs.sort_by(|a, b| a.foreign_ratio().total_cmp(&b.foreign_ratio()));
        let dropped = self.runs.len().saturating_sub(wanted);
        self.runs.truncate(wanted);
        let contended = self.runs.iter().filter(|run| run.is_contended()).count();
        Chosen { rival: self.rival, runs: self.runs, contended, dropped }
    }
}

/// The runs of one rival that count.
#[derive(Clone, Debug)]
pub struct Chosen<R> {
    /// Who.
    pub rival: R,
    /// Its runs.
    pub runs: Vec<Run>,
    /// How many of `runs` were contended, for want of clean ones.
    pub contended: usize,
    /// How many others were thrown away.
    pub dropped: usize,
}

/// Lets every one of `rivals` run in turn until each has `wanted` clean runs, or had twice as many turns. The
/// order is rotated each round.
///
/// # Errors
/// The first of `run`.
pub fn hold<R: Copy>(rivals: &[R], wanted: usize, mut run: impl FnMut(R) -> Result<Run>) -> Result<Vec<Chosen<R>>> {
    let mut entrants: Vec<_> = rivals.iter().map(|&rival| Entrant { rival, runs: Vec::new() }).collect();
    for round in 0..wanted * PATIENCE {
        for turn in 0..entrants.len() {
            let index = (round + turn) % entrants.len();
            let entrant = &mut entrants[index];
            if entrant.clean() < wanted {
                entrant.runs.push(run(entrant.rival)?);
            }
        }
    }
    Ok(entrants.into_iter().map(|entrant| entrant.choose(wanted)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes that used 1 s together while the machine used `machine_s`.
    fn run(machine_s: f64) -> Run {
        let usage = Usage { seconds: 1.0, cpu_s: 0.5, machine_s };
        Run { tx: usage, rx: usage }
    }

    #[test]
    fn contended_runs_are_repeated_and_dropped() {
        let mut turns = Vec::new();
        let chosen = hold(&['a', 'b'], 2, |rival| {
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
        let chosen = hold(&['a'], 2, |_| {
            load -= 1.0;
            Ok(run(load))
        })
        .unwrap();
        assert_eq!((chosen[0].contended, chosen[0].dropped), (2, 2));
        assert!(chosen[0].runs.iter().all(|r| r.tx.machine_s <= 6.0));
    }
}
