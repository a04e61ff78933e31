//! No classification: every loss counts as congestion, as in RFC 5681.

use crate::Path;
use crate::compose::{LossCause, LossClassifier, LossEvent, Stage};
use crate::describe::{Entry, Make, Safety};

/// Registry entry.
pub(crate) static ENTRY: Entry = Entry {
    name: "none",
    summary: "treats every loss as congestion",
    reference: "RFC 5681",
    options: &[],
    tested: &["cubic", "new-reno"],
    safety: Safety::Internet,
    make: Make::Loss(|_| Box::new(AllCongestion)),
};

/// Classifier that takes every loss for congestion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllCongestion;

impl Stage for AllCongestion {
    fn phase(&self) -> &'static str {
        "classification"
    }
}

impl LossClassifier for AllCongestion {
    fn classify(&mut self, _loss: &LossEvent<'_>, _path: &Path) -> LossCause {
        LossCause::CONGESTION
    }
}
