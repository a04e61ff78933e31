//! A plain value of any type, or a string with variables.

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::Text;

/// A string, number or boolean, stored as a string: `1448`, `false`, `"{window}"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting(pub Text);

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let value = Spanned::<toml::Value>::deserialize(deserializer)?;
        let text =
            plain(value.get_ref()).ok_or_else(|| D::Error::custom("expected a string, a number, true or false"))?;
        Ok(Self(Spanned::new(value.span(), text)))
    }
}

/// Returns a plain value as a string.
pub(super) fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(whether) => Some(whether.to_string()),
        _ => None,
    }
}
