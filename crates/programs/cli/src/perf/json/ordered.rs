//! JSON objects that preserve the order of their members.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct Object(Vec<(String, Node)>);

#[derive(Debug)]
pub(super) enum Node {
    Value(Value),
    Object(Object),
    Array(Vec<Object>),
}

impl Object {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn put(&mut self, name: &str, value: impl Into<Node>) -> &mut Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| keep(name));
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Object(object) => object.serialize(serializer),
            Self::Array(array) => array.serialize(serializer),
        }
    }
}

impl From<Object> for Node {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl From<Vec<Object>> for Node {
    fn from(array: Vec<Object>) -> Self {
        Self::Array(array)
    }
}

macro_rules! from_values {
    ($($of:ty),*) => {$(
        impl From<$of> for Node {
            fn from(value: $of) -> Self {
                Self::Value(Value::from(value))
            }
        }
    )*};
}

from_values!(
    Value,
    bool,
    u8,
    u16,
    u32,
    u64,
    i32,
    i64,
    usize,
    &str,
    String,
    Option<String>,
    Option<u16>,
    Option<u64>,
    Option<f64>
);
