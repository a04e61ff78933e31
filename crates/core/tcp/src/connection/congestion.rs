//! Congestion-control driver: the controller and the transport state that belongs to it. That state comprises the
//! pacer, delivery-rate samples, round-trip counting, the time spent under each send limit, and cached metrics of the
//! path.
//!
//! Most of that state concerns sending only. If the controller can be replaced by a new one, this state is dropped
//! after an idle period and created again when it is needed, so that idle connections take little memory ([`Origin`]).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use longhaul_cc::{
    AckedSegment, BuildParams, Control, Controller, Demands, Granted, LostSegment, NeedError, Pace, Pacer, Path,
    PathEvent, SendLimit,
};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::burst_length::BurstLength;
use super::metrics_cache::PathHistory;
use super::rate::RateSampler;
use super::{Loss, Reclaim, Reclaimable, Sender};
use crate::{Config, RttEstimator};

/// Segments reported in the next ACK event. The buffers are reused from one ACK to the next.
#[derive(Debug, Default)]
pub(super) struct SegmentLists {
    pub(super) acked: Vec<AckedSegment>,
    pub(super) lost: Vec<LostSegment>,
}

#[derive(Debug)]
pub(super) struct CongestionDriver {
    /// State that controls sending.
    pub(super) sending: Reclaimable<SendControl>,
    pub(super) rate: RateSampler,
    pub(super) history: PathHistory,
    pub(super) limits: LimitClock,
    pub(super) handshake_rtt: Option<Span>,
    pub(super) handshake_lossy: bool,
}

/// Information from which another [`SendControl`] is created if the controller can be replaced by a new one.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) config: Arc<Config>,
    created_at: Time,
    /// The segment size assumed before the handshake.
    mss: Bytes,
    /// Whether the controller has other parameters than those for an unknown path.
    is_altered: bool,
    /// Time at which the connection was established, and the features granted to the controller.
    pub(super) established: Option<(Time, Granted)>,
    /// The path at the time when the last `SendControl` was dropped.
    path: Option<Box<Path>>,
}

#[derive(Debug)]
pub(super) struct SendControl {
    pub(super) controller: Box<dyn Controller>,
    /// The controller's latest decision, limited by the configured maxima and on short paths.
    pub(super) control: Control,
    /// Whether the window is smaller than the controller's because the path is short.
    is_bounded: bool,
    pub(super) pacer: Pacer,
    pub(super) bursts: BurstLength,
    pub(super) rounds: Rounds,
    pub(super) segments: Option<Box<SegmentLists>>,
    /// The segment size last reported to the controller.
    pub(super) mss: Bytes,
    pub(super) congestion_seen: bool,
}

/// Connection state that the driver needs for pacing and for short paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    pub(super) mss: Bytes,
    pub(super) srtt: Option<Span>,
    pub(super) min_rtt: Option<Span>,
    pub(super) recovering: bool,
    /// Time within which segments may be joined.
    pub(super) patience: Span,
}

/// Burst on a path with the lowest RTT, the RTT that halves it, and the number of halvings after which the pacer's own
/// quantum is used.
const SHORT_PATH_BURST: Bytes = Bytes(256 << 10);
const HALVED_EACH: Span = Span::from_micros(128);
const MAX_HALVINGS: u64 = 4;
/// Number of bytes that may be in flight on such a path in addition to its bandwidth-delay product.
const SHORT_PATH_WINDOW: Bytes = Bytes(1 << 20);
/// Rate of the fastest common network card, from which the bandwidth-delay product is computed.
const FASTEST: Rate = Rate::from_bits_per_sec(100_000_000_000);
/// Smoothed RTT at which such a path is no longer treated as short: the route has changed, or a slow link has a queue.
const LONG_PATH: Span = Span::from_millis(16);

impl Pacing {
    /// Returns the burst that is always permitted on a path within a host or rack, where it takes as long as the
    /// error of a timer: 256 KiB, and half of it for each 128 us of the minimum RTT. Linux's TCP adds up to 64 KiB to
    /// its offload batches in a similar way, halved for each 512 us, and does not pace by default.
    fn burst(self) -> Option<Bytes> {
        let halvings = self.min_rtt?.as_nanos() / HALVED_EACH.as_nanos();
        (halvings < MAX_HALVINGS).then(|| Bytes(SHORT_PATH_BURST.0 >> halvings))
    }

