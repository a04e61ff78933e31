//! Event logs of connections in qlog's sequential form (draft-ietf-quic-qlog-main-schema): a JSON text sequence (RFC
//! 7464), one [`Log`] for each end of a connection.
//!
//! Nothing here knows files, threads or clocks. Times come in, and records go to a [`Sink`]: a [`Sequence`] writes them
//! to anything that takes bytes.
//!
//! qlog has no schema for TCP: the events are of a namespace of our own, `tcp`, with the names and units of qlog's QUIC
//! events where those exist: times are milliseconds, `pacing_rate` and `delivery_rate` bits per second, windows bytes.
//! Both ends' logs of a connection have the same `group_id`: the client's and the server's initial sequence number.
//!
//! | event | `data` |
//! |---|---|
//! | `tcp:connection_started` | `local` and `remote` (`ip`, `port`), `segments_before`: how many were `sent` and `received` before the log began |
//! | `tcp:parameters_set` | `congestion_control`, `maximum_segment_size`, the options in force, both initial sequence numbers |
//! | `tcp:connection_state_updated` | `old`, `new`: states of RFC 9293 |
//! | `tcp:segment_sent`, `tcp:segment_received` | `header`: fields as on the wire, `payload_length`, `timestamps`, `sack`; `retransmission`, `ecn` |
//! | `tcp:segment_dropped` | what came and is no segment: `length`, `trigger`, `details` |
//! | `tcp:segment_lost` | `lost_bytes` held lost since the last time, `trigger` |
//! | `tcp:spurious_loss_detected` | `episodes` of repair that turned out to be unnecessary |
//! | `tcp:congestion_state_updated` | `old`, `new`: the controller's stage, or `recovery`, `timeout` |
//! | `tcp:recovery_metrics_updated` | RTTs, RTO, windows, rates, bytes in flight: those that changed |
//! | `tcp:events_dropped` | `count` of records that the sink had no room for |
//! | `tcp:connection_closed` | `trigger`: `clean`, `released` while it could still send, or the error |
//!
//! Segments are logged as they pass; the rest when the connection is [looked at](Log::sample).
//!
//! ```
//! use std::sync::Arc;
//!
//! use longhaul_qlog::{Log, Reference, Role, Sequence, Start};
//! use longhaul_tcp::{Batch, Config, Endpoint, EndpointConfig, Tuple};
//! use longhaul_units::{Span, Time};
//!
//! let (local, remote) = ("192.0.2.1:7000".parse()?, "192.0.2.2:7000".parse()?);
//! let mut now = Time::ZERO;
//! let mut endpoint = Endpoint::new(EndpointConfig::new([7; 32]), now);
//! let config = Arc::new(Config::default());
//! let id = endpoint.connect(now, Tuple { remote, local: "192.0.2.1".parse()? }, config).expect("it is the first");
//! let start = Start {
//!     role: Role::Client,
//!     local,
//!     remote,
//!     segments_before: [0, 0],
//!     at: now,
//!     epoch: Time::ZERO,
//!     reference: Reference::Monotonic,
//!     vantage_point: "an example".to_owned(),
//!     interval: Span::from_millis(1),
//! };
//! let mut log = Log::new(start, Sequence::new(Vec::new()));
//! // Nobody answers, until the connection gives up.
//! let mut batch = Batch::default();
//! while let Some(connection) = endpoint.connection(id).filter(|connection| log.sample(now, connection, now)) {
//!     while endpoint.poll_transmit(now, &mut batch, 1).is_some() {
//!         log.sent(now, &batch.headers, batch.len, 0);
//!     }
//!     now = endpoint.poll_timeout().expect("it would try again");
//!     endpoint.handle_timeout(now);
//! }
//! log.end(now, None);
//! let text = String::from_utf8(log.sink_mut().finish()?)?;
//! assert_eq!(text.matches("tcp:segment_sent").count() as u64, log.segments()[0]);
//! assert!(text.contains("tcp:connection_closed"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod date;
mod log;
mod metrics;
mod segment;
mod sink;
mod start;
#[cfg(test)]
mod tests;

pub use log::Log;
pub use sink::{Sequence, Sink, write_record};
pub use start::{Reference, Role, SCHEMA, Start};
