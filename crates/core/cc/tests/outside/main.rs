//! The crate from outside: the layers of its modules, the pages of its algorithms, and algorithms of other crates.

mod layers;
mod out_of_tree;
mod pages;
mod registered;
