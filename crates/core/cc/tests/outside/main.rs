//! The crate from outside: the layers of its modules, and algorithms of other crates.

mod layers;
mod out_of_tree;
mod registered;
