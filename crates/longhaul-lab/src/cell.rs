//! Cells: combinations of choices, with their variables.

use std::collections::BTreeMap;

use crate::definition::{Axis, Definition};

/// One choice on each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Indices of the choices, by axis.
    pub places: Vec<usize>,
    variables: BTreeMap<String, String>,
}

impl Cell {
    /// Returns all cells of an experiment. The choice on the last axis varies fastest.
    #[must_use]
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

    fn at(axes: &[Axis], places: Vec<usize>) -> Self {
        let mut variables = BTreeMap::new();
        for (axis, place) in axes.iter().zip(&places) {
            let choice = &axis.choices[*place];
            variables.insert(axis.name.get_ref().clone(), choice.name.get_ref().clone());
            variables.extend(choice.variables.clone());
        }
        Self { places, variables }
    }

    /// Replaces each `{variable}` in a text by its value.
    ///
    /// # Errors
    /// Returns an error if there is no such variable, or if a brace is not closed.
    pub fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or_else(|| format!("{text:?} has a {{ without a }}"))?;
            let value = self.variables.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.variables.keys().map(String::as_str).collect();
                format!("there is no variable {name:?}; there are: {}", known.join(", "))
            })?;
            filled += before;
            filled += value;
            rest = after;
        }
        Ok(filled + rest)
    }
}
