//! One text or several.

use std::fmt;
use std::ops::Range;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::Text;

/// A text, or an array of texts.
#[derive(Clone, Debug)]
pub struct Texts {
    /// Their position in the file.
    pub span: Range<usize>,
    /// The texts.
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
            Written::One(text) => vec![Spanned::new(span.clone(), text)],
            Written::Many(each) => each,
        };
        Ok(Self { span, each })
    }
}
