//! Runs one end's half of a test: its streams, the clock, and the reports.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use longhaul::TcpStream;
use tokio::io::AsyncWrite;
use tokio::net::UdpSocket;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use super::meter::{Meter, Reader};
use super::pacing::Departures;
use super::protocol::{self, Message, Params};
use super::results::{Interval, Results};
use super::session::{Event, Facts};
use super::timing::Timing;
use super::{tcp, udp, usage};

pub(crate) struct Stream {
    pub(crate) sends: bool,
    pub(crate) channel: Channel,
    /// Bytes that identify the stream to the other end; the sender writes them before the data.
    pub(crate) opening: Vec<u8>,
}

pub(crate) enum Channel {
    /// A longhaul connection whose sender has not yet identified the stream.
    Expected,
    Tcp(TcpStream),
    Udp(UdpSocket),
}

struct Half<'a, F> {
    params: &'a Params,
    timing: Timing,
    readers: Vec<Reader>,
    usage: usage::Meter,
    last_usage: usage::Reading,
    last: f64,
    /// Start of the measurement in seconds after the start of the test; `None` until then.
    base: Option<f64>,
    observe: &'a mut F,
}

/// Runs `streams`, including the expected ones as they arrive. Reports events to `observe`, and the end of this end's
/// datagrams on `control`. `done` receives the numbers of datagrams that the other end has sent.
pub(crate) async fn run<F: FnMut(Event<'_>)>(
    (params, timing): (&Params, Timing),
    streams: Vec<Stream>,
    arrivals: &mut mpsc::Receiver<(usize, TcpStream)>,
    done: watch::Receiver<Option<Vec<u64>>>,
    control: &Mutex<impl AsyncWrite + Unpin>,
    observe: &mut F,
) -> Result<Results> {
    let _cancel = timing.cancelled.on_drop();
    let usage = usage::Meter::start();
    let first_usage = usage.read();
    let mut half = Half {
        params,
        readers: streams.iter().map(|stream| Reader::new(stream.sends)).collect(),
        usage,
        last_usage: first_usage,
        last: 0.0,
        base: (params.omit == 0).then_some(0.0),
        timing: timing.clone(),
        observe,
    };
    let mut tasks = JoinSet::new();
    let (stop, mut stops) = mpsc::unbounded_channel();
    let mut facts = vec![Facts::default(); streams.len()];
    let mut received = 0..;
    let mut expected = 0;
    let mut begin = |half: &mut Half<'_, F>, tasks: &mut JoinSet<Result<()>>, number: usize, stream: Stream| {
        half.note_start(number, &stream.channel);
        if let Some(facts) = facts.get_mut(number) {
            *facts = Facts::new(&stream.channel);
        }
        let stop = stop.clone();
        let stopped = move |at: f64| {
            // The receiver is dropped if the test has failed.
            let _ = stop.send((number, at));
        };
        let place = if stream.sends { 0 } else { received.next().unwrap_or(0) };
        let Some(meter) = half.readers.get(number).map(|reader| Arc::clone(&reader.meter)) else { return };
        tasks.spawn(stream_task(stream, meter, timing.clone(), params, (done.clone(), place), number, stopped));
    };
    for (number, stream) in streams.into_iter().enumerate() {
        match stream.channel {
            Channel::Expected => expected += 1,
            _ => begin(&mut half, &mut tasks, number, stream),
        }
    }
    let patience = sleep(timing.patience);
    tokio::pin!(patience);
    while expected > 0 {
        tokio::select! {
            Some((number, tcp)) = arrivals.recv() => {
                let stream = Stream { sends: false, channel: Channel::Tcp(tcp), opening: Vec::new() };
                begin(&mut half, &mut tasks, number, stream);
                expected -= 1;
            }
            Some(ended) = tasks.join_next() => passed_on(ended)?,
            () = &mut patience => bail!("the client did not open its streams"),
        }
    }
    (half.observe)(Event::Begin(&facts));
    let ends = half.until_all_stopped(&mut tasks, &mut stops, control).await?;
    half.last_interval(ends.iter().copied().fold(0.0, f64::max));
    while let Some(ended) = tasks.join_next().await {
        passed_on(ended)?;
    }
    let cpu = half.usage.read().since(&first_usage);
    // A test that ended before the measurement started has duration zero.
    let base = half.base.unwrap_or(f64::MAX);
    let results = half.readers.iter().zip(ends);
    let streams = results.map(|(reader, end)| reader.result((end - base).max(0.0))).collect();
    Ok(Results { streams, cpu, ..Results::default() })
}

