//! Converts table definitions to tables that can be filled.

use std::collections::BTreeMap;

use super::Source;
use super::check::unique;
use crate::definition::{self, Definition, Fault, Text, Texts};
use crate::expression::Expression;
use crate::table::{Chosen, Column, Content, STATISTICS, Table, Value, Word, is_statistic};

pub(super) fn read(definition: &Definition, source: Source<'_>) -> Result<Vec<Table>, Fault> {
    unique(source, "tables.id", definition.tables.iter().map(|table| &table.id))?;
    definition.tables.iter().map(|table| Reading { definition, source }.table(table)).collect()
}

#[derive(Clone, Copy)]
struct Reading<'a> {
    definition: &'a Definition,
    source: Source<'a>,
}

impl Reading<'_> {
    fn table(self, table: &definition::Table) -> Result<Table, Fault> {
        let lines = self.axis(&table.lines, "tables.lines")?;
        let all = || (0..self.definition.axes[lines].choices.len()).collect();
        let order = table.order.iter().map(|choice| self.place(lines, choice, "tables.order"));
        let order = order.collect::<Result<Vec<_>, _>>()?;
        let across = table.across.as_ref().map(|axis| self.axis(axis, "tables.across")).transpose()?;
        let columns = table.columns.iter().map(|column| self.column(column)).collect::<Result<Vec<_>, _>>()?;
        let read = Table {
            id: table.id.get_ref().clone(),
            title: table.title.clone().unwrap_or_else(|| table.id.get_ref().clone()),
            is_shown: table.shown,
            sort: table.sort.as_ref().map(|sort| self.expression(sort, "tables.sort")).transpose()?,
            keep: table.keep.unwrap_or(usize::MAX),
            lines,
            order: if order.is_empty() { all() } else { order },
            label: match &table.label {
                Some(label) => label.get_ref().clone(),
                None => format!("{{{}}}", table.lines.get_ref()),
            },
            across,
            at: self.chosen(&table.at, "tables.at")?,
            columns,
        };
        read.check(self.definition).map_err(|what| self.source.fault(&table.id, "tables", what))?;
        Ok(read)
    }

    fn column(self, column: &definition::Column) -> Result<Column, Fault> {
        let content = match (&column.value, &column.text, &column.safety, column.words.first()) {
            (Some(value), None, None, None) => self.measured(column, value)?,
            (None, Some(text), None, None) => Content::Text(text.get_ref().clone()),
            (None, None, Some(controller), None) => Content::Safety(controller.get_ref().clone()),
            (None, None, None, Some(_)) => self.words(column)?,
            _ => {
                let what = "a column needs either `value`, `text`, `safety` or `words`";
                return Err(self.source.fault(&column.head, "columns", what));
            }
        };
        Ok(Column { head: column.head.get_ref().clone(), at: self.chosen(&column.at, "columns.at")?, content })
    }

    fn measured(self, column: &definition::Column, value: &Text) -> Result<Content, Fault> {
        let digits = |digits: &Option<definition::Setting>| {
            digits.as_ref().map_or_else(|| "1".to_owned(), |definition::Setting(text)| text.get_ref().clone())
        };
        let also = column.also.as_ref().map(|also| self.expression(also, "columns.also")).transpose()?;
        let value = Value {
            value: self.expression(value, "columns.value")?,
            digits: digits(&column.digits),
            never: column.never.clone(),
            also: also.map(|also| (also, digits(&column.also_digits))),
        };
        let Some(over) = &column.best else { return Ok(Content::Value(value)) };
        let better = column.better.as_ref().map_or_else(|| "most".to_owned(), |better| better.get_ref().clone());
        Ok(Content::Best { value, over: self.axis(over, "columns.best")?, better })
    }

    fn words(self, column: &definition::Column) -> Result<Content, Fault> {
        let word = |word: &definition::Word| {
            let (when, at) = (self.expression(&word.when, "words.when")?, self.chosen(&word.at, "words.at")?);
            Ok(Word { word: word.word.clone(), when, at })
        };
        Ok(Content::Words {
            words: column.words.iter().map(word).collect::<Result<_, _>>()?,
            otherwise: column.otherwise.clone().unwrap_or_default(),
            each: column.each.as_ref().map(|each| self.axis(each, "columns.each")).transpose()?,
        })
    }

    fn expression(self, text: &Text, field: &str) -> Result<Expression, Fault> {
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

    fn chosen(self, at: &BTreeMap<String, Texts>, field: &str) -> Result<Chosen, Fault> {
        let mut chosen = Chosen::new();
        for (name, choices) in at {
            let wrong = |what| Fault::at(self.source.file, self.source.text, choices.span.clone(), field, what);
            let axis = self.definition.axis(name).map_err(wrong)?;
            let places = choices.each.iter().map(|choice| self.place(axis, choice, field));
            chosen.insert(axis, places.collect::<Result<_, _>>()?);
        }
        Ok(chosen)
    }

    fn axis(self, name: &Text, field: &str) -> Result<usize, Fault> {
        self.definition.axis(name.get_ref()).map_err(|what| self.source.fault(name, field, what))
    }

    fn place(self, axis: usize, choice: &Text, field: &str) -> Result<usize, Fault> {
        let axis = &self.definition.axes[axis];
        axis.place(choice.get_ref()).map_err(|what| self.source.fault(choice, field, what))
    }
}
