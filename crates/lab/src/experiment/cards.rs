//! Checks the lines of the scorecard.

use super::Lookup;
use crate::card::{Bar, CONTROLLER, Card};
use crate::definition::{self, Fault, Text};

/// The value of a line that counts the rows that are not reproduced.
const MISSED: &str = "missed-rows";

pub(super) fn read(known: Lookup<'_>) -> Result<Vec<Card>, Fault> {
    known.definition.card.iter().map(|card| read_one(known, card)).collect()
}

fn read_one(known: Lookup<'_>, card: &definition::Card) -> Result<Card, Fault> {
    let Lookup { definition, source, .. } = known;
    let axis = |name: &Option<Text>, field| name.as_ref().map(|name| known.axis(name, field)).transpose();
    let bar = |text: &Text| Bar::parse(text.get_ref()).map_err(|what| source.fault(text, "card.bar", what));
    let read = Card {
        written: card.clone(),
        value: (card.value.get_ref() != MISSED).then(|| known.parsed(&card.value, "card.value")).transpose()?,
        at: known.chosen(&card.at, "card.at")?,
        controller: definition.axis(CONTROLLER).map_err(|what| source.fault(&card.title, "card", what))?,
        each: axis(&card.each, "card.each")?,
        count: axis(&card.count, "card.count")?,
        drawn: axis(&card.drawn, "card.drawn")?,
        bar: card.bar.as_ref().map(bar).transpose()?,
    };
    read.check(definition).map_err(|what| source.fault(&card.title, "card", what))?;
    Ok(read)
}
