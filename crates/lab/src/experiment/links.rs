//! The shared links, and the links that each flow crosses.

use std::ops::Range;

use longhaul_link::topology::Duplex;

use super::prepare::Filling;
use crate::definition::{Fault, Setting, Texts};

/// Maximum number of links in a row.
const MOST_LINKS: usize = 16;

impl Filling<'_> {
    pub(super) fn links(self, links: &Texts) -> Result<Vec<Duplex>, Fault> {
        let number = links.each.len();
        if number == 0 || number > MOST_LINKS {
            let what = format!("{number} links are not within 1 to {MOST_LINKS}");
            return Err(self.fault_at(links.span.clone(), "bottleneck", what));
        }
        links.each.iter().map(|link| self.link(link, "bottleneck")).collect()
    }

    /// Returns the indices of the links that the text gives, counted from 1 in the text, or all links without a text.
    pub(super) fn hops(self, hops: &Option<Setting>, field: &str, links: usize) -> Result<Range<usize>, Fault> {
        hops.as_ref().map_or(Ok(0..links), |Setting(text)| self.read(text, field, |text| places(text, links)))
    }
}

fn places(text: &str, links: usize) -> Result<Range<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
        return Err(format!("{text:?} is not a link or range of links; write it as 2 or 1-3"));
    };
    if first == 0 || first > last || last > links {
        return Err(format!("{text:?} is not within the {links} links of the bottleneck, which are numbered from 1"));
    }
    Ok(first - 1..last)
}
