//! A combination of choices, and what variables are in it.

use std::collections::BTreeMap;

use crate::definition::{Axis, Definition};

/// A choice on each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The choices' places, by axis.
    pub places: Vec<usize>,
    variables: BTreeMap<String, String>,
}

impl Cell {
    /// All of an experiment's, the last axis turning fastest.
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

    /// A text with each `{variable}` replaced.
    ///
    /// # Errors
    /// If there is no such variable, or a brace has no partner.
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
