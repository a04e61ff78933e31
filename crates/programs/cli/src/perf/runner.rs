//! Runs one end's half of a test: its streams, the clock, and the reports.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use longhaul::TcpStream;
use tokio::io::AsyncWrite;
use tokio::net::UdpSocket;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use super::meter::Reader;
use super::pacing::Departures;
use super::protocol::{self, Message, Params};
use super::reporter::Reporter;
use super::results::{Interval, MAX_SAMPLES, Results};
use super::session::Facts;
use super::timing::Timing;
use super::usage::Reading;
use super::{tcp, udp};
use crate::sync::lock;

pub(crate) struct Stream {
    pub(crate) sends: bool,
    pub(crate) channel: Channel,
}

pub(crate) enum Channel {
    /// A longhaul connection whose sender has not yet identified the stream.
    Expected,
    /// A connection, and bytes that identify the stream to the other end, which the sender writes before the data.
    Tcp(TcpStream, Vec<u8>),
    Udp(UdpSocket),
}

/// End of a stream: its number, and the time in seconds after the start.
type Stopped = (usize, f64);

struct Half<'a> {
    params: &'a Params,
    timing: Timing,
    report: &'a mut Reporter,
    readers: Vec<Reader>,
    facts: Vec<Facts>,
    tasks: JoinSet<Result<()>>,
    stop: mpsc::UnboundedSender<Stopped>,
    done: watch::Receiver<Option<Vec<u64>>>,
    last_usage: Reading,
    last: f64,
    /// Start of the measurement in seconds after the start of the test; `None` until then.
    base: Option<f64>,
    /// The first intervals, as many as fit in a message to the other end, and the number of omitted ones.
    intervals: Vec<Interval>,
    left_out: u64,
}

/// Runs `streams`, including the expected ones as they arrive. Notifies the other end on `control` when this end has
/// sent its last datagram. `done` receives the numbers of datagrams that the other end has sent.
pub(crate) async fn run(
    (params, timing): (&Params, Timing),
    streams: Vec<Stream>,
    arrivals: &mut mpsc::Receiver<(usize, TcpStream)>,
    done: watch::Receiver<Option<Vec<u64>>>,
    control: &Mutex<impl AsyncWrite + Unpin>,
    report: &mut Reporter,
) -> Result<Results> {
    let _cancel = timing.cancelled.on_drop();
    let patience = sleep(timing.patience);
    tokio::pin!(patience);
    let (clock, first_usage) = (timing.clock, Reading::take(timing.clock));
    let (stop, mut stops) = mpsc::unbounded_channel();
    let mut half = Half {
        params,
        timing,
        report,
        readers: streams.iter().map(|stream| Reader::new(stream.sends)).collect(),
        facts: vec![Facts::default(); streams.len()],
        tasks: JoinSet::new(),
        stop,
        done,
        last_usage: first_usage,
        last: 0.0,
        base: (params.omit == 0).then_some(0.0),
        intervals: Vec::new(),
        left_out: 0,
    };
    let mut expected = 0;
    for (number, stream) in streams.into_iter().enumerate() {
        match stream.channel {
            Channel::Expected => expected += 1,
            _ => half.begin(number, stream),
        }
    }
    while expected > 0 {
        tokio::select! {
            Some((number, tcp)) = arrivals.recv() => {
                half.begin(number, Stream { sends: false, channel: Channel::Tcp(tcp, Vec::new()) });
                expected -= 1;
            }
            Some(ended) = half.tasks.join_next() => passed_on(ended)?,
            () = &mut patience => bail!("the client did not open its streams"),
        }
    }
    half.report.begin(std::mem::take(&mut half.facts));
    let ends = half.until_all_stopped(&mut stops, control).await?;
    half.last_interval(ends.iter().copied().fold(0.0, f64::max));
    while let Some(ended) = half.tasks.join_next().await {
        passed_on(ended)?;
    }
    let cpu = Reading::take(clock).since(&first_usage);
    // A test that ended before the measurement started has duration zero.
    let base = half.base.unwrap_or(f64::MAX);
    let results = half.readers.iter().zip(ends);
    let streams = results.map(|(reader, end)| reader.result((end - base).max(0.0))).collect();
    Ok(Results { streams, intervals: half.intervals, intervals_left_out: half.left_out, cpu })
}

