//! The `Debug` output of public types is at most 1 kB and contains neither data nor keys, because applications write it
//! to logs.
//!
//! Each crate has a list of its types. A type that can be copied and has at most 256 bytes has a short output, and
//! holds no data. The tests create a value of every other type, which contains [`DATA`] or [`KEY`] if the type can
//! contain any.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

mod engine;
mod other;
mod sockets;

const MAX_LEN: usize = 1000;
const MAX_COPY: usize = 256;
const DATA: &[u8] = b"a secret password";
const KEY: [u8; 32] = [211; 32];

/// Types of a crate that have been checked.
struct Checked {
    package: &'static str,
    names: BTreeSet<&'static str>,
}

impl Checked {
    fn new(package: &'static str) -> Self {
        Self { package, names: BTreeSet::new() }
    }

    fn value(&mut self, name: &'static str, value: &dyn Debug) {
        let (short, long) = (format!("{value:?}"), format!("{value:#?}"));
        let name_in_crate = format!("{}::{name}", self.package);
        assert!(short.len() <= MAX_LEN, "{name_in_crate} has {} bytes: {short}", short.len());
        let long: String = long.split_whitespace().collect();
        let list = |bytes: &[u8]| format!("{bytes:?}").trim_matches(['[', ']']).replace(' ', "");
        for hidden in
            [str::from_utf8(DATA).unwrap().replace(' ', ""), list(&DATA[..8]), list(&KEY[..4]), "d3d3d3".into()]
        {
            assert!(!short.replace(' ', "").contains(&hidden), "{name_in_crate} shows data or a key: {short}");
            assert!(!long.contains(&hidden), "{name_in_crate} shows data or a key: {long}");
        }
        self.names.insert(name);
    }

    fn copied<T: Copy + Debug>(&mut self, name: &'static str) {
        assert!(size_of::<T>() <= MAX_COPY, "{} has {} bytes: it needs a value", name, size_of::<T>());
        self.names.insert(name);
    }

    /// Fails unless the crate's sources declare exactly the checked types and `others`.
    fn are_all(&self, others: &[&'static str]) {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../crates/core")
            .join(self.package.trim_start_matches("longhaul-"))
            .join("src");
        let mut declared = BTreeSet::new();
        declarations(&sources, &mut declared);
        let listed = self.names.iter().chain(others).map(|name| (*name).to_owned()).collect();
        assert_eq!(declared, listed, "{}: declared, and listed", self.package);
    }
}

fn declarations(directory: &Path, declared: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            declarations(&path, declared);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in text.lines().map(str::trim_start) {
            let kinds = ["pub struct ", "pub enum ", "pub union "];
            if let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                declared.insert(rest[..end].to_owned());
            }
        }
    }
}

macro_rules! copied {
    ($checked:ident, $($type:ident)*) => {
        $($checked.copied::<$type>(stringify!($type));)*
    };
}

macro_rules! values {
    ($checked:ident, $($type:ident: $value:expr,)*) => {
        $($checked.value(stringify!($type), &$value);)*
    };
}

use {copied, values};
