//! What a lie gains.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use longhaul_cc::registry;

use crate::world::{Honest, Lie, Outcome, Path};

/// What a liar may get of what an honest peer does.
const FAIR: f64 = 1.05;
/// Standard errors that a ratio may be off by: of hundreds of comparisons of few runs each, some are by more than two.
const CHANCES: f64 = 3.0;
/// The largest standard error of a ratio with which a verdict means anything, unless the lie gains nothing by far.
const PRECISE: f64 = 0.015;
/// The same beside another flow, where chance is larger: half of it takes four times as many runs.
const PRECISE_BESIDE: f64 = 0.03;
/// So many runs are enough to get there.
const MOST: u64 = 64;
/// How much more of what is sent may be a retransmission.
const RESENT: f64 = 0.05;
/// How many more decreases may be taken back in a run: without SACK a timeout may look needless by chance.
const UNDONE: f64 = 1.0;

/// All profiles but those that routers instruct: what is to be gained there, nobody lies for (`router_controllers.rs`).
pub(crate) fn controllers() -> impl Iterator<Item = &'static str> {
    registry::built_in().profiles.iter().map(|profile| profile.name).filter(|name| !["rcp", "xcp"].contains(name))
}

/// A lie's name, and the lie.
pub(crate) type Named = (&'static str, fn() -> Box<dyn Lie>);

/// The truth.
pub(crate) const HONEST: Named = ("honest", || Box::new(Honest));

/// Peers on the same paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    /// The path.
    pub(crate) path: Path,
    /// Runs of each, by seeds that all have.
    pub(crate) seeds: u64,
}

impl Contest {
    /// Under every controller no lie gains more than it may, and none fills the path with retransmissions. Where there is
    /// chance, `CHANCES` standard errors of the ratio are its part.
    pub(crate) fn judge(&self, lies: &[Named]) {
        self.judge_under(controllers(), HONEST, lies);
    }

    /// The same under some controllers, compared to what `truth` gets.
    pub(crate) fn judge_under<'a>(&self, names: impl IntoIterator<Item = &'a str>, truth: Named, lies: &[Named]) {
        self.judge_by(self.path, names, truth, lies);
    }

    /// The same, compared to what `truth` gets on another path.
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

    /// What is wrong with `lie` under controller `name`. Where chance is too large for a verdict there are more runs.
    fn fault(&self, name: &str, lie: Named, path: Path, truth: Named) -> Option<String> {
        let (mut lies, mut truths) = (*self, Self { path, ..*self });
        loop {
            let (liar, honest) = (lies.outcomes(name, lie), truths.outcomes(name, truth));
            let (ratio, chance) = ratio(&liar, &honest);
            // Of what the honest peer's sender sends: a liar that gets little may have much of that twice.
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
                // The standard error of few runs is itself by chance: who gains does so in all of them.
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

    /// A run for each seed. Many lies are held against the same truth, whose runs are kept.
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

/// The ratio of two goodputs and its standard error, as that of a ratio estimator (Cochran, Sampling techniques, 1977,
/// section 6.4): runs of one seed lose the same packets until a lie has an effect.
fn ratio(liar: &[Outcome], truth: &[Outcome]) -> (f64, f64) {
    let count = truth.len() as f64;
    let ratio = mean(liar, |o| o.goodput) / mean(truth, |o| o.goodput);
    let squares: f64 = liar.iter().zip(truth).map(|(l, t)| (l.goodput - ratio * t.goodput).powi(2)).sum();
    (ratio, (squares / (count * (count - 1.0).max(1.0))).sqrt() / mean(truth, |o| o.goodput))
}

/// The mean of something over runs.
pub(crate) fn mean(outcomes: &[Outcome], of: fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64
}
