//! Values that can be written in several ways: plain values of any type, choices, and one text or several.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A string, with its position in the file. Numbers and booleans are also stored as strings: `1448`, `false`. It may
/// contain variables of the axes: `"--rate {rate}"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Text(Spanned<String>);

impl Text {
    pub(crate) fn new(span: Range<usize>, text: String) -> Self {
        Self(Spanned::new(span, text))
    }
}

impl Deref for Text {
    type Target = Spanned<String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let value = Spanned::<toml::Value>::deserialize(deserializer)?;
        let text =
            plain(value.get_ref()).ok_or_else(|| D::Error::custom("expected a string, a number, true or false"))?;
        Ok(Self::new(value.span(), text))
    }
}

fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(whether) => Some(whether.to_string()),
        _ => None,
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    pub name: Text,
    #[serde(default)]
    pub defaults: BTreeMap<String, Text>,
    pub choices: Vec<Choice>,
}

/// A choice on an axis. A plain value sets the variable with the name of the axis; a table has a `name` and
/// variables.
#[derive(Clone, Debug)]
pub struct Choice {
    pub name: Text,
    pub variables: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let value = Spanned::<toml::Value>::deserialize(deserializer)?;
        let span = value.span();
        if let Some(plain) = plain(value.get_ref()) {
            return Ok(Self { name: Text::new(span, plain), variables: BTreeMap::new() });
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
        Ok(Self { name: Text::new(span, name), variables })
    }
}

/// A text, or an array of texts.
#[derive(Clone, Debug)]
pub struct Texts {
    pub span: Range<usize>,
    pub each: Vec<Text>,
}

enum Written {
    One(String),
    Many(Vec<Text>),
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Written;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string, or an array of strings")
    }

    fn visit_str<E>(self, text: &str) -> Result<Written, E> {
        Ok(Written::One(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Written, A::Error> {
        let mut each = Vec::new();
        while let Some(text) = texts.next_element()? {
            each.push(text);
        }
        Ok(Written::Many(each))
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Spanned::<Written>::deserialize(deserializer)?;
        let span = written.span();
        let each = match written.into_inner() {
            Written::One(text) => vec![Text::new(span.clone(), text)],
            Written::Many(each) => each,
        };
        Ok(Self { span, each })
    }
}
