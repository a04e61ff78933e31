//! Transport stacks that a program adds to the laboratory, such as QUIC stacks, whose dependencies this crate does not
//! have.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;

use longhaul_sim::Agent;
use longhaul_units::Time;

/// A stack whose connections run in virtual time. Experiments name it as the `stack` of flows; where only a
/// controller can be named, it is written before the controller: `noq/cubic`.
pub trait Stack: Debug + Send + Sync {
    /// Returns the name of the stack in experiments.
    fn name(&self) -> &'static str;

    /// Checks the name of a congestion controller.
    ///
    /// # Errors
    /// Returns the reason why the stack cannot run it.
    fn check(&self, congestion: &str) -> Result<(), String>;

    /// Returns the sender and the receiver of a transfer. A panic is reported as the failure of its run.
    fn connect(&self, transfer: &Transfer<'_>) -> [Box<dyn Agent>; 2];
}

/// A transfer in one direction.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Transfer<'a> {
    /// Congestion controller of the sender, whose name was checked.
    pub congestion: &'a str,
    /// Addresses of the sender and the receiver.
    pub addresses: [SocketAddr; 2],
    /// Time at which the sender opens the connection.
    pub start: Time,
    /// Number of bytes to send; `u64::MAX` means that the transfer never ends.
    pub bytes: u64,
    /// Seed for random numbers.
    pub seed: u64,
    /// File for the sender's qlog, if it is wanted and the stack can write one.
    pub qlog: Option<&'a Path>,
}

impl<'a> Transfer<'a> {
    pub(crate) const fn new(congestion: &'a str, addresses: [SocketAddr; 2], start: Time) -> Self {
        Self { congestion, addresses, start, bytes: u64::MAX, seed: 1, qlog: None }
    }
}

static STACKS: OnceLock<Vec<Box<dyn Stack>>> = OnceLock::new();

/// Adds stacks for the rest of the program. Only the first call has an effect.
pub fn register(stacks: Vec<Box<dyn Stack>>) {
    let _ = STACKS.set(stacks);
}

fn all() -> impl Iterator<Item = &'static dyn Stack> {
    STACKS.get().into_iter().flatten().map(|stack| &**stack)
}

pub(crate) fn find(name: &str) -> Option<&'static dyn Stack> {
    all().find(|stack| stack.name() == name)
}

/// Returns the names of all stacks, each after `separator`.
pub(crate) fn names(separator: &str) -> String {
    all().map(|stack| format!("{separator}{}", stack.name())).collect()
}

/// Splits a controller that has a stack before its name.
pub(crate) fn split(congestion: &str) -> Option<(&'static dyn Stack, &str)> {
    let (stack, congestion) = congestion.split_once('/')?;
    Some((find(stack)?, congestion))
}
