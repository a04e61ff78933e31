//! Parameters and first records of a log.

use std::net::SocketAddr;
use std::time::Duration;

use longhaul_units::{Time, named};
use serde_json::{Value, json};

use crate::date;

/// URI of the event schema. The URI of a private schema is a web address of its owner, with month and year.
pub const SCHEMA: &str = "https://github.com/longhaul-rs/longhaul/112026/qlog/tcp";

named! {
    /// Endpoint of a connection to which a log belongs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Role {
        /// The endpoint that opened the connection.
        Client = "client",
        /// The endpoint that accepted the connection.
        Server = "server",
    }
}

/// Meaning of a log's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The epoch is this long after the Unix epoch.
    System(Duration),
    /// The epoch has no known date, as in a simulation. qlog's `clock_type` is `monotonic`, which requires the epoch
    /// `unknown`.
    Monotonic,
}

impl Reference {
    fn to_value(self) -> Value {
        match self {
            Self::System(since) => json!({ "clock_type": "system", "epoch": date::rfc3339(since) }),
            Self::Monotonic => json!({ "clock_type": "monotonic", "epoch": "unknown" }),
        }
    }
}

/// Parameters of a log that are known before the handshake.
#[derive(Clone, Debug)]
pub struct Start {
    /// Role of this endpoint.
    pub role: Role,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Number of segments sent and received before the log started.
    pub segments_before: [u64; 2],
    /// Time at which the log starts.
    pub at: Time,
    /// Epoch of the times in the log.
    pub epoch: Time,
    /// Meaning of `epoch`.
    pub reference: Reference,
    /// Name of the vantage point, chosen by the caller.
    pub vantage_point: String,
}

impl Start {
    /// Returns the first record, the qlog file header.
    pub(crate) fn header(&self, id: &str) -> Value {
        json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": format!("longhaul {}", env!("CARGO_PKG_VERSION")),
            "trace": {
                "common_fields": {
                    "group_id": id,
                    "time_format": "relative_to_epoch",
                    "reference_time": self.reference.to_value(),
                },
                "vantage_point": { "name": self.vantage_point, "type": self.role.name() },
                "event_schemas": [SCHEMA],
            },
        })
    }

    pub(crate) fn started(&self) -> Value {
        let [sent, received] = self.segments_before;
        json!({
            "local": address(self.local),
            "remote": address(self.remote),
            "segments_before": { "sent": sent, "received": received },
        })
    }
}

/// Returns an address as qlog writes it.
pub(crate) fn address(address: SocketAddr) -> Value {
    json!({ "ip": address.ip().to_string(), "port": address.port() })
}
