//! Converts table definitions to tables that can be filled.

use std::collections::BTreeMap;

use super::Lookup;
use super::check::unique;
use crate::cell::Chosen;
use crate::definition::{self, Fault, Text, Texts};
use crate::expression::Expression;
use crate::table::{Column, STATISTICS, Table, is_statistic};

pub(super) fn read(known: Lookup<'_>) -> Result<Vec<Table>, Fault> {
    let tables = &known.definition.tables;
    unique(known.source, "tables.id", tables.iter().map(|table| &table.id))?;
    tables.iter().map(|table| known.table(table)).collect()
}

impl Lookup<'_> {
    fn table(self, table: &definition::Table) -> Result<Table, Fault> {
        let lines = self.axis(&table.lines, "tables.lines")?;
        let order = match &table.order[..] {
            [] => (0..self.definition.axes[lines].choices.len()).collect(),
            order => order.iter().map(|choice| self.place(lines, choice, "tables.order")).collect::<Result<_, _>>()?,
        };
        let read = Table {
            written: table.clone(),
            sort: self.expression(table.sort.as_ref(), "tables.sort")?,
            lines,
            order,
            across: table.across.as_ref().map(|axis| self.axis(axis, "tables.across")).transpose()?,
            at: self.chosen(&table.at, "tables.at")?,
            columns: table.columns.iter().map(|column| self.column(column)).collect::<Result<_, _>>()?,
        };
        read.check(self.definition).map_err(|what| self.source.fault(&table.id, "tables", what))?;
        Ok(read)
    }

    fn column(self, column: &definition::Column) -> Result<Column, Fault> {
        let definition::Column { value, text, safety, words, also, best, each, .. } = column;
        let contents = [value.is_some(), text.is_some(), safety.is_some(), !words.is_empty()];
        if contents.iter().filter(|has| **has).count() != 1 {
            let what = "a column needs either `value`, `text`, `safety` or `words`";
            return Err(self.source.fault(&column.head, "columns", what));
        }
        let axis = |name: &Option<Text>, field| name.as_ref().map(|name| self.axis(name, field)).transpose();
        let word = |word: &definition::Word| {
            let when = self.parsed(&word.when, "words.when")?;
            Ok((when, self.chosen(&word.at, "words.at")?))
        };
        Ok(Column {
            written: column.clone(),
            at: self.chosen(&column.at, "columns.at")?,
            value: self.expression(value.as_ref(), "columns.value")?,
            also: self.expression(also.as_ref(), "columns.also")?,
            best: axis(best, "columns.best")?,
            each: axis(each, "columns.each")?,
            words: words.iter().map(word).collect::<Result<_, _>>()?,
        })
    }

    fn expression(self, text: Option<&Text>, field: &str) -> Result<Option<Expression>, Fault> {
        text.map(|text| self.parsed(text, field)).transpose()
    }

    pub(super) fn parsed(self, text: &Text, field: &str) -> Result<Expression, Fault> {
        let wrong = |what: String| self.source.fault(text, field, what);
        let expression = Expression::parse(text.get_ref()).map_err(|error| wrong(error.to_string()))?;
        for call in expression.calls() {
            let (Some(metric), true) = (call.metric(), is_statistic(&call.name)) else {
                let known = STATISTICS.map(|name| format!("{name}(METRIC)")).join(", ") + ", p5(METRIC), p95(METRIC)";
                return Err(wrong(format!("{:?} is no statistic of a metric; there are: {known}", call.name)));
            };
            self.definition.metric(metric).map_err(wrong)?;
        }
        Ok(expression)
    }

    pub(super) fn chosen(self, at: &BTreeMap<String, Texts>, field: &str) -> Result<Chosen, Fault> {
        let choices = |(name, choices): (&String, &Texts)| {
            let wrong = |what| Fault::at(self.source.file, self.source.text, choices.span.clone(), field, what);
            let axis = self.definition.axis(name).map_err(wrong)?;
            let places = choices.each.iter().map(|choice| self.place(axis, choice, field));
            Ok((axis, places.collect::<Result<_, _>>()?))
        };
        at.iter().map(choices).collect()
    }
}
