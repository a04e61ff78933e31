//! longhaul-sim
