//! No classification: every loss counts as congestion, as in RFC 5681.

use crate::Path;
use crate::compose::{Loss, LossClassifier, Stage, Verdict};
use crate::describe::{Entry, Make, Safety, Slot};

/// Registry entry.
pub(crate) static ENTRY: Entry = Entry {
    name: "none",
    slot: Slot::Loss,
    summary: "every loss is congestion",
    reference: "RFC 5681",
    options: &[],
    tested: &["cubic", "new-reno"],
    safety: Safety::Shared,
    make: Make::Loss(|_| Box::new(AllCongestion)),
};

/// Classifier that takes every loss for congestion.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllCongestion;

impl Stage for AllCongestion {
    fn phase(&self) -> &'static str {
        "classification"
    }
}

impl LossClassifier for AllCongestion {
    fn classify(&mut self, _loss: &Loss<'_>, _path: &Path) -> Verdict {
        Verdict::CONGESTION
    }
}