/// Returns the result of a task, and resumes a panic of the task.
fn passed_on(ended: Result<Result<()>, JoinError>) -> Result<()> {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Returns the task of stream `number`, which does not borrow `params`.
fn stream_task(
    stream: Stream,
    meter: Arc<Meter>,
    timing: Timing,
    params: &Params,
    done: (watch::Receiver<Option<Vec<u64>>>, usize),
    number: usize,
    stopped: impl FnOnce(f64) + Send + 'static,
) -> impl Future<Output = Result<()>> + Send + 'static {
    let (length, rate, burst) = (params.length as usize, params.rate, params.burst);
    // Each stream has its own seed, so that streams do not send at the same times.
    let seed = params.poisson.then(|| params.seed.wrapping_mul(1 << 8).wrapping_add(number as u64));
    async move {
        match (stream.channel, stream.sends) {
            (Channel::Tcp(tcp), true) => {
                let load = tcp::Load { opening: stream.opening, length, rate, burst };
                tcp::send(tcp, meter, timing, load, stopped).await
            }
            (Channel::Tcp(tcp), false) => {
                // A sender that keeps the agreed rate is never slowed down: the slack is one second's worth of data and
                // one burst.
                let slack = rate / 8 + length as u64 * u64::from(burst.max(1));
                tcp::receive(tcp, meter, timing, (rate, slack), stopped).await
            }
            (Channel::Udp(socket), true) => {
                udp::send(socket, meter, timing, (length, Departures::new(length, (rate, burst), seed)), stopped).await
            }
            (Channel::Expected, _) => bail!("the stream did not arrive"),
            (Channel::Udp(socket), false) => udp::receive(socket, meter, timing, done, stopped).await,
        }
    }
}

impl<F: FnMut(Event<'_>)> Half<'_, F> {
    /// Runs the reports until every stream has stopped. Returns the end of each in seconds after the start.
    async fn until_all_stopped(
        &mut self,
        tasks: &mut JoinSet<Result<()>>,
        stops: &mut mpsc::UnboundedReceiver<(usize, f64)>,
        control: &Mutex<impl AsyncWrite + Unpin>,
    ) -> Result<Vec<f64>> {
        let mut ends = vec![None; self.readers.len()];
        let mut senders = self.readers.iter().filter(|reader| reader.sender).count();
        while ends.contains(&None) {
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
                Some(ended) = tasks.join_next() => passed_on(ended)?,
                () = self.next_tick() => self.tick(),
            }
        }
        Ok(ends.into_iter().flatten().collect())
    }

    /// Records the state at the start, to exclude earlier activity of the connection, such as waiting, from the
    /// measurement.
    fn note_start(&mut self, number: usize, channel: &Channel) {
        let Some(reader) = self.readers.get_mut(number) else { return };
        if let Channel::Tcp(tcp) = channel
            && let Ok(info) = tcp.info()
        {
            reader.meter.with(|gauge| gauge.sample(info));
        }
        reader.begin();
    }

    /// Returns the end of the next interval in seconds after the start, or `None` if it ends with the streams.
    fn next_end(&self) -> Option<f64> {
        let omit = f64::from(self.params.omit);
        let begin = if self.base.is_some() { omit } else { 0.0 };
        let interval = self.params.interval;
        let regular = (interval > 0.0).then(|| {
            // If an interval ended late, the next regular end may be very near: then it is skipped.
            begin + interval * (((self.last - begin) / interval + 0.1).floor() + 1.0)
        });
        if self.base.is_none() {
            return Some(regular.map_or(omit, |regular| regular.min(omit)));
        }
        // If this end only sends, the last interval ends exactly when the streams stop.
        let last = self.timing.end().filter(|_| self.readers.iter().all(|reader| reader.sender));
        regular.filter(|regular| last.is_none_or(|last| *regular < last - 0.001))
    }

    async fn next_tick(&self) {
        match self.next_end() {
            Some(end) => sleep(Duration::from_secs_f64((end - self.timing.elapsed()).max(0.0))).await,
            None => std::future::pending().await,
        }
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
        let usage = self.usage.read();
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
            (self.observe)(Event::Interval(&interval));
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
        let sent = senders.map(|reader| reader.meter.with(|gauge| gauge.udp.map_or(0, |udp| udp.packets))).collect();
        Ok(protocol::write(&mut *control.lock().await, &Message::Done(sent)).await?)
    }
}
