//! How web frameworks and TLS use longhaul: see the examples of this package.
