//! The examples of longhaul.
