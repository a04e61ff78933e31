//! Near end of tunnels: sends accepted connections through a pool of tunnels, and connects to nearby targets for
//! connections that the gateway accepts.

mod control;
mod listen;
mod persist;
mod pool;
mod proxy;
mod remote;
#[cfg(target_os = "linux")]
mod transparent;

pub(crate) use control::{Control, Forwarder, Place, Terms};
pub(crate) use listen::{DynamicForward, LocalForward, Source, parse_remote};
pub(crate) use pool::{Connect, Pool, PoolConfig, unreachable};
pub(crate) use remote::{Remote, may_listen_later};
#[cfg(target_os = "linux")]
pub(crate) use transparent::rules;