    /// Returns the largest window on a path within a host or rack. If such a path has a long RTT, a host is busy, and
    /// more data in flight would only wait there: it would leave the processor's caches and overflow the buffer of the
    /// peer's socket. Linux's TCP limits the data waiting in its own host in a similar way (`tcp_limit_output_bytes`).
    fn window(self) -> Option<Bytes> {
        let rtt = self.min_rtt.filter(|rtt| *rtt < HALVED_EACH * MAX_HALVINGS)?;
        self.srtt.is_none_or(|srtt| srtt < LONG_PATH).then(|| SHORT_PATH_WINDOW + FASTEST.bytes_in(rtt))
    }
}

impl CongestionDriver {
    pub(super) fn new(config: &Arc<Config>, mss: Bytes, now: Time) -> Self {
        let config = Arc::clone(config);
        let origin = Origin { config, created_at: now, mss, is_altered: false, established: None, path: None };
        Self {
            sending: Reclaimable::new(origin),
            rate: RateSampler::new(now),
            history: PathHistory::default(),
            limits: LimitClock::new(now),
            handshake_rtt: None,
            handshake_lossy: false,
        }
    }

    /// Returns the lists of segments for the next ACK event, if the controller requested them. Without a controller, no
    /// outstanding data could be acknowledged or lost.
    pub(super) fn segments_mut(&mut self) -> Option<&mut SegmentLists> {
        self.sending.made_mut()?.segments.as_deref_mut()
    }

    /// Passes the send control to `read`. If it was dropped, it is not created.
    pub(super) fn peek<T>(&self, read: impl FnOnce(&SendControl) -> T) -> T {
        match self.sending.made() {
            Some(sending) => read(sending),
            None => read(&SendControl::from_kept(&self.sending.kept)),
        }
    }

    /// Drops the send control for `path` if it is dispensable after an idle period of `idle`.
    pub(super) fn drop_if_dispensable(&mut self, config: &Arc<Config>, path: &Path, idle: Span) {
        self.sending.rest(|sending, origin| {
            let is_dispensable = !origin.is_altered && sending.controller.is_dispensable(idle);
            if is_dispensable {
                (origin.config, origin.path) = (Arc::clone(config), Some(Box::new(*path)));
            }
            is_dispensable
        });
    }

    pub(super) fn path(&self, snd: &Sender, loss: &Loss, rtt: &RttEstimator, mss: u16) -> Path {
        let mut path = Path::new(Bytes::from(mss));
        path.srtt = rtt.srtt;
        path.rttvar = rtt.rttvar;
        path.latest_rtt = rtt.latest;
        path.min_rtt = rtt.min;
        path.handshake_rtt = self.handshake_rtt;
        path.peer_window = Bytes(snd.window);
        path.queued = Bytes(snd.unsent());
        path.handshake_lossy = self.handshake_lossy;
        path.sack = !loss.counts_duplicates();
        path
    }

    /// Returns the unused part of the congestion window, in bytes.
    pub(super) fn room(&self, snd: &Sender, loss: &Loss) -> u64 {
        self.control.cwnd.0.saturating_sub(loss.pipe(&snd.board))
    }

    /// Returns how many bytes wait for transmission or retransmission and fit into the congestion window.
    pub(super) fn waiting_bytes(&self, snd: &Sender, loss: &Loss) -> u64 {
        (snd.unsent() + snd.board.lost_bytes).min(self.room(snd, loss))
    }

    pub(super) fn rebuild(&mut self, config: &Config, params: &BuildParams) {
        self.controller = config.congestion.build(params);
        self.control = self.controller.control();
        // The controller is kept, because it was built for a known path.
        self.sending.kept.is_altered = true;
    }

    pub(super) fn set_limit(&mut self, now: Time, limit: SendLimit, in_episode: bool) {
        let current = self.limits.current;
        if limit == current {
            return;
        }
        if let Some(sending) = self.sending.made() {
            self.history.keep_ssthresh(&sending.control, current, limit, in_episode);
        }
        self.limits.account(now);
        self.limits.current = limit;
    }

    /// Returns whether the controller's window limits the sender, or has in this round trip. It does not while a
    /// smaller window is in force.
    pub(super) fn is_cwnd_limited(&self, prior_in_flight: Bytes) -> bool {
        // RFC 7661, section 4.2: cwnd is validated if at least half of it is used. A pacer derived from cwnd does not
        // hold back more than that, but it can be the only limit after the RTT has decreased.
        let paced = self.limits.current == SendLimit::Pacing && prior_in_flight * 2 >= self.control.cwnd;
        !self.is_bounded && (self.rounds.limited || self.limits.current == SendLimit::Cwnd || paced)
    }
}

impl Deref for CongestionDriver {
    type Target = SendControl;

