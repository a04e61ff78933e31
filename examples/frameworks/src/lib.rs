//! How web frameworks use longhaul: see the examples of this package.
