//! A connection that takes a smaller form while it rests.

use std::cell::{Cell, OnceCell};
use std::ops::{Deref, DerefMut};

use longhaul_units::Span;

use crate::connection::Dormant;
use crate::{Connection, State};

/// A connection, which wakes when it is looked at.
pub(super) struct Sleeper {
    awake: OnceCell<Box<Connection>>,
    /// Present while `awake` is not.
    dormant: Cell<Option<Box<Dormant>>>,
}

impl Sleeper {
    pub(super) fn new(connection: Connection) -> Self {
        Self { awake: OnceCell::from(Box::new(connection)), dormant: Cell::new(None) }
    }

    pub(super) fn is_awake(&self) -> bool {
        self.awake.get().is_some()
    }

    /// Returns the state without waking the connection.
    pub(super) fn state(&self) -> State {
        // Only an established connection rests.
        self.awake.get().map_or(State::Established, |connection| connection.state())
    }

    /// Lets the connection take its smaller form, if it is at rest.
    pub(super) fn rest(&mut self) {
        match self.awake.take().map(Connection::rest) {
            Some(Ok(dormant)) => self.dormant = Cell::new(Some(Box::new(dormant))),
            Some(Err(connection)) => self.awake = OnceCell::from(connection),
            None => {}
        }
    }

    /// Returns [`Connection::tolerable_delay`] without waking the connection.
    pub(super) fn tolerable_delay(&mut self) -> Option<Span> {
        match (self.awake.get(), self.dormant.get_mut()) {
            (None, Some(dormant)) => dormant.tolerable_delay(),
            _ => self.status().tolerable_delay(),
        }
    }

    fn wake(&self) -> Box<Connection> {
        let Some(dormant) = self.dormant.take() else { unreachable!("a connection is either awake or dormant") };
        let mut connection = Box::new(dormant.wake());
        connection.note_waking();
        connection
    }
}

impl Deref for Sleeper {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.awake.get_or_init(|| self.wake())
    }
}

impl DerefMut for Sleeper {
    fn deref_mut(&mut self) -> &mut Connection {
        let _: &Connection = self;
        match self.awake.get_mut() {
            Some(connection) => connection,
            None => unreachable!("it was woken before"),
        }
    }
}
