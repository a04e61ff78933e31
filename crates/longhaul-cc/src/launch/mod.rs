//! Launches: how a window opens at once.

pub mod none;

pub use none::NoLaunch;
