//! Near end of tunnels: accepts connections and sends them through a pool of tunnels, and connects to targets near it for
//! connections that the gateway accepts.

mod listen;
mod persist;
mod pool;
mod proxy;
mod remote;
#[cfg(target_os = "linux")]
mod transparent;

pub use listen::{DynamicForward, LocalForward, ParseForwardError, RemoteForward, Source};
pub use pool::{Connect, Pool, PoolConfig};
pub use remote::{Remote, RemoteError};
#[cfg(target_os = "linux")]
pub use transparent::rules;
