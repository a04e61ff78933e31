//! Flipped pairs when the receiver's kernel merges segments: two network namespaces joined by a veth pair. Needs
//! root.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use longhaul::{Config, TcpListener, TcpPairs, TcpStream};
use longhaul_cc::registry::Safety;
use longhaul_cc::{
    Ack, BuildParams, Congestion, Controller, ControllerFactory, Granted, NeedError, Needs, Path, SegmentKind, Sent,
    TxId,
};
use longhaul_netns::{NetNs, VethPair};
use longhaul_units::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::common::needs_system_sockets;

/// Returns a veth pair whose far end coalesces segments if it can, or `None` if it cannot be created here.
fn merging_pair() -> Option<VethPair> {
    if !needs_system_sockets() || !needs::veth() || !needs::mounts() {
        return None;
    }
    let pair = VethPair::new().unwrap();
    pair.hold_arrivals().unwrap();
    Some(pair)
}

/// Statistics of arrivals.
#[derive(Debug, Default)]
struct Tally {
    segments: u64,
    /// Number of segments that the receiver's kernel coalesced with others.
    merged: u64,
    /// Number of segments of pairs. `merged_of_pairs` counts those that were coalesced.
    of_pairs: u64,
    merged_of_pairs: u64,
    /// Transmissions of pairs.
    pairs: HashSet<TxId>,
}

/// CUBIC that requests pairs and counts arrivals.
#[derive(Clone, Debug)]
struct Counting(Box<dyn Controller>, Arc<Mutex<Tally>>);

impl Controller for Counting {
    longhaul_cc::forward_controller!(0: name, on_timeout, on_event, on_tick, next_tick, control, snapshot);

    fn needs(&self) -> Needs {
        let mut needs = self.0.needs();
        (needs.preferred.segments, needs.preferred.arrival_times, needs.preferred.pairs) = (true, true, true);
        needs
    }

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        assert!(granted.segments && granted.arrival_times && granted.pairs);
        self.0.on_granted(granted, path)
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        // The first segment of a pair is two bytes shorter than a full segment.
        if event.bytes + Bytes(2) == path.mss && event.kind == SegmentKind::Data {
            self.1.lock().unwrap().pairs.extend([event.tx, TxId(event.tx.0 + 1)]);
        }
        self.0.on_sent(event, path);
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        let mut tally = self.1.lock().unwrap();
        for segment in event.acked {
            let (told, merged) = (u64::from(segment.arrival.is_some()), u64::from(segment.arrival_coalesced));
            if tally.pairs.contains(&segment.tx) {
                tally.of_pairs += told;
                tally.merged_of_pairs += merged;
            } else {
                tally.segments += told;
                tally.merged += merged;
            }
        }
        self.0.on_ack(event, path);
    }
}

#[derive(Debug)]
struct Count(Arc<Mutex<Tally>>);

impl ControllerFactory for Count {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(Counting(Congestion::default().build(params), Arc::clone(&self.0)))
    }

    fn name(&self) -> String {
        "cubic".to_owned()
    }

    fn safety(&self) -> Safety {
        Safety::Internet
    }
}

/// Runs a future on its own runtime in a namespace, so that its sockets belong to it.
fn within<R: Send>(namespace: &NetNs, future: impl Future<Output = R> + Send) -> R {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
    namespace.run(run).unwrap()
}

/// Transfers this many bytes between the namespaces, and returns the statistics of pairs and of all segments.
fn transfer(VethPair { near, far }: &VethPair, bytes: usize) -> (TcpPairs, Tally) {
    let (told, address) = oneshot::channel::<SocketAddr>();
    let tally = Arc::new(Mutex::new(Tally::default()));
    let receive = async {
        let listener = TcpListener::bind((VethPair::FAR_ADDR, 0)).await.unwrap();
        told.send(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 1 << 16];
        while stream.read(&mut buffer).await.unwrap() > 0 {}
    };
    let send = async {
        let mut config = Config::default();
        config.congestion(Congestion::new(Count(Arc::clone(&tally))).into());
        let mut stream = TcpStream::connect_with(address.await.unwrap(), &config).await.unwrap();
        stream.write_all(&vec![7; bytes]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
        stream.info().unwrap().experiments().pairs.unwrap()
    };
    let pairs = std::thread::scope(|scope| {
        scope.spawn(|| within(far, receive));
        within(near, send)
    });
    let tally = std::mem::take(&mut *tally.lock().unwrap());
    (pairs, tally)
}

/// Most segments are coalesced, which loses their arrival times. Segments of pairs are never coalesced, neither with
/// each other nor with segments before or after them. The report of a batch does not replace those of a pair.
#[test]
fn receive_offload_merges_segments_but_no_pair() {
    let Some(pair) = merging_pair() else { return };
    let (mut measured, mut segments, mut merged, mut of_pairs) = (0, 0, 0, 0);
    for _ in 0..5 {
        let (pairs, tally) = transfer(&pair, 50_000_000);
        println!("{pairs:?} {tally:?}", tally = Tally { pairs: HashSet::new(), ..tally });
        assert_eq!((pairs.coalesced, tally.merged_of_pairs), (0, 0), "{pairs:?}");
        measured += pairs.measured;
        (segments, merged, of_pairs) = (segments + tally.segments, merged + tally.merged, of_pairs + tally.of_pairs);
    }
    assert!(measured > 0 && of_pairs >= 2 * measured, "{measured} pairs, {of_pairs} segments of pairs");
    assert!(2 * merged > segments, "receive offload merged {merged} of {segments}");
}