    fn deref(&self) -> &SendControl {
        &self.sending
    }
}

impl DerefMut for CongestionDriver {
    fn deref_mut(&mut self) -> &mut SendControl {
        &mut self.sending
    }
}

impl Reclaim for SendControl {
    type Kept = Origin;

    fn from_kept(origin: &Origin) -> Self {
        let mut sending = Self::new(&origin.config, origin.mss, origin.created_at);
        if let (Some((now, granted)), Some(path)) = (origin.established, &origin.path) {
            // An earlier instance of this controller accepted the same grants.
            let _ = sending.start(&granted, path);
            sending.controller.on_event(&PathEvent::Established { now, granted }, path);
            let (mss, srtt, min_rtt) = (path.mss, path.srtt, path.min_rtt);
            sending.refresh(
                now,
                &origin.config,
                Pacing { mss, srtt, min_rtt, recovering: false, patience: Span::ZERO },
            );
        }
        sending
    }
}

impl SendControl {
    fn new(config: &Config, mss: Bytes, now: Time) -> Self {
        let controller = config.congestion.build(&build_params(config, mss));
        Self {
            control: controller.control(),
            controller,
            is_bounded: false,
            pacer: Pacer::new(now),
            bursts: BurstLength::new(),
            rounds: Rounds::default(),
            segments: None,
            mss: Bytes::ZERO,
            congestion_seen: false,
        }
    }

    /// Returns the features that the controller requires or prefers.
    pub(super) fn wants(&self) -> Demands {
        let needs = self.controller.needs();
        needs.required.union(needs.preferred)
    }

    pub(super) fn start(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.segments = granted.segments.then(Box::default);
        self.mss = path.mss;
        self.controller.on_granted(granted, path)
    }

    /// Reads the controller's decision, limits it and configures the pacer. Must follow every event that is reported to
    /// the controller.
    pub(super) fn refresh(&mut self, now: Time, config: &Config, pacing: Pacing) {
        self.control = self.controller.control();
        let mss = pacing.mss;
        self.control.cwnd = mss.max(self.control.cwnd).min(Bytes(config.max_cwnd)).max(mss);
        let most = pacing.window().unwrap_or(self.control.cwnd);
        self.is_bounded = most < self.control.cwnd;
        self.control.cwnd = self.control.cwnd.min(most);
        let ceiling = config.max_pacing_rate;
        let default = || self.default_pace(pacing).map(Pace::new);
        let mut pace = match self.control.pace.or_else(default) {
            Some(mut pace) => {
                pace.rate = pace.rate.min(ceiling);
                Some(pace)
            }
            None => (ceiling != Rate::MAX).then_some(Pace::new(ceiling)),
        };
        // A limit that the application has set is also kept on short paths.
        if let (Some(pace), Some(burst)) = (pace.as_mut().filter(|pace| pace.rate < ceiling), pacing.burst()) {
            pace.quantum.get_or_insert(Pacer::default_quantum(pace.rate, mss).max(burst));
        }
        if let Some(pace) = pace.as_mut().filter(|pace| pace.quantum.is_none()) {
            let joined = self.bursts.limit(pace.rate.bytes_in(pacing.patience), mss);
            pace.quantum = Some(Pacer::default_quantum(pace.rate, mss).max(joined));
        }
        self.pacer.set(now, pace, mss);
    }

    /// Returns the pacing rate if the controller leaves it to the transport: 2 cwnd/SRTT in slow start, so that the
    /// window can double per round trip, and 1.2 cwnd/SRTT otherwise.
    ///
    /// During recovery cwnd is the data in flight plus the data released by the last ACK. A pacing rate derived from it
    /// would delay the released data until the next ACK, which replaces the allowance: with little data in flight,
    /// recovery would be stuck at two segments per round trip. Recovery is therefore paced by ssthresh, the window
    /// after recovery.
    fn default_pace(&self, Pacing { srtt, recovering, .. }: Pacing) -> Option<Rate> {
        let srtt = srtt?.max(Span::from_micros(1));
        let cwnd = self.control.cwnd;
        if !self.congestion_seen {
            return Some(Rate::from_bytes_over(cwnd, srtt).mul_f64(2.0));
        }
        let (window, gain) = match self.control.ssthresh.filter(|ssthresh| cwnd < *ssthresh) {
            Some(ssthresh) if recovering => (ssthresh, 1.2),
            Some(_) => (cwnd, 2.0),
            None => (cwnd, 1.2),
        };
        Some(Rate::from_bytes_over(window, srtt).mul_f64(gain))
    }
}

