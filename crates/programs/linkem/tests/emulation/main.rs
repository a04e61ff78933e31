//! The relay, the shell behind a link, and the command line, with real sockets.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod behind;
mod common;

mod cli;
mod relay;
mod routers;
mod shell;
mod transfer;
