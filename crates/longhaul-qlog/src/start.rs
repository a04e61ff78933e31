//! What a log begins with.

use std::net::SocketAddr;
use std::time::Duration;

use longhaul_units::{Span, Time};
use serde_json::{Value, json};

use crate::date;

/// Names the schema of the events: a private one is named by a web address of its owner, and month and year.
pub const SCHEMA: &str = "https://github.com/longhaul-rs/longhaul/112026/qlog/tcp";

/// Which end of a connection a log is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that opened it.
    Client,
    /// The one that accepted it.
    Server,
}

impl Role {
    /// As qlog's vantage points name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What the moment that times count from is in the world outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// So long after the Unix epoch.
    System(Duration),
    /// No date: time that is counted from somewhere, as a simulation's is. qlog has `monotonic` for such a clock, and
    /// wants its epoch to be `unknown`.
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

/// What a log has to be told at its beginning.
#[derive(Clone, Debug)]
pub struct Start {
    /// Which end of the connection this is.
    pub role: Role,
    /// The address at this end.
    pub local: SocketAddr,
    /// The address at the other end.
    pub remote: SocketAddr,
    /// Segments that were sent and received before the log began: a server's begins when it accepts, as a rule.
    pub segments_before: [u64; 2],
    /// When the log begins.
    pub at: Time,
    /// The moment that its times count from.
    pub epoch: Time,
    /// What that moment is.
    pub reference: Reference,
    /// Who logs.
    pub vantage_point: String,
    /// What is sampled is logged no more often than this; changes of the connection's state always.
    pub interval: Span,
}

impl Start {
    /// The record that stands first.
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

    /// What `connection_started` says.
    pub(crate) fn started(&self) -> Value {
        let address = |address: SocketAddr| json!({ "ip": address.ip().to_string(), "port": address.port() });
        let [sent, received] = self.segments_before;
        json!({
            "local": address(self.local),
            "remote": address(self.remote),
            "segments_before": { "sent": sent, "received": received },
        })
    }
}