pub(super) fn build_params(config: &Config, mss: Bytes) -> BuildParams {
    let mut params = BuildParams::default();
    params.mss = mss;
    params.max_cwnd = Bytes(config.max_cwnd);
    params.shared_clock = config.shared_clock;
    params
}

/// Round-trip counter in sequence space.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// The round ends when this offset is acknowledged.
    end: u64,
    /// Bytes delivered before the round began, if one has.
    delivered: Option<u64>,
    /// Whether the congestion window was full at some time in this round, and in the previous round. A paced sender
    /// fills its window only late in the round.
    pub(super) limited: bool,
    pub(super) was_limited: bool,
}

impl Rounds {
    /// Returns the bytes delivered in the round that an ACK up to `una` ends, if it ends one. A round ends when the
    /// data in flight at its start is acknowledged. Because a hole can delay that for many round trips, it also ends
    /// when data sent during the round is delivered; `sent_after` is the number of bytes delivered when the newest
    /// delivered segment was sent.
    pub(super) fn advance(&mut self, una: u64, nxt: u64, delivered: u64, sent_after: Option<u64>) -> Option<u64> {
        let is_later = sent_after.zip(self.delivered).is_some_and(|(before, delivered)| before >= delivered);
        if una < self.end && !is_later {
            return None;
        }
        self.end = nxt;
        let before = self.delivered.replace(delivered);
        Some(delivered.saturating_sub(before.unwrap_or(delivered)))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LimitClock {
    pub(super) current: SendLimit,
    since: Time,
    spent: [Span; 6],
}

impl LimitClock {
    fn new(now: Time) -> Self {
        Self { current: SendLimit::App, since: now, spent: [Span::ZERO; 6] }
    }

    pub(super) fn account(&mut self, now: Time) {
        self.spent = self.spent(now, true);
        self.since = now;
    }

    /// Returns the time spent under each limit until `now`. The time since the last change counts only while the
    /// connection is `open`.
    pub(super) fn spent(&self, now: Time, open: bool) -> [Span; 6] {
        let mut spent = self.spent;
        if let Some(current) = spent.get_mut(self.current as usize).filter(|_| open) {
            *current += now - self.since;
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes(1000);
    /// State of a path without an RTT sample.
    const UNKNOWN: Pacing = Pacing { mss: MSS, srtt: None, min_rtt: None, recovering: false, patience: Span::ZERO };

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// The default pacing gain is 2 cwnd/SRTT in slow start and 1.2 otherwise; in recovery ssthresh replaces cwnd.
    #[test]
    fn the_default_pace() {
        let config = Config::default();
        let mut driver = SendControl::new(&config, MSS, at(0));
        let pace = |driver: &SendControl, recovering| {
            let pacing = Pacing { mss: MSS, srtt: Some(Span::from_millis(100)), recovering, ..UNKNOWN };
            driver.default_pace(pacing).map(Rate::as_bytes_per_sec)
        };
        driver.control = Control::window(MSS * 10);
        assert_eq!(pace(&driver, false), Some(200_000));
        driver.congestion_seen = true;
        assert_eq!(pace(&driver, false), Some(120_000));
        driver.control.ssthresh = Some(MSS * 20);
        assert_eq!((pace(&driver, false), pace(&driver, true)), (Some(200_000), Some(240_000)));
        driver.control.ssthresh = Some(MSS * 5);
        assert_eq!(pace(&driver, true), Some(120_000));
        assert_eq!(driver.default_pace(UNKNOWN), None);
    }

    /// Linux adds 64 KiB >> (min RTT / 512 us) to its offload batches.
    #[test]
    fn bursts_are_larger_on_paths_shorter_than_half_a_millisecond() {
        let burst = |micros| Pacing { min_rtt: Some(Span::from_micros(micros)), ..UNKNOWN }.burst();
        assert_eq!(UNKNOWN.burst(), None);
        assert_eq!([20, 127, 128, 300, 511].map(burst), [256, 256, 128, 64, 32].map(|kib| Some(Bytes(kib << 10))));
        assert_eq!([512, 10_000].map(burst), [None; 2]);

        // The window of one segment is paced at 2 x 1000 bytes per 50 us, and 10 kB per 250 us.
        let mut driver = SendControl::new(&Config::default(), MSS, at(0));
        let mut quantum = |min_rtt| {
            let srtt = Some(Span::from_micros(50));
            driver.refresh(at(0), &Config::default(), Pacing { srtt, min_rtt, ..UNKNOWN });
            driver.pacer.quantum()
        };
        assert_eq!(quantum(Some(Span::from_millis(10))), Bytes(10_000));
        assert_eq!(quantum(Some(Span::from_micros(300))), Bytes(64 << 10));
        assert_eq!(quantum(Some(Span::from_micros(600))), Bytes(10_000));

        // 8 Mb/s, of which 250 us are less than two segments.
        let limited = Config { max_pacing_rate: Rate::from_bits_per_sec(8_000_000), ..Config::default() };
        let srtt = Some(Span::from_micros(50));
        driver.refresh(at(0), &limited, Pacing { srtt, min_rtt: srtt, ..UNKNOWN });
        assert_eq!((driver.pacer.quantum(), driver.pacer.rate()), (MSS * 2, Some(Rate::from_bits_per_sec(8_000_000))));
    }

    /// 100 Gb/s are 12.5 kB per microsecond.
    #[test]
    fn the_window_is_bounded_on_short_paths_only() {
        let window = |min_rtt, srtt| {
            let [min_rtt, srtt] = [min_rtt, srtt].map(|micros| Some(Span::from_micros(micros)));
            Pacing { min_rtt, srtt, ..UNKNOWN }.window().map(|bytes| bytes.0 - (1 << 20))
        };
        assert_eq!(UNKNOWN.window(), None);
        assert_eq!([window(20, 20), window(511, 15_999)], [Some(250_000), Some(6_387_500)]);
        assert_eq!([window(512, 600), window(20, 16_000)], [None; 2]);

        // A window that is larger than this bound does not limit the sender, and must not grow further. Each window has at
        // least one segment.
        let mss = SHORT_PATH_WINDOW * 2;
        let mut driver = CongestionDriver::new(&Arc::default(), mss, at(0));
        driver.rounds.limited = true;
        let mut limited = |millis| {
            let rtt = Some(Span::from_millis(millis));
            driver.refresh(at(0), &Config::default(), Pacing { mss, srtt: rtt, min_rtt: rtt, ..UNKNOWN });
            (driver.control.cwnd > SHORT_PATH_WINDOW, driver.is_cwnd_limited(Bytes::ZERO))
        };
        assert_eq!([limited(1), limited(0)], [(true, true), (false, false)]);
    }

    /// Up to four segments of a steady stream are joined at first, in the time that moderation permits.
    #[test]
    fn moderation_enlarges_the_quantum() {
        let quantum = |bits: u64, patience| {
            let config = Config { max_pacing_rate: Rate::from_bits_per_sec(bits), ..Config::default() };
            let mut driver = SendControl::new(&config, MSS, at(0));
            let millis_100 = Some(Span::from_millis(100));
            driver.refresh(at(0), &config, Pacing { srtt: None, min_rtt: millis_100, patience, ..UNKNOWN });
            driver.pacer.quantum()
        };
        let milli = Span::from_millis(1);
        assert_eq!(
            [Span::ZERO, milli, milli * 4].map(|patience| quantum(80_000_000, patience)),
            [2500, 4000, 4000].map(Bytes)
        );
        // A quantum of 250 us with more than four segments stays as it is.
        assert_eq!([Span::ZERO, milli].map(|patience| quantum(800_000_000, patience)), [Bytes(25_000); 2]);
        assert_eq!(quantum(8_000_000, milli), MSS * 2);
    }

    /// A round ends when its data is acknowledged or data sent during it is delivered.
    #[test]
    fn rounds_end_with_data_in_flight_or_sent_since() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.advance(1, 10_001, 0, None), Some(0));
        assert_eq!(rounds.advance(9001, 20_001, 9000, None), None);
        assert_eq!(rounds.advance(10_001, 20_001, 10_000, None), Some(10_000));
        // A hole holds SND.UNA back. The newest delivered segment was sent after 9,999, then after 10,000 delivered
        // bytes.
        assert_eq!(rounds.advance(10_001, 30_001, 15_000, Some(9999)), None);
        assert_eq!(rounds.advance(10_001, 30_001, 16_000, Some(10_000)), Some(6000));
    }

    #[test]
    fn limits_are_timed() {
        let mut clock = LimitClock::new(at(0));
        clock.account(at(10));
        clock.current = SendLimit::Cwnd;
        clock.account(at(15));
        let spent = |open| {
            let spent = clock.spent(at(35), open);
            [SendLimit::App, SendLimit::Cwnd].map(|limit| spent[limit as usize].as_nanos() / 1_000_000)
        };
        assert_eq!((spent(false), spent(true)), ([10, 5], [10, 25]));
    }
}
