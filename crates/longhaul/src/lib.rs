//! longhaul
