//! Checks of this machine.

#[cfg(target_os = "linux")]
pub(crate) use linux::check;

use super::{Finding, Target};

/// Checks socket buffers, offloads and timers of this machine. The buffers have to hold the bandwidth-delay product of
/// `target`, if it is known.
#[cfg(not(target_os = "linux"))]
pub(crate) fn check(_target: Option<Target>) -> Vec<Finding> {
    vec![Finding::unknown("machine", "its settings are checked on Linux only")]
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::{self, ErrorKind, IoSlice};
    use std::net::Ipv4Addr;
    use std::thread::sleep;
    use std::time::Duration;

    use longhaul_link::text;
    use longhaul_sys::linux::{MAX_RECV_BATCH, RecvBatch, Transmit, UdpSocket};
    use longhaul_sys::pool::RecvPool;

    use super::{Finding, Target};

    /// Socket buffer that the library requests, in bytes.
    const REQUESTED: u64 = 4 << 20;
    /// Maximum of `rmem_max` and `wmem_max`, which are signed 32-bit numbers of bytes.
    const MAX_SETTING: u64 = i32::MAX as u64;
    /// Largest timer slack, in nanoseconds, that does not impair pacing. Linux's default is half of it.
    const MAX_SLACK: u64 = 100_000;
    /// Linux's default timer slack in nanoseconds (prctl(2)).
    const DEFAULT_SLACK: u64 = 50_000;
    /// Number and size of the datagrams that are sent over the loopback interface as one batch.
    const BATCH: (usize, usize) = (4, 1000);

    /// Checks socket buffers, offloads and timers of this machine. The buffers have to hold the bandwidth-delay product
    /// of `target`, if it is known.
    pub(crate) fn check(target: Option<Target>) -> Vec<Finding> {
        let mut findings = vec![
            buffer("receive-buffer", "rmem_max", target, UdpSocket::set_recv_buffer),
            buffer("send-buffer", "wmem_max", target, UdpSocket::set_send_buffer),
        ];
        findings.extend(offload());
        findings.push(slack(fs::read_to_string("/proc/self/timerslack_ns")));
        findings
    }

    /// Compares the buffer that a socket of this process gets with the bandwidth-delay product.
    fn buffer(
        check: &'static str,
        setting: &str,
        target: Option<Target>,
        set: fn(&UdpSocket, usize) -> io::Result<usize>,
    ) -> Finding {
        let (wanted, why) = match target {
            Some(target) => (target.bdp(), format!("the bandwidth-delay product of {target}")),
            None => (REQUESTED, "what longhaul requests".to_owned()),
        };
        let granted = open().and_then(|socket| set(&socket, usize::try_from(wanted).unwrap_or(usize::MAX)));
        let granted = match granted {
            Ok(granted) => granted as u64,
            Err(error) => return Finding::unknown(check, format!("no UDP socket: {error}")),
        };
        let limit = fs::read_to_string(format!("/proc/sys/net/core/{setting}"));
        let limit = limit.map_or_else(|_| "unknown".to_owned(), |limit| limit.trim().to_owned());
        let (size, needed) = (text::size(granted), text::size(wanted));
        let found = format!("a socket gets {size} (net.core.{setting} is {limit} B); {needed} are {why}");
        if granted >= wanted {
            return Finding::ok(check, found);
        }
        let found = if wanted > MAX_SETTING { format!("{found}, more than Linux can grant") } else { found };
        Finding::wrong(check, found).mend(format!("sudo sysctl -w net.core.{setting}={}", wanted.min(MAX_SETTING)))
    }

    fn open() -> io::Result<UdpSocket> {
        UdpSocket::new(std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?)
    }

    struct Delivered {
        segmented: bool,
        merged: bool,
        stamped: bool,
    }

    /// Checks GSO, GRO and receive timestamps by their effect.
    fn offload() -> Vec<Finding> {
        let delivered = match deliver() {
            Ok(delivered) => delivered,
            Err(error) => return vec![Finding::unknown("offload", format!("the loopback interface fails: {error}"))],
        };
        let old = "update the kernel (Linux 5.0 or later), or start longhaul outside of the sandbox";
        let gso = match delivered.segmented {
            true => Finding::ok("gso", "the kernel segments batches of datagrams"),
            false => Finding::wrong("gso", format!("each datagram takes a system call of its own: {old}")),
        };
        let gro = match (delivered.segmented, delivered.merged) {
            (_, true) => Finding::ok("gro", "the kernel merges datagrams that arrive together"),
            (true, false) => {
                Finding::wrong("gro", "each datagram is received by itself").mend("sudo ethtool -K lo gro on")
            }
            (false, false) => Finding::unknown("gro", "it cannot be tested without GSO"),
        };
        let stamps = match delivered.stamped {
            true => Finding::ok("timestamps", "the kernel stamps arriving datagrams"),
            false => Finding::wrong(
                "timestamps",
                format!(
                    "arriving datagrams have no timestamps, so that scheduling delays count as queueing delays: {old}"
                ),
            ),
        };
        vec![gso, gro, stamps]
    }

    fn deliver() -> io::Result<Delivered> {
        let (to, from) = (open()?, open()?);
        let (segments, size) = BATCH;
        let payload = vec![0; segments * size];
        from.send(&Transmit {
            destination: Some(to.local_addr()),
            tos: 0,
            src_ip: None,
            segment_size: u16::try_from(size).ok(),
            slices: &[IoSlice::new(&payload)],
        })?;
        let pool = RecvPool::new(MAX_RECV_BATCH, 0);
        let mut batch = RecvBatch::new(&pool, MAX_RECV_BATCH);
        let mut delivered =
            Delivered { segmented: from.max_gso_segments() > 1, merged: false, stamped: to.features().timestamps };
        let mut received = 0;
        // The loopback interface usually delivers within the send call, but the kernel may defer the work.
        for _ in 0..1000 {
            match to.recv(&mut batch) {
                Ok(_) => {
                    for message in batch.messages() {
                        received += message.meta.len;
                        delivered.merged |= message.meta.coalesced();
                        delivered.stamped &= message.meta.timestamp.is_some();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(1)),
                Err(error) => return Err(error),
            }
            if received >= payload.len() {
                return Ok(delivered);
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn slack(read: io::Result<String>) -> Finding {
        const CHECK: &str = "timer-slack";
        let Some(nanos) = read.ok().and_then(|text| text.trim().parse::<u64>().ok()) else {
            return Finding::unknown(CHECK, "the kernel does not show it");
        };
        let found = format!("timers may be late by {} us", nanos / 1000);
        if nanos <= MAX_SLACK {
            return Finding::ok(CHECK, found);
        }
        // A process inherits the timer slack of the shell that starts it.
        Finding::wrong(CHECK, format!("{found}, which turns paced packets into bursts"))
            .mend(format!("echo {DEFAULT_SLACK} > /proc/$$/timerslack_ns"))
    }

    #[cfg(test)]
    mod tests {
        use super::super::super::Verdict;
        use super::*;

        #[test]
        fn the_slack_is_judged_by_its_size() {
            for (text, verdict) in [
                ("50000\n", Verdict::Ok),
                ("100000\n", Verdict::Ok),
                ("100001\n", Verdict::Wrong),
                ("4000000000\n", Verdict::Wrong),
                ("\n", Verdict::Unknown),
            ] {
                assert_eq!(slack(Ok(text.to_owned())).verdict, verdict, "{text:?}");
            }
            assert_eq!(slack(Err(ErrorKind::NotFound.into())).verdict, Verdict::Unknown);
        }

        #[test]
        fn buffers_are_compared_with_the_product() {
            let verdict = |bandwidth, millis| {
                let target = Target { bandwidth, rtt: Duration::from_millis(millis) };
                buffer("receive-buffer", "rmem_max", Some(target), UdpSocket::set_recv_buffer)
            };
            assert_eq!(verdict(1_000_000, 1).verdict, Verdict::Ok);
            let wrong = verdict(1_000_000_000_000, 1000);
            assert_eq!(wrong.verdict, Verdict::Wrong);
            assert_eq!(wrong.command.as_deref(), Some("sudo sysctl -w net.core.rmem_max=2147483647"));
        }
    }
}
