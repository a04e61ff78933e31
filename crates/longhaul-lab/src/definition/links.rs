//! The shared links.

use std::fmt;
use std::ops::Range;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::Text;

/// A link, or several in a row from the senders to the receivers.
#[derive(Clone, Debug)]
pub struct Links {
    /// Their position in the file.
    pub span: Range<usize>,
    /// The links.
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
        out.write_str("a link, or an array of links")
    }

    fn visit_str<E>(self, link: &str) -> Result<Written, E> {
        Ok(Written::One(link.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut links: A) -> Result<Written, A::Error> {
        let mut each = Vec::new();
        while let Some(link) = links.next_element()? {
            each.push(link);
        }
        Ok(Written::Many(each))
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Spanned::<Written>::deserialize(deserializer)?;
        let span = written.span();
        let each = match written.into_inner() {
            Written::One(link) => vec![Spanned::new(span.clone(), link)],
            Written::Many(each) => each,
        };
        Ok(Self { span, each })
    }
}
