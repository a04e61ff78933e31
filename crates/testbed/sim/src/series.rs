//! Time series of a sender's state, stored as columns.

use longhaul_tcp::Info;
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::sim::{SessionId, Sim};

/// Identifier of a time series, in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesId(u32);

/// Columns of equal length: element n of each belongs to row n.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The simulation's time.
    pub time: Vec<Time>,
    /// Congestion window.
    pub cwnd: Vec<Bytes>,
    /// Slow-start threshold, if there is one.
    pub ssthresh: Vec<Option<Bytes>>,
    /// Bytes in flight.
    pub in_flight: Vec<Bytes>,
    /// Smoothed RTT, once there is a sample.
    pub srtt: Vec<Option<Span>>,
    /// The latest sample of the delivery rate.
    pub rate: Vec<Option<Rate>>,
    /// Bytes queued at the given link; 0 if none was given.
    pub queue: Vec<Bytes>,
}

impl Series {
    fn push(&mut self, time: Time, info: &Info, queue: u64) {
        self.time.push(time);
        self.cwnd.push(info.cwnd);
        self.ssthresh.push(info.ssthresh);
        self.in_flight.push(info.in_flight);
        self.srtt.push(info.srtt);
        self.rate.push(info.delivery_rate);
        self.queue.push(Bytes(queue));
    }
}

#[derive(Debug)]
pub(crate) struct Recorder {
    session: SessionId,
    link: Option<u32>,
    every: Span,
    series: Series,
}

impl Sim {
    /// Records the state of the sender of `session`, and the bytes queued at a link, from the creation of the session
    /// until it releases its connection: now, and then at intervals of `every`, which is at least 1 ns.
    pub fn record(&mut self, session: SessionId, link: Option<u32>, every: Span) -> SeriesId {
        if let Some(link) = link {
            let _ = self.link(link);
        }
        let number = self.recorders.len() as u32;
        let every = every.max(Span::from_nanos(1));
        self.recorders.push(Recorder { session, link, every, series: Series::default() });
        self.sample(number);
        SeriesId(number)
    }

    /// Returns a series as recorded so far.
    pub fn series(&self, id: SeriesId) -> &Series {
        &self.recorders[id.0 as usize].series
    }

    /// Takes a sample, and schedules the next one unless the session has ended.
    pub(crate) fn sample(&mut self, number: u32) {
        let &Recorder { session: id, link, every, .. } = &self.recorders[number as usize];
        let (now, session) = (self.now(), self.find(id));
        let released = session.is_some_and(|session| session.released);
        let host = self.host(id.host);
        let connection = session.and_then(|session| host.endpoint.connection(session.id));
        if let Some(info) = connection.map(|connection| connection.info(host.clock(now))) {
            let queue = link.map_or(0, |link| self.link(link).backlog().1);
            self.recorders[number as usize].series.push(now, &info, queue);
        }
        if !released {
            self.plan_sample(now + every, number);
        }
    }
}
