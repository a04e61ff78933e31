//! What becomes of flipped pairs where the receiver's kernel merges what arrives: two network namespaces joined by a veth pair.
//! Needs root; skipped, with a line that says so, where it is not permitted.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::HashSet;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::process::{self, Command};
use std::sync::{Arc, Mutex};

use longhaul::cc::{
    Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Granted, NeedError, Needs, Path, PathEvent,
    SegmentKind, Sent, Snapshot, Timeout, TxId,
};
use longhaul::units::Bytes;
use longhaul::{Config, TcpListener, TcpPairs, TcpStream};
use longhaul_sys::linux::{Link, NetNs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 97, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 97, 0, 2);

fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

fn namespace() -> Option<NetNs> {
    match NetNs::anonymous() {
        Ok(namespace) => Some(namespace),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => skipped("network namespaces are for root"),
        Err(error) => panic!("{error}"),
    }
}

/// Whether a program did what it was told; what it said is shown if not.
fn done(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    let why = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("skipped: {program} {}: {why}", arguments.join(" "));
    false
}

/// Has the receiver's kernel wait a millisecond for what may be merged, as what is in the ring of a network card does under
/// load. `sysfs` shows the devices of the namespace that mounts it.
const HOLD: &str = "mount -t sysfs none /sys && echo 1000000 > /sys/class/net/far/gro_flush_timeout";

/// Two namespaces joined like by a plain network card: the sender's kernel cuts batches into packets, the receiver's merges
/// them again.
fn veth() -> Option<[NetNs; 2]> {
    let (near, far) = (namespace()?, namespace()?);
    // `ip` takes a namespace by path.
    let far_file = far.run(|| File::open("/proc/thread-self/ns/net")).unwrap().unwrap();
    let far_path = format!("/proc/{}/fd/{}", process::id(), far_file.as_raw_fd());
    let made =
        |namespace: &NetNs, program: &str, arguments: &[&str]| namespace.run(|| done(program, arguments)).unwrap();
    if !made(&near, "ip", &["link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &far_path]) {
        return None;
    }
    for (namespace, name, address) in [(&near, "near", NEAR), (&far, "far", FAR)] {
        let configure = || {
            let link = Link::new(name).unwrap();
            link.set_address(address, 24).unwrap();
            link.set_up().unwrap();
            done("ethtool", &["-K", name, "tso", "off", "gso", "off", "tx-udp-segmentation", "off", "gro", "on"])
        };
        if !namespace.run(configure).unwrap() {
            return None;
        }
    }
    made(&far, "unshare", &["--mount", "sh", "-c", HOLD]).then_some([near, far])
}

/// What was told of arrivals.
#[derive(Debug, Default)]
struct Tally {
    segments: u64,
    /// Of those, the ones that the receiver's kernel merged with others.
    merged: u64,
    /// The same of segments of pairs alone.
    of_pairs: u64,
    merged_of_pairs: u64,
    /// Pairs' transmissions.
    pairs: HashSet<TxId>,
}

/// CUBIC that asks for pairs and counts.
#[derive(Debug)]
struct Counting(Box<dyn Controller>, Arc<Mutex<Tally>>);

impl Controller for Counting {
    fn name(&self) -> String {
        self.0.name()
    }

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
        // The first of a pair is two bytes shorter than a full segment.
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

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.0.on_timeout(event, path);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.0.on_event(event, path);
    }

    fn on_tick(&mut self, now: longhaul::units::Time, path: &Path) {
        self.0.on_tick(now, path);
    }

    fn next_tick(&self) -> Option<longhaul::units::Time> {
        self.0.next_tick()
    }

    fn control(&self) -> Control {
        self.0.control()
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
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

    fn safety(&self) -> longhaul::cc::registry::Safety {
        longhaul::cc::registry::Safety::Shared
    }
}

/// Runs a future on a runtime of its own in a namespace: its sockets belong there.
fn within<R: Send>(namespace: &NetNs, future: impl Future<Output = R> + Send) -> R {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
    namespace.run(run).unwrap()
}

/// What a transfer of so many bytes from one namespace to the other told of pairs, and of all segments.
fn transfer([near, far]: &[NetNs; 2], bytes: usize) -> (TcpPairs, Tally) {
    let (told, address) = oneshot::channel::<SocketAddr>();
    let tally = Arc::new(Mutex::new(Tally::default()));
    let receive = async {
        let listener = TcpListener::bind_with((FAR, 0).into(), Config::default()).await.unwrap();
        told.send(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 1 << 16];
        while stream.read(&mut buffer).await.unwrap() > 0 {}
    };
    let send = async {
        let mut config = Config::default();
        config.congestion = Congestion::new(Count(Arc::clone(&tally)));
        let mut stream = TcpStream::connect_with(address.await.unwrap(), config).await.unwrap();
        stream.write_all(&vec![7; bytes]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
        stream.info().unwrap().pairs.unwrap()
    };
    let pairs = std::thread::scope(|scope| {
        scope.spawn(|| within(far, receive));
        within(near, send)
    });
    let tally = std::mem::take(&mut *tally.lock().unwrap());
    (pairs, tally)
}

/// Most of what arrives is merged, and its times of arrival with it; no pair is, neither with itself nor with what goes before
/// or behind it. One report of a batch does not displace those of a pair.
#[test]
fn receive_offload_merges_segments_but_no_pair() {
    let Some(namespaces) = veth() else { return };
    let (mut measured, mut segments, mut merged, mut of_pairs) = (0, 0, 0, 0);
    for _ in 0..5 {
        let (pairs, tally) = transfer(&namespaces, 50_000_000);
        println!("{pairs:?} {tally:?}", tally = Tally { pairs: HashSet::new(), ..tally });
        assert_eq!((pairs.coalesced, tally.merged_of_pairs), (0, 0), "{pairs:?}");
        measured += pairs.measured;
        (segments, merged, of_pairs) = (segments + tally.segments, merged + tally.merged, of_pairs + tally.of_pairs);
    }
    assert!(measured > 0 && of_pairs >= 2 * measured, "{measured} pairs, {of_pairs} segments of pairs");
    assert!(2 * merged > segments, "receive offload merged {merged} of {segments}");
}
