//! Tables of metrics, for documents.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Setting, Text, Texts};

/// A table of Markdown. Its texts may contain variables of the axes on which there is one choice: `{controller}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// Identifier that documents refer to.
    pub id: Text,
    /// Heading. The default is the identifier.
    pub title: Option<String>,
    /// Whether `run` and `report` print the table, and the page contains it.
    #[serde(default)]
    pub shown: bool,
    /// The axis with one line per choice.
    pub lines: Text,
    /// The choices on that axis, in order. The default is all choices.
    #[serde(default)]
    pub order: Vec<Text>,
    /// Expression over statistics of metrics, by which lines are sorted in ascending order. Lines without a value are
    /// last.
    pub sort: Option<Text>,
    /// Number of lines to keep, after sorting.
    pub keep: Option<usize>,
    /// The first cell of each line. The default is the choice.
    pub label: Option<Text>,
    /// An axis for each choice of which the columns are repeated.
    pub across: Option<Text>,
    /// The choices on other axes. Axes that are not named are pooled: a statistic covers the runs of all choices.
    #[serde(default)]
    pub at: BTreeMap<String, Texts>,
    /// The columns after the first. A column that repeats an earlier one is left out.
    pub columns: Vec<Column>,
}

/// A column. Its cells have a `value`, a `text`, the `best` value, or `words`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Column {
    /// The head.
    pub head: Text,
    /// Choices in addition to those of the table, in place of a line's choice as well.
    #[serde(default)]
    pub at: BTreeMap<String, Texts>,
    /// Expression over statistics of metrics: `median(time)`, `sum(lost) / sum(sent)`.
    pub value: Option<Text>,
    /// Number of decimals of `value`.
    pub digits: Option<Setting>,
    /// What stands in place of a median that is infinite, because most of its runs have no value.
    pub never: Option<String>,
    /// Another expression, which is appended in parentheses unless it is rounded to 0.
    pub also: Option<Text>,
    /// Number of decimals of `also`. The default is 1.
    pub also_digits: Option<Setting>,
    /// A text.
    pub text: Option<Text>,
    /// A congestion controller. The cell has its safety mark in the registry.
    pub safety: Option<Text>,
    /// The axis among whose choices the best `value` is searched. The cell has the value and the choice.
    pub best: Option<Text>,
    /// Whether the best value is the `most` or the `least`.
    pub better: Option<Text>,
    /// Words with conditions. The cell has the first word whose condition holds.
    #[serde(default)]
    pub words: Vec<Word>,
    /// The word if no condition holds.
    pub otherwise: Option<String>,
    /// An axis for each choice of which a word is chosen. The cell has all words that differ from `otherwise`, or
    /// `otherwise`.
    pub each: Option<Text>,
}

/// A word and the condition under which it is chosen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Word {
    /// The word.
    pub word: String,
    /// Expression whose value is not 0, as that of a comparison that holds.
    pub when: Text,
    /// Choices for this expression, in addition to those of the column.
    #[serde(default)]
    pub at: BTreeMap<String, Texts>,
}
