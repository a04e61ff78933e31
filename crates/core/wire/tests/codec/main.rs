//! The codec: random headers and bytes, the vectors of the documentation, and the corpus of the fuzz target.

#[path = "../support/any_datagram.rs"]
mod any_datagram;

mod corpus;
mod round_trip;
mod vectors;
