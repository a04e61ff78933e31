//! Serialisation of snapshots: durations as seconds, states and errors by name.

use std::time::Duration;

use longhaul_tcp::{HostError, NegotiatedOptions as TcpOptions, RecoveryState, State as TcpState};
use serde::{Serialize, Serializer};

use super::experiments::{TcpAckRate, TcpExperiments, TcpNetwork, TcpPairs, TcpProbes, TcpSavedPath};
use super::{LimitedBy, SocketInfo, TcpStartup};

/// A field of a snapshot.
pub(super) trait Value {
    /// Returns the value to which the field serialises.
    fn plain(&self) -> impl Serialize;
}

pub(super) fn value<S: Serializer>(value: &impl Value, serializer: S) -> Result<S::Ok, S::Error> {
    value.plain().serialize(serializer)
}

impl<T: Value> Value for Option<T> {
    fn plain(&self) -> impl Serialize {
        self.as_ref().map(T::plain)
    }
}

macro_rules! values {
    ($($value:ident: $($type:ty)|+ => $plain:expr;)*) => {$($(
        impl Value for $type {
            fn plain(&self) -> impl Serialize {
                let $value = self;
                $plain
            }
        }
    )+)*};
}

values! {
    duration: Duration => duration.as_secs_f64();
    named: HostError | RecoveryState | TcpState | TcpStartup => named.name();
    same: bool | u8 | u32 | u64 | &'static str | String | TcpOptions | LimitedBy | SocketInfo => same;
    part: TcpExperiments | TcpPairs | TcpProbes | TcpNetwork | TcpSavedPath | TcpAckRate => part;
}
