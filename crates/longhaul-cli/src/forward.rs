//! Near end of tunnels: accepts connections and sends them through a pool of tunnels.

mod listen;
mod pool;

pub use listen::{LocalForward, ParseForwardError};
pub use pool::{Connect, Pool, PoolConfig};
