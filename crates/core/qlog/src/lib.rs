//! Event logs of connections in qlog's sequential format (draft-ietf-quic-qlog-main-schema), a JSON text sequence
//! (RFC 7464). There is one [`Log`] per endpoint of a connection.
//!
//! The crate uses no files, threads or clocks. Callers pass the current time, and records go to a [`Sink`], such as a
//! [`Sequence`], which writes them to an [`std::io::Write`].
//!
//! qlog has no schema for TCP. The events are in a private namespace, `tcp`, and use the names and units of qlog's QUIC
//! events where they exist: times are in milliseconds, `pacing_rate` and `delivery_rate` in bits per second, and
//! windows in bytes. The logs of both endpoints have the same `group_id`: the initial sequence numbers of client and
//! server.
//!
//! | event | `data` |
//! |---|---|
//! | `tcp:connection_started` | `local` and `remote` (`ip`, `port`), `segments_before`: numbers of segments `sent` and `received` before the log started |
//! | `tcp:parameters_set` | `congestion_control`, `maximum_segment_size`, negotiated options, both initial sequence numbers |
//! | `tcp:connection_state_updated` | `old`, `new`: states of RFC 9293 |
//! | `tcp:segment_sent`, `tcp:segment_received` | `header`: fields as transmitted, `payload_length`, `timestamps`, `sack`; `retransmission`, `ecn` |
//! | `tcp:segment_dropped` | received datagram that is not a valid segment: `length`, `trigger`, `details` |
//! | `tcp:segment_rejected` | the latest received segment was not accepted: `trigger` (`timestamp`, `outside_window`, `acknowledgment`, `no_memory`) |
//! | `tcp:segments_acked` | an ACK has delivered data: `acked_bytes` by its acknowledgment number, `delivered_bytes` by the acknowledgment number or SACK for the first time |
//! | `tcp:segment_lost` | segment marked lost: `sequence_number`, `lost_bytes` (its sequence space), `trigger` |
//! | `tcp:recovery_started`, `tcp:recovery_ended` | a recovery episode; `trigger`: `loss` or `timeout` |
//! | `tcp:spurious_loss_detected` | number of spurious recovery `episodes`, `trigger` of the episode |
//! | `tcp:congestion_state_updated` | `old`, `new`: the controller's phase, or `recovery`, `timeout` |
//! | `tcp:recovery_metrics_updated` | RTTs, RTO, windows, rates, bytes in flight; only those that changed |
//! | `tcp:timer_updated` | `timer_type`, `event_type`: `set` (with `delta`), `cancelled` or `expired`. `set` and `cancelled` are logged for `rto` and `tlp` only |
//! | `tcp:mtu_updated` | `old`, `new`: UDP payload that the path is known to pass, in bytes |
//! | `tcp:ecn_state_updated` | `old`, `new`: `unknown`, `capable`, `testing` or `failed` |
//! | `tcp:host_error` | `error` that the host reports for the path |
//! | `tcp:connection_released` | the application has released the connection |
//! | `tcp:events_dropped` | `count` of records dropped because the sink was full. Records of all metrics and states that have changed meanwhile follow |
//! | `tcp:connection_closed` | `trigger`: `clean`, `released` (while the connection could still send), or the error |
//!
//! A [`Log`] is an observer of a connection ([`longhaul_tcp::Observer`]): it logs each event when it happens.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use longhaul_qlog::{Log, Reference, Role, Sequence, Start};
//! use longhaul_tcp::{Batch, Config, Endpoint, EndpointConfig, Tuple};
//! use longhaul_units::Time;
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
//! };
//! let log = Arc::new(Mutex::new(Log::new(start, Sequence::new(Vec::new()))));
//! endpoint.observe(now, id, Box::new(Arc::clone(&log)));
//! // The SYNs are not answered, so the connection times out.
//! let mut batch = Batch::default();
//! while !log.lock().unwrap().has_ended() {
//!     while endpoint.poll_transmit(now, &mut batch, 1).is_some() {}
//!     now = endpoint.poll_timeout().expect("it would try again");
//!     endpoint.handle_timeout(now);
//! }
//! let mut log = log.lock().unwrap();
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
