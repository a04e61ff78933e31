//! Tests of the user timeout option (RFC 5482).

use super::*;

fn seconds(span: Option<Span>) -> Option<u64> {
    span.map(|span| span.as_nanos() / 1_000_000_000)
}

/// Returns two connected ends with these user timeouts, after the handshake and the segments that follow it.
fn pair(wants: [Option<u64>; 2], change: impl Fn(&mut Config)) -> (Net, [ConnId; 2]) {
    let mut net = Net::new(Span::from_millis(10));
    let configs = wants.map(|timeout| {
        let user_timeout = timeout.map(Span::from_secs);
        let mut config = Config { user_timeout, user_timeout_option: true, ..Config::default() };
        change(&mut config);
        Arc::new(config)
    });
    net.ends[1].listen(Arc::clone(&configs[1]));
    let a = net.ends[0].connect(net.now, Net::tuple(1), Arc::clone(&configs[0])).unwrap();
    let mut b = None;
    net.run_until(Span::from_secs(10), |net| {
        b = b.or_else(|| net.ends[1].accept());
        b.is_some() && net.flying.is_empty()
    });
    (net, [a, b.unwrap()])
}

/// Returns the timeout in force and the one announced by the peer, for each end.
fn state(net: &Net, ids: [ConnId; 2]) -> [(Option<u64>, Option<u64>); 2] {
    [0, 1].map(|end| {
        let info = net.ends[end].connection(ids[end]).unwrap().info(net.now);
        (seconds(info.user_timeout), seconds(info.peer_user_timeout))
    })
}

#[test]
fn an_end_without_a_timeout_adopts_the_longer_one() {
    let (net, ids) = pair([Some(2_000), None], |_| {});
    assert_eq!(state(&net, ids), [(Some(2_000), Some(900)), (Some(2_000), Some(2_000))]);
    // 120 s is shorter than the default of 15 minutes, and 1,000,000 s is longer than the limit of 1 hour.
    let (net, ids) = pair([Some(120), None], |_| {});
    assert_eq!(state(&net, ids)[1], (None, Some(120)));
    let (net, ids) = pair([Some(1_000_000), None], |_| {});
    assert_eq!(state(&net, ids)[1].0, Some(3_600));
}

#[test]
fn a_configured_timeout_is_kept_unless_changeable() {
    let (net, ids) = pair([Some(2_000), Some(30)], |_| {});
    assert_eq!(state(&net, ids), [(Some(2_000), Some(30)), (Some(30), Some(2_000))]);
    let (net, ids) = pair([Some(50), Some(30)], |config| config.user_timeout_changeable = true);
    assert_eq!(state(&net, ids), [(Some(100), Some(30)), (Some(100), Some(50))], "L_LIMIT");
}

#[test]
fn without_the_option_nothing_is_sent_or_adopted() {
    let (net, ids) = pair([Some(2_000), None], |config| config.user_timeout_option = config.user_timeout.is_some());
    assert_eq!(state(&net, ids), [(Some(2_000), None), (None, None)]);
    let (net, ids) = pair([Some(2_000), None], |config| config.user_timeout_option = config.user_timeout.is_none());
    assert_eq!(state(&net, ids), [(Some(2_000), Some(900)), (None, None)].map(|(own, _)| (own, None)));
}

#[test]
fn a_change_is_sent_at_once_and_a_lost_syn_option_with_the_next_segment() {
    let (mut net, ids) = pair([None, None], |_| {});
    let set = |net: &mut Net, timeout: Option<u64>| {
        let now = net.now;
        net.ends[0]
            .drive(now, ids[0], |c| c.update_config(|config| config.user_timeout = timeout.map(Span::from_secs)));
        net.pump();
        net.run_until(Span::from_secs(1), |net| net.flying.is_empty());
    };
    assert_eq!(state(&net, ids), [(None, Some(900)), (None, Some(900))]);
    set(&mut net, Some(1_800));
    assert_eq!(state(&net, ids), [(Some(1_800), Some(900)), (Some(1_800), Some(1_800))]);
    set(&mut net, None);
    assert_eq!(state(&net, ids), [(None, Some(900)), (None, Some(900))]);

    // A SYN cookie does not preserve the option.
    let mut config = EndpointConfig::new([2; 32]);
    config.always_cookies = true;
    let mut net = Net::new(Span::from_millis(10));
    net.ends[1] = Endpoint::new(config, Time::ZERO);
    let user_timeout = Some(Span::from_secs(2_000));
    let (a, b) = net.connect(Config { user_timeout, user_timeout_option: true, ..Config::default() });
    net.run_until(Span::from_secs(1), |net| net.flying.is_empty());
    assert_eq!(state(&net, [a, b]), [(Some(2_000), Some(2_000)); 2]);
}

/// The adopted timeout closes the connection.
#[test]
fn the_adopted_timeout_is_in_force() {
    let (mut net, [a, b]) = pair([Some(2_000), None], |_| {});
    net.lose = Box::new(|_, _, _| true);
    let begun = net.now;
    net.ends[1].drive(begun, b, |c| c.write(b"x").unwrap());
    net.run_until(Span::from_secs(3_000), |net| net.ends[1].connection(b).unwrap().status().error().is_some());
    assert_eq!(seconds(Some(net.now - begun)), Some(2_000));
    assert!(net.ends[0].connection(a).unwrap().status().error().is_none());
}
