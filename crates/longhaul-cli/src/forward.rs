//! Near end of tunnels: accepts connections and sends them through a pool of tunnels.

mod listen;
mod pool;
mod proxy;

pub use listen::{DynamicForward, LocalForward, ParseForwardError, Source};
pub use pool::{Connect, Pool, PoolConfig};
