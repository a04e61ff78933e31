//! The link model: links, queues, routers, and the text that describes them.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod link;
mod queues;
mod routers;
mod text;
