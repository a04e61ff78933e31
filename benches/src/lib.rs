//! The benches of longhaul.
