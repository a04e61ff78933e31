//! The tests of longhaul.
