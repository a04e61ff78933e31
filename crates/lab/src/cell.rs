//! Cells: combinations of choices, with their variables.

use std::collections::BTreeMap;

use crate::definition::{Axis, Definition};

/// Maximum depth of variables in the values of variables.
const DEEPEST: usize = 4;

/// Choices by axis. On other axes, any choice matches.
pub(crate) type Chosen = BTreeMap<usize, Vec<usize>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Indices of the choices, by axis.
    pub places: Vec<usize>,
    variables: BTreeMap<String, String>,
}

impl Cell {
    /// Returns all cells of an experiment. The choice on the last axis varies fastest.
    pub fn all(definition: &Definition) -> Vec<Self> {
        let mut places = vec![Vec::new()];
        for axis in &definition.axes {
            let longer = |places: &Vec<usize>| {
                let places = places.clone();
                (0..axis.choices.len()).map(move |next| [&places[..], &[next]].concat())
            };
            places = places.iter().flat_map(longer).collect();
        }
        places.into_iter().map(|places| Self::at(&definition.axes, places)).collect()
    }

    fn at<'a>(axes: impl IntoIterator<Item = &'a Axis>, places: Vec<usize>) -> Self {
        let mut variables = BTreeMap::new();
        for (axis, place) in axes.into_iter().zip(&places) {
            let choice = &axis.choices[*place];
            variables.insert(axis.name.get_ref().clone(), choice.name.get_ref().clone());
            variables.extend(choice.variables.clone());
        }
        Self { places, variables }
    }

    /// Returns the variables of some axes, given as pairs of axis and choice. The result is not one of the cells.
    pub(crate) fn partial(axes: &[Axis], chosen: impl Iterator<Item = (usize, usize)>) -> Self {
        let (chosen, places): (Vec<&Axis>, Vec<usize>) =
            chosen.filter_map(|(axis, place)| Some((axes.get(axis)?, place))).unzip();
        Self::at(chosen, places)
    }

    /// Returns whether all variables have the same values, regardless of the axes on which they are set.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.variables == other.variables
    }

    pub(crate) fn is_at(&self, chosen: &Chosen) -> bool {
        chosen.iter().all(|(axis, places)| places.contains(&self.places[*axis]))
    }

    /// Replaces each `{variable}` in a text by its value, which may also contain variables.
    pub fn fill(&self, text: &str) -> Result<String, String> {
        self.fill_nested(text, DEEPEST)
    }

    fn fill_nested(&self, text: &str, depth: usize) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or_else(|| format!("{text:?} has a {{ without a }}"))?;
            let value = self.variables.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.variables.keys().map(String::as_str).collect();
                format!("there is no variable {name:?}; there are: {}", known.join(", "))
            })?;
            let depth = depth.checked_sub(1).ok_or_else(|| format!("the variable {name:?} is nested too deeply"))?;
            filled += before;
            filled += &self.fill_nested(value, depth)?;
            rest = after;
        }
        Ok(filled + rest)
    }
}
