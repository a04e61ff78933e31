//! QUIC stacks as hosts of the laboratory.
//!
//! noq-proto and quinn-proto use neither sockets nor clocks, so they run in virtual time on the same links as longhaul.
#![forbid(unsafe_code)]

pub mod host;
mod identity;
mod stack;
#[cfg(test)]
mod tests;

pub use identity::Identity;
pub use stack::stacks;
