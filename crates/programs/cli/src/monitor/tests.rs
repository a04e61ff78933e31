use tokio::io::{DuplexStream, duplex};
use tokio::time::sleep;

use super::*;

async fn tunnel() -> (Tunnel<DuplexStream>, Tunnel<DuplexStream>) {
    let (here, there) = duplex(1024);
    let (here, there) = tokio::join!(Tunnel::start(here), Tunnel::start(there));
    (here.unwrap(), there.unwrap())
}

fn pass(traffic: &Traffic, sent: u64, received: u64) {
    traffic.sent.fetch_add(sent, std::sync::atomic::Ordering::Relaxed);
    traffic.received.fetch_add(received, std::sync::atomic::Ordering::Relaxed);
}

/// Returns the value of the only line of the metrics with this name.
fn value(metrics: &str, name: &str) -> String {
    let mut found = metrics.lines().filter_map(|line| line.strip_prefix(&format!("longhaul_{name} ")));
    let value = found.next().unwrap_or_else(|| panic!("{name} is missing: {metrics}"));
    assert_eq!(found.next(), None, "{name}");
    value.to_owned()
}

#[tokio::test(start_paused = true)]
async fn bytes_and_ends_are_counted_during_and_after_streams() {
    let monitor = Monitor::new(Role::Forward);
    monitor.set_pool(|| PoolState { idle: 1, busy: 2, building: 3, waiting: 4 });
    let (here, _there) = tunnel().await;
    let seen = monitor.tunnel("gw", "192.0.2.1:7443".parse().unwrap(), &here);
    let target: Target = "h.example:80".parse().unwrap();
    for (reason, sent) in [(Ended::Orderly, 100), (Ended::There(Reason::Refused), 0), (Ended::Here(Reason::Idle), 7)] {
        let traffic = Arc::default();
        seen.stream(&target, &traffic);
        pass(&traffic, sent, 1);
        let open = monitor.metrics();
        assert_eq!(value(&open, "connections"), "1");
        seen.ended(Some(reason));
        // The sum does not change when the stream ends.
        for name in ["sent_bytes_total", "received_bytes_total"] {
            assert_eq!(value(&open, name), value(&monitor.metrics(), name));
        }
    }
    let traffic = Arc::default();
    seen.stream(&target, &traffic);
    pass(&traffic, 1, 0);
    seen.ended(None);
    seen.failed();
    drop(seen);
    monitor.refuse(Reason::NotPermitted);
    monitor.refuse_tunnel();
    let metrics = monitor.metrics();
    for (name, expected) in [
        ("info{program=\"forward\",version=\"0.1.0\"}", "1"),
        ("connections", "0"),
        ("connections_total", "4"),
        ("connections_ended_total{how=\"orderly\"}", "1"),
        ("connections_ended_total{how=\"idle\"}", "1"),
        ("connections_ended_total{how=\"tunnel-failed\"}", "1"),
        ("connections_ended_total{how=\"reset\"}", "0"),
        ("refusals_total{reason=\"refused\"}", "1"),
        ("refusals_total{reason=\"not-permitted\"}", "1"),
        ("refusals_total{reason=\"not-found\"}", "0"),
        ("sent_bytes_total", "108"),
        ("received_bytes_total", "3"),
        ("tunnels", "0"),
        ("tunnels_total", "1"),
        ("tunnels_failed_total", "1"),
        ("tunnels_refused_total", "1"),
        ("pool_tunnels{state=\"idle\"}", "1"),
        ("pool_tunnels{state=\"busy\"}", "2"),
        ("pool_tunnels{state=\"building\"}", "3"),
        ("pool_waiting", "4"),
    ] {
        assert_eq!(value(&metrics, name), expected, "{name}");
    }
}

/// Each sample belongs to a family with `HELP` and `TYPE`, the lines of a family are together, and counters end in
/// `_total`.
#[test]
fn metrics_have_the_form_of_prometheus() {
    let text = Monitor::new(Role::Gateway).metrics();
    let mut families = std::collections::HashSet::new();
    let mut family = ("", "");
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family.0 = help.split_once(' ').unwrap().0;
            assert!(families.insert(family.0), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!((name, kind == "counter"), (family.0, name.ends_with("_total")), "{line}");
            family.1 = kind;
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(name.split('{').next().unwrap(), family.0, "{line}");
            assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
        }
    }
    assert!(families.len() > 15 && text.ends_with('\n'));
}

