//! The program `longhaul` as users run it: processes over real sockets.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod codes;
mod forward;
mod machine;
mod strangers;
mod transfer;
mod trust;
mod usage;
