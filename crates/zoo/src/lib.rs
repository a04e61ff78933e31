//! Published congestion-control algorithms in addition to those of [`longhaul_cc`].
//!
//! [`register`] makes their names known, after which any controller text in the process can use them:
//!
//! ```
//! longhaul_zoo::register()?;
//! let congestion: longhaul_cc::Congestion = "hybla".parse()?;
//! assert_eq!(congestion.to_string(), "hybla");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate uses the public interface of [`longhaul_cc`] as any other crate with algorithms does; only parts of Swift
//! Start, of BBR, of `copa-cubic` and of plain TCP are shared in other ways. Each algorithm is one file with a static
//! [`Entry`](longhaul_cc::registry::Entry) and one line in `table.rs`. [`unpaced`] and [`with_params`] build any of them
//! as on older hosts.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use longhaul_cc::registry::{self, RegisterError, Registry};

mod avoidance;
mod bbr1;
mod classify;
mod estimate;
mod older_hosts;
mod rcp;
mod recovery;
mod router_assisted;
mod slow_start;
mod startup;
mod table;
#[cfg(test)]
mod tests;
mod tide;
mod udt;
mod xcp;

pub use older_hosts::{unpaced, with_params};

/// Returns the algorithms and profiles of this crate.
#[must_use]
pub fn algorithms() -> &'static Registry {
    &table::ALGORITHMS
}

/// Registers the algorithms and profiles of this crate for the whole process. Further calls have no effect. Call it at
/// the beginning of `main`, before the first name is parsed.
///
/// # Errors
/// Returns an error if the program has registered an algorithm of its own by one of these names. In this case, none of
/// this crate's algorithms is registered.
pub fn register() -> Result<(), RegisterError> {
    static DONE: OnceLock<Result<(), RegisterError>> = OnceLock::new();
    DONE.get_or_init(|| registry::register(algorithms().entries, algorithms().profiles)).clone()
}

/// Algorithms and estimators for the laboratory and tests of this project. Not part of the public interface.
#[doc(hidden)]
pub mod internal {
    pub use crate::estimate::fused_capacity::{FusedCapacity, FusedEstimate};
    pub use crate::recovery::new_reno::NewReno as RenoRecovery;
    pub use crate::startup::pacing_only::{PacingOnly, Pattern};
    pub use crate::startup::swift_start_bbn::SwiftStartBbn;
}
