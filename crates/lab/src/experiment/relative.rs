//! Metrics that relate the runs of a cell to another cell.

use std::borrow::Cow;
use std::collections::BTreeMap;

use longhaul_units::statistics;

use super::{Experiment, Source};
use crate::cell::Cell;
use crate::definition::{Axis, Definition, Fault, Form, Metric, Text};
use crate::judge;
use crate::record::Record;

/// Base cells of a metric, and the form of the relation.
#[derive(Clone, Debug)]
pub struct Relative {
    /// The index of the base cell, for each cell.
    pub bases: Vec<usize>,
    /// How the two values are combined.
    pub form: Form,
}

impl Relative {
    /// Reads the relation of a metric, or returns `None` if it has none.
    pub(super) fn read(
        definition: &Definition,
        cells: &[Cell],
        metric: &Metric,
        source: Source<'_>,
    ) -> Result<Option<Self>, Fault> {
        if metric.relative_to.is_empty() {
            return match metric.form {
                None => Ok(None),
                Some(_) => Err(source.fault(&metric.value, "metrics.form", "`form` needs `relative-to`")),
            };
        }
        let chosen = chosen(&definition.axes, &metric.relative_to, source)?;
        let base = |cell: &Cell| {
            let places = cell.places.iter().enumerate();
            let places: Vec<usize> = places.map(|(axis, place)| chosen.get(&axis).copied().unwrap_or(*place)).collect();
            cells.iter().position(|other| other.places == places)
        };
        let bases = cells.iter().filter_map(base).collect();
        Ok(Some(Self { bases, form: metric.form.unwrap_or_default() }))
    }
}

/// Returns the indices of the named axes and of the choices on them.
fn chosen(
    axes: &[Axis],
    relative_to: &BTreeMap<String, Text>,
    source: Source<'_>,
) -> Result<BTreeMap<usize, usize>, Fault> {
    let place = |(name, choice): (&String, &Text)| {
        let wrong = |what: String| source.fault(choice, "metrics.relative-to", what);
        let axis = axes.iter().position(|axis| axis.name.get_ref() == name);
        let axis = axis.ok_or_else(|| wrong(format!("there is no axis {name:?}")))?;
        let found = axes[axis].choices.iter().position(|known| known.name.get_ref() == choice.get_ref());
        let found =
            found.ok_or_else(|| wrong(format!("{:?} is not a choice on the axis {name:?}", choice.get_ref())))?;
        Ok((axis, found))
    };
    relative_to.iter().map(place).collect()
}

impl Form {
    /// Combines the value of a run and the median of the base cell. Returns `None` if the result is not finite.
    fn of(self, value: f64, base: f64) -> Option<f64> {
        let related = match self {
            Self::Ratio => value / base,
            Self::Harm => (base - value) / base,
            Self::HarmOfLess => (value - base) / value,
        };
        related.is_finite().then_some(related)
    }
}

impl Experiment {
    /// Returns the records with the values of relative metrics in place of the measured values.
    pub(crate) fn related<'a>(&self, records: &'a [Record]) -> Cow<'a, [Record]> {
        let mut related = Cow::Borrowed(records);
        for (metric, relative) in self.relatives.iter().enumerate() {
            let Some(Relative { bases, form }) = relative else { continue };
            let median = |cell: &usize| {
                let values = judge::measured(records, *cell, metric).collect::<Option<Vec<f64>>>()?;
                statistics::median(&values)
            };
            let medians: Vec<Option<f64>> = bases.iter().map(median).collect();
            for record in related.to_mut() {
                let base = medians.get(record.cell).copied().flatten();
                if let Some(value) = record.values.get_mut(metric) {
                    *value = value.zip(base).and_then(|(value, base)| form.of(value, base));
                }
            }
        }
        related
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_by_hand() {
        // Ware, Mukerjee, Seshan and Sherry, HotNets 2019: a drop from 10 Mb/s alone to 4 Mb/s with a competitor is a
        // harm of 0.6. So is an increase from 4 s to 10 s.
        assert_eq!(Form::Harm.of(4.0, 10.0), Some(0.6));
        assert_eq!(Form::HarmOfLess.of(10.0, 4.0), Some(0.6));
        assert_eq!(Form::Ratio.of(4.0, 10.0), Some(0.4));
        assert_eq!(Form::Ratio.of(4.0, 0.0), None);
    }
}