/// Returns the result of a task, and resumes a panic of the task.
fn passed_on(ended: Result<Result<()>, JoinError>) -> Result<()> {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

impl Half<'_> {
    fn begin(&mut self, number: usize, stream: Stream) {
        // The index among the streams on which the other end sends.
        let place = self.readers.iter().take(number).filter(|reader| !reader.sender).count();
        let Some((reader, facts)) = self.readers.get_mut(number).zip(self.facts.get_mut(number)) else { return };
        *facts = Facts::new(&stream.channel);
        // Earlier activity of the connection, such as waiting, is excluded from the measurement.
        if let Channel::Tcp(tcp, _) = &stream.channel
            && let Ok(info) = tcp.info()
        {
            lock(&reader.meter).sample(info);
        }
        reader.begin();
        let (meter, timing, done, stop) =
            (Arc::clone(&reader.meter), self.timing.clone(), self.done.clone(), self.stop.clone());
        let stopped = move |at: f64| {
            // The receiver is dropped if the test has failed.
            let _ = stop.send((number, at));
        };
        let Params { rate, burst, poisson, seed, .. } = *self.params;
        let length = self.params.length as usize;
        // Each stream has its own seed, so that streams do not send at the same times.
        let seed = poisson.then(|| seed.wrapping_mul(1 << 8).wrapping_add(number as u64));
        self.tasks.spawn(async move {
            match (stream.channel, stream.sends) {
                (Channel::Tcp(tcp, opening), true) => {
                    let load = tcp::Load { opening, length, rate, burst };
                    tcp::send(tcp, meter, timing, load, stopped).await
                }
                (Channel::Tcp(tcp, _), false) => {
                    // A sender that keeps the agreed rate is never slowed down: the slack is one second's worth of data
                    // and one burst.
                    let slack = rate / 8 + length as u64 * u64::from(burst.max(1));
                    tcp::receive(tcp, meter, timing, (rate, slack), stopped).await
                }
                (Channel::Udp(socket), true) => {
                    let departures = Departures::new(length, (rate, burst), seed);
                    udp::send(socket, meter, timing, (length, departures), stopped).await
                }
                (Channel::Udp(socket), false) => udp::receive(socket, meter, timing, (done, place), stopped).await,
                (Channel::Expected, _) => bail!("the stream did not arrive"),
            }
        });
    }

    /// Runs the reports until every stream has stopped. Returns the end of each in seconds after the start.
    async fn until_all_stopped(
        &mut self,
        stops: &mut mpsc::UnboundedReceiver<Stopped>,
        control: &Mutex<impl AsyncWrite + Unpin>,
    ) -> Result<Vec<f64>> {
        let mut ends = vec![None; self.readers.len()];
        let mut senders = self.readers.iter().filter(|reader| reader.sender).count();
        while ends.contains(&None) {
            let tick = self.next_tick();
            tokio::select! {
                biased;
                Some((number, at)) = stops.recv() => {
                    ends.get_mut(number).map(|end| end.replace(at));
                    let sends = self.readers.get(number).is_some_and(|reader| reader.sender);
                    senders = senders.saturating_sub(sends.into());
                    if senders == 0 && sends {
                        self.tell_done(control).await?;
                    }
                }
                Some(ended) = self.tasks.join_next() => passed_on(ended)?,
                () = tick => self.tick(),
            }
        }
        Ok(ends.into_iter().flatten().collect())
    }

    /// Returns the end of the next interval in seconds after the start, or `None` if it ends with the streams.
    fn next_end(&self) -> Option<f64> {
        let omit = f64::from(self.params.omit);
        let begin = if self.base.is_some() { omit } else { 0.0 };
        let interval = self.params.interval;
        let regular = (interval > 0.0).then(|| {
            // If an interval ended late, the next regular end may be very close, and is then skipped.
            begin + interval * (((self.last - begin) / interval + 0.1).floor() + 1.0)
        });
        if self.base.is_none() {
            return Some(regular.map_or(omit, |regular| regular.min(omit)));
        }
        // If this end only sends, the last interval ends exactly when the streams stop.
        let last = self.timing.end().filter(|_| self.readers.iter().all(|reader| reader.sender));
        regular.filter(|regular| last.is_none_or(|last| *regular < last - 0.001))
    }

    fn next_tick(&self) -> impl Future<Output = ()> + use<> {
        let left = self.next_end().map(|end| Duration::from_secs_f64((end - self.timing.elapsed()).max(0.0)));
        sleep(left.unwrap_or(Duration::MAX))
    }

    fn tick(&mut self) {
        let now = self.timing.elapsed();
        self.interval(now);
        if self.base.is_none() && now >= f64::from(self.params.omit) {
            self.base = Some(now);
            self.readers.iter_mut().for_each(Reader::omit);
            self.timing.count_from_now();
        }
    }

    fn interval(&mut self, now: f64) {
        let streams = self.readers.iter_mut().map(Reader::interval).collect();
        let usage = Reading::take(self.timing.clock);
        let offset = self.base.unwrap_or_default();
        let interval = Interval {
            start: (self.last - offset).max(0.0),
            end: (now - offset).max(0.0),
            omitted: self.base.is_none(),
            cpu_percent: usage.since(&self.last_usage).total,
            rss: usage.rss(),
            streams,
        };
        self.last = now;
        self.last_usage = usage;
        if self.params.interval > 0.0 {
            self.report.interval(&interval);
            if self.intervals.len() < MAX_SAMPLES / self.readers.len().max(1) {
                self.intervals.push(interval);
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Ends the last interval, unless it is negligibly short and empty.
    fn last_interval(&mut self, end: f64) {
        let long = end - self.last >= self.params.interval.max(0.1) / 10.0;
        let some = self.readers.iter().any(Reader::has_news);
        if long || some {
            let end = if end > self.last { end } else { self.timing.elapsed() };
            self.interval(end);
        }
    }

    async fn tell_done(&self, control: &Mutex<impl AsyncWrite + Unpin>) -> Result<()> {
        if self.params.protocol == protocol::Protocol::Tcp {
            return Ok(());
        }
        let senders = self.readers.iter().filter(|reader| reader.sender);
        let sent = senders.map(|reader| lock(&reader.meter).udp.map_or(0, |udp| udp.packets)).collect();
        Ok(protocol::write(&mut *control.lock().await, &Message::Done(sent)).await?)
    }
}
