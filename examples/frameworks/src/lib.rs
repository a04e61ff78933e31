//! Web frameworks and TLS over longhaul. The code is in the examples of this package.
