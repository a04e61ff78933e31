//! Time series of a sender's state, stored as columns.

use longhaul_tcp::Info;
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::sim::{SessionId, Sim};

/// When a row is added to a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Immediately, and then at this interval, which is at least 1 ns.
    Every(Span),
    /// After each event at the session's host that changed the row.
    Event,
}

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

#[derive(Debug)]
pub(crate) struct Recorder {
    session: SessionId,
    link: Option<u32>,
    sampling: Sampling,
    series: Series,
}

#[derive(Clone, Copy, PartialEq)]
struct Row {
    cwnd: Bytes,
    ssthresh: Option<Bytes>,
    in_flight: Bytes,
    srtt: Option<Span>,
    rate: Option<Rate>,
    queue: Bytes,
}

impl Series {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    fn row(&self, row: usize) -> Option<Row> {
        Some(Row {
            cwnd: *self.cwnd.get(row)?,
            ssthresh: *self.ssthresh.get(row)?,
            in_flight: *self.in_flight.get(row)?,
            srtt: *self.srtt.get(row)?,
            rate: *self.rate.get(row)?,
            queue: *self.queue.get(row)?,
        })
    }

    fn push(&mut self, time: Time, row: Row) {
        self.time.push(time);
        self.cwnd.push(row.cwnd);
        self.ssthresh.push(row.ssthresh);
        self.in_flight.push(row.in_flight);
        self.srtt.push(row.srtt);
        self.rate.push(row.rate);
        self.queue.push(row.queue);
    }
}

impl Row {
    fn new(info: &Info, queue: u64) -> Self {
        let &Info { cwnd, ssthresh, in_flight, srtt, delivery_rate: rate, .. } = info;
        Self { cwnd, ssthresh, in_flight, srtt, rate, queue: Bytes(queue) }
    }
}

impl Sim {
    /// Records the state of the sender of `session`, and the bytes queued at a link, from the creation of the session
    /// until it releases its connection.
    pub fn record(&mut self, session: SessionId, link: Option<u32>, sampling: Sampling) -> SeriesId {
        if let Some(link) = link {
            let _ = self.link(link);
        }
        let number = self.recorders.len() as u32;
        self.recorders.push(Recorder { session, link, sampling, series: Series::default() });
        match sampling {
            Sampling::Event => self.add_follower(session.host, number),
            Sampling::Every(_) => self.sample(number),
        }
        SeriesId(number)
    }

    /// Returns a series as recorded so far.
    pub fn series(&self, id: SeriesId) -> &Series {
        &self.recorders[id.0 as usize].series
    }

    /// Takes a sample, and schedules the next one unless the session has ended.
    pub(crate) fn sample(&mut self, number: u32) {
        let recorder = &self.recorders[number as usize];
        let Sampling::Every(interval) = recorder.sampling else { return };
        let released = self.find(recorder.session).is_some_and(|session| session.released);
        self.add_row(number, false);
        if !released {
            self.plan_sample(self.now() + interval.max(Span::from_nanos(1)), number);
        }
    }

    /// Adds a row with the current state. With `only_if_new`, a row equal to the last one is not added.
    pub(crate) fn add_row(&mut self, number: u32, only_if_new: bool) {
        let recorder = &self.recorders[number as usize];
        let Some(session) = self.find(recorder.session) else { return };
        let host = self.host(recorder.session.host);
        let Some(connection) = host.endpoint.connection(session.id) else { return };
        let info = connection.info(host.clock(self.now()));
        let queue = recorder.link.map_or(0, |link| self.link(link).backlog().1);
        let (row, now) = (Row::new(&info, queue), self.now());
        let series = &mut self.recorders[number as usize].series;
        if !only_if_new || series.len().checked_sub(1).and_then(|last| series.row(last)) != Some(row) {
            series.push(now, row);
        }
    }
}
