//! Comparison of lying and honest receivers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use longhaul_link::statistics;
use longhaul_tests_papers::long;

use crate::liars::world::{Honest, Lie, Outcome, Path};

/// Maximum goodput of a liar relative to an honest peer.
const FAIR: f64 = 1.05;
/// Number of tolerated standard errors of a ratio. Among hundreds of comparisons with few runs each, some deviate by
/// more than two.
const CHANCES: f64 = 3.0;
/// Maximum standard error of a ratio for a valid verdict, unless the ratio is clearly below [`FAIR`].
const PRECISE: f64 = 0.015;
/// Maximum standard error with a competing flow, where random variation is larger: half this value would take four
/// times as many runs.
const PRECISE_BESIDE: f64 = 0.03;
/// Maximum number of runs, which suffices to reach the required precision.
const MOST: u64 = 64;
/// Maximum increase of the fraction of retransmitted data.
const RESENT: f64 = 0.05;
/// Maximum increase of the number of undone reductions per run. Without SACK, a timeout may look spurious at random.
const UNDONE: f64 = 1.0;

/// Profiles with different reactions to ACKs, losses and marks, which are tested without `LONGHAUL_LONG`.
const FEW: [&str; 7] = ["copa-cubic", "cubic", "reno-classic", "bbr", "vegas", "udt", "westwood-bbe"];

/// Returns the profiles to test: [`FEW`], or all with `LONGHAUL_LONG`.
pub(crate) fn controllers() -> impl Iterator<Item = &'static str> {
    all_controllers().filter(|name| long() || FEW.contains(name))
}

/// Returns all profiles except the router-assisted ones, whose feedback a receiver cannot forge
/// (`router_controllers.rs`).
pub(crate) fn all_controllers() -> impl Iterator<Item = &'static str> {
    longhaul_tests_papers::registry()
        .profiles
        .iter()
        .map(|profile| profile.name)
        .filter(|name| !["rcp", "xcp"].contains(name))
}

/// Name of a lie, and a function that creates a receiver that tells it.
pub(crate) type Named = (&'static str, fn() -> Box<dyn Lie>);

pub(crate) const HONEST: Named = ("honest", || Box::new(Honest));

/// Comparison of receivers on the same path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    /// Path of all runs.
    pub(crate) path: Path,
    /// Number of runs with each receiver, with the same seeds.
    pub(crate) seeds: u64,
}

impl Contest {
    /// Checks that no lie gains more than [`FAIR`] under any controller, or floods the path with retransmissions.
    /// Random variation of [`CHANCES`] standard errors is tolerated.
    pub(crate) fn judge(&self, lies: &[Named]) {
        self.judge_under(controllers(), HONEST, lies);
    }

    /// Checks the controllers `names`, compared with the results of the receiver `truth`.
    pub(crate) fn judge_under<'a>(&self, names: impl IntoIterator<Item = &'a str>, truth: Named, lies: &[Named]) {
        self.judge_by(self.path, names, truth, lies);
    }

    /// Checks the controllers `names`, compared with the results of the receiver `truth` on another path.
    pub(crate) fn judge_by<'a>(
        &self,
        path: Path,
        names: impl IntoIterator<Item = &'a str>,
        truth: Named,
        lies: &[Named],
    ) {
        let faults = |name| lies.iter().filter_map(move |lie| self.fault(name, *lie, path, truth));
        let faults: Vec<String> = names.into_iter().flat_map(faults).collect();
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    }

    /// Describes the gain of `lie` under controller `name` if it is too large. If random variation is too large for a
    /// verdict, more runs are made.
    fn fault(&self, name: &str, lie: Named, path: Path, truth: Named) -> Option<String> {
        let (mut lies, mut truths) = (*self, Self { path, ..*self });
        loop {
            let (liar, honest) = (lies.outcomes(name, lie), truths.outcomes(name, truth));
            let (ratio, chance) = ratio(&liar, &honest);
            // The fraction is relative to the data sent to the honest receiver, because a liar with little goodput may
            // have many retransmissions.
            let resent = mean(&liar, |o| o.resent) * ratio.min(1.0) - mean(&honest, |o| o.resent);
            let undone = mean(&liar, |o| o.undone as f64) - mean(&honest, |o| o.undone as f64);
            let told = || {
                let (lie, honest, seeds) = (lie.0, mean(&honest, |o| o.goodput), lies.seeds);
                format!(
                    "{name}, {lie}: x{ratio:.3} of {honest:.2} Mb/s (chance {chance:.3} of {seeds} runs), {resent:+.4} resent, {undone:+.1} undone"
                )
            };
            let precise = if path.beside.is_some() { PRECISE_BESIDE } else { PRECISE };
            if chance <= precise || ratio + CHANCES * chance <= FAIR {
                let gains = ratio > FAIR + CHANCES * chance || resent > RESENT || undone > UNDONE;
                // The standard error of few runs is itself random, so a gain must persist with the maximum number of
                // runs.
                if !gains || lies.seeds >= MOST || path.beside.is_none() {
                    return gains.then(told);
                }
            }
            if lies.seeds >= MOST {
                return Some(format!("not regular enough: {}", told()));
            }
            (lies.seeds, truths.seeds) = (lies.seeds * 2, lies.seeds * 2);
        }
    }

    /// Makes one run per seed. Runs of the honest peer are cached, because many lies are compared with them.
    pub(crate) fn outcomes(&self, name: &str, (lie, tell): Named) -> Vec<Outcome> {
        static KEPT: Mutex<Option<HashMap<String, Outcome>>> = Mutex::new(None);
        let run = |seed| {
            let key = format!("{lie} {name} {seed} {:?}", self.path);
            let lock = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = lock().get_or_insert_default().get(&key).copied();
            kept.unwrap_or_else(|| {
                let outcome = self.path.run(name, seed, tell());
                lock().get_or_insert_default().insert(key, outcome);
                outcome
            })
        };
        (1..=self.seeds).map(run).collect()
    }
}

/// Returns the ratio of two goodputs and its standard error by a ratio estimator (Cochran, Sampling techniques, 1977,
/// section 6.4): runs with the same seed lose the same packets until a lie has an effect.
fn ratio(liar: &[Outcome], truth: &[Outcome]) -> (f64, f64) {
    let count = truth.len() as f64;
    let ratio = mean(liar, |o| o.goodput) / mean(truth, |o| o.goodput);
    let squares: f64 = liar.iter().zip(truth).map(|(l, t)| (l.goodput - ratio * t.goodput).powi(2)).sum();
    (ratio, (squares / (count * (count - 1.0).max(1.0))).sqrt() / mean(truth, |o| o.goodput))
}

pub(crate) fn mean(outcomes: &[Outcome], of: fn(&Outcome) -> f64) -> f64 {
    statistics::mean(&outcomes.iter().map(of).collect::<Vec<_>>()).unwrap()
}
