//! No classification: every loss counts as congestion, as in RFC 5681.

use crate::Path;
use crate::compose::{LossCause, LossClassifier, LossEvent, Stage};
use crate::describe::Entry;

pub(crate) static ENTRY: Entry = Entry::loss("none", |_| Box::new(AllCongestion))
    .described("treats every loss as congestion", "RFC 5681")
    .tested_in(&["cubic", "new-reno"])
    .internet_safe();

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllCongestion;

impl Stage for AllCongestion {}

impl LossClassifier for AllCongestion {
    fn classify(&mut self, _loss: &LossEvent<'_>, _path: &Path) -> LossCause {
        LossCause::CONGESTION
    }
}