#[tokio::test(start_paused = true)]
async fn rates_and_the_history_are_those_of_the_last_samples() {
    let monitor = Monitor::new(Role::Gateway);
    let running = tokio::spawn({
        let monitor = monitor.clone();
        async move { monitor.run(crate::progress::Screen::hidden().line()).await }
    });
    sleep(INTERVAL / 2).await;
    let (here, _there) = tunnel().await;
    let seen = monitor.tunnel("<b>ship", "[2001:db8::1]:9".parse().unwrap(), &here);
    let traffic = Arc::default();
    seen.stream(&"[2001:db8::2]:80".parse().unwrap(), &traffic);
    pass(&traffic, 1000, 30_000);
    sleep(INTERVAL).await;
    let status: serde_json::Value = serde_json::from_str(&monitor.status()).unwrap();
    let one = &status["connections"][0];
    let per_second = INTERVAL.as_secs_f64();
    assert_eq!(
        (one["sent_bytes_per_second"].as_f64(), one["received_bytes"].as_u64()),
        (Some(1000.0 / per_second), Some(30_000))
    );
    assert_eq!([&one["peer"], &one["address"], &one["target"]], ["<b>ship", "[2001:db8::1]:9", "[2001:db8::2]:80"]);
    assert_eq!(status["history"]["received_bytes_per_second"], serde_json::json!([30_000.0 / per_second]));
    // The rate of a stream that has ended counts, too.
    pass(&traffic, 0, 50_000);
    seen.ended(Some(Ended::Orderly));
    sleep(INTERVAL).await;
    let status: serde_json::Value = serde_json::from_str(&monitor.status()).unwrap();
    assert_eq!(status["history"]["received_bytes_per_second"][1], 50_000.0 / per_second);
    assert_eq!((status["open"].as_u64(), status["history"]["connections"][1].as_u64()), (Some(0), Some(0)));
    sleep(INTERVAL * 2 * HISTORY as u32).await;
    assert_eq!(crate::sync::lock(&monitor.state).history.len(), HISTORY);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_line_tells_the_state_at_a_glance() {
    let forwarder = Monitor::new(Role::Forward);
    assert_eq!(forwarder.glance(), ["not connected", "0.0 s"]);
    let gateway = Monitor::new(Role::Gateway);
    let (here, _there) = tunnel().await;
    for (monitor, expected) in [
        (forwarder, &["1 stream", "8.0 kb/s down", "16.0 kb/s up", "2.0 % lost", "0.0 s"][..]),
        (gateway, &["1 forwarder", "1 stream", "16.0 kb/s down", "8.0 kb/s up", "0.0 s"]),
    ] {
        let seen = [(); 2].map(|()| monitor.tunnel("ship", "192.0.2.1:9".parse().unwrap(), &here));
        let traffic = Arc::default();
        seen[0].stream(&"192.0.2.2:80".parse().unwrap(), &traffic);
        pass(&traffic, 2000, 1000);
        let mut state = crate::sync::lock(&monitor.state);
        for tunnel in state.tunnels.values_mut() {
            (tunnel.link.acked_bytes, tunnel.link.retransmitted_bytes) = (49_000, 1000);
        }
        state.sample(Duration::from_secs(1));
        drop(state);
        assert_eq!(monitor.glance(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_data_has_a_limited_number_of_connections() {
    let monitor = Monitor::new(Role::Gateway);
    let (here, _there) = tunnel().await;
    let target: Target = "h:1".parse().unwrap();
    let traffic: Vec<Arc<Traffic>> = (0..600).map(|_| Arc::default()).collect();
    let seen: Vec<_> = traffic.iter().map(|_| monitor.tunnel("p", "192.0.2.1:1".parse().unwrap(), &here)).collect();
    seen.iter().zip(&traffic).for_each(|(seen, traffic)| seen.stream(&target, traffic));
    pass(&traffic[599], 5000, 0);
    crate::sync::lock(&monitor.state).sample(Duration::from_secs(1));
    let status: serde_json::Value = serde_json::from_str(&monitor.status()).unwrap();
    assert_eq!((status["open"].as_u64(), status["connections"].as_array().unwrap().len()), (Some(600), 500));
    assert_eq!(status["connections"][0]["sent_bytes_per_second"], 5000.0);
}
