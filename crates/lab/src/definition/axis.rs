//! The axes of an experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::setting::plain;
use super::{Setting, Text};

/// A parameter to vary.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name.
    pub name: Text,
    /// Values of variables that a choice does not set.
    #[serde(default)]
    pub defaults: BTreeMap<String, Setting>,
    /// Its possible values.
    pub choices: Vec<Choice>,
}

/// A choice on an axis. A plain value sets the variable with the name of the axis; a table has a `name` and
/// variables.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Name that rows refer to.
    pub name: Text,
    /// The variables that it sets, with their values.
    pub variables: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let value = Spanned::<toml::Value>::deserialize(deserializer)?;
        let span = value.span();
        if let Some(plain) = plain(value.get_ref()) {
            return Ok(Self { name: Spanned::new(span, plain), variables: BTreeMap::new() });
        }
        let toml::Value::Table(table) = value.into_inner() else {
            return Err(D::Error::custom("a choice must be a string, a number, or a table with a name and variables"));
        };
        let mut variables = BTreeMap::new();
        for (name, value) in &table {
            let value = plain(value)
                .ok_or_else(|| D::Error::custom(format!("variable {name:?} is neither a string nor a number")))?;
            variables.insert(name.clone(), value);
        }
        let name =
            variables.remove("name").ok_or_else(|| D::Error::custom("a choice with variables needs a `name`"))?;
        Ok(Self { name: Spanned::new(span, name), variables })
    }
}
