//! Networks of more than two hosts: topologies, cross traffic and workloads; timers with a tick.

use longhaul_link::router::QuickStartConfig;
use longhaul_link::source::{Adu, BoundedPareto, ConnectionVector, HttpWorkload, Side, Source};
use longhaul_link::topology::{Duplex, chain, dumbbell, row};
use longhaul_link::{Cause, Limit, LinkConfig, Random, RouterConfig};
use longhaul_sim::{Epoch, Plan, Setup, SetupError, Sim, Step, full_segments};
use longhaul_units::{Rate, Span, Time};

fn millis(millis: u64) -> Span {
    Span::from_millis(millis)
}

fn at(time: u64) -> Time {
    Time::ZERO + millis(time)
}

fn megabits(rate: u64, delay: u64, packets: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_sec(rate * 1_000_000), millis(delay)).queue(Limit::Packets(packets))
}

#[test]
fn sessions_between_any_two_hosts() {
    let access = || (0..20).map(|_| Duplex::delay(millis(2)));
    let net = dumbbell(Duplex::symmetric(megabits(100, 10, 100)), access(), access());
    let hosts: Vec<usize> = net.left.iter().chain(&net.right).map(|node| *node as usize).collect();
    let mut sim = Sim::new(Setup::new(5, net.topology));
    // Connections between all pairs of hosts, some of them twice, so that their ports must differ.
    let mut all = Vec::new();
    for (n, &from) in hosts.iter().enumerate() {
        for &to in hosts.iter().skip(n % 7).step_by(5).filter(|to| **to != from) {
            all.push(sim.open_between(from, to, Plan::bulk(3_000), Plan::bulk(2_000)));
            all.push(sim.open_at(at(50), from, to, Plan::bulk(1_000), Plan::requests(0, 0, 0)));
        }
    }
    assert!(sim.run(Span::from_secs(120), Sim::all_done));
    for (client, server) in all {
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    }
}

/// In a parking lot, the long flow and the short ones share each link, and together they fill it.
#[test]
fn a_parking_lot_is_filled() {
    let access = |places: [usize; 4]| places.map(|place| (place, Duplex::delay(millis(1))));
    let links = (0..3).map(|_| Duplex::symmetric(megabits(10, 5, 50)));
    let lot = row(links, access([0, 1, 2, 0]), access([1, 2, 3, 3]));
    let links: Vec<u32> = lot.links.iter().map(|(there, _)| *there).collect();
    let mut sim = Sim::new(Setup::new(1, lot.topology));
    let timed = Plan::timed(Span::from_secs(20)).zeros();
    for (from, to) in lot.left.iter().zip(&lot.right) {
        sim.open_between(*from as usize, *to as usize, timed, Plan::sink().zeros());
    }
    sim.run_for(Span::from_secs(20));
    for link in links {
        let share = sim.link(link).stats().delivered_bytes as f64 / 20.0 / 1.25e6;
        assert!((0.9..=1.0).contains(&share), "link {link} carries {share}");
    }
}

/// Requests cross a 250 ms satellite link, 5 ms of terrestrial and 1 ms of local network: handshake, request and
/// response take two round trips of 512 ms, plus the transmission of the request on the narrow return link.
#[test]
fn a_satellite_hop_takes_its_time() {
    let hop = Duplex { there: megabits(1, 250, 100), back: megabits(40, 250, 100) };
    let net = chain([Duplex::delay(millis(1)), hop, Duplex::delay(millis(5))]);
    let (home, ground) = (net.ends.0 as usize, net.ends.1 as usize);
    let mut sim = Sim::new(Setup::new(1, net.topology));
    let (client, _) = sim.open_between(home, ground, Plan::requests(1, 400, 1_000), Plan::responses(1, 400, 1_000));
    assert!(sim.run(Span::from_secs(5), |sim| sim.session(client).read == 1_000));
    let taken = sim.now() - Time::ZERO;
    assert!((millis(1_024)..millis(1_036)).contains(&taken), "{taken}");
}

/// RFC 9293 requires no timer granularity: a host's tick delays its timers, but not arrivals.
#[test]
fn timers_fire_at_ticks_and_packets_arrive_when_they_do() {
    for tick in [None, Some(Span::from_micros(500)), Some(millis(1)), Some(Span::from_micros(15_600))] {
        let mut setup = Setup::symmetric(1, megabits(3, 7, 30));
        setup.hosts.iter_mut().for_each(|host| host.timer_tick = tick);
        let mut sim = Sim::new(setup);
        let (client, server) = sim.open(Plan::bulk(200_000), Plan::sink());
        let (mut timers, mut off_tick) = (0, 0);
        while !sim.all_done() {
            let step = sim.step().expect("something is left to do");
            if let Step::Timer(_) = step {
                timers += 1;
                let tick = tick.unwrap_or(Span::from_micros(500));
                off_tick += u32::from(!sim.now().as_nanos().is_multiple_of(tick.as_nanos()));
            }
        }
        assert!(timers > 10 && (off_tick > 0) == tick.is_none(), "{tick:?}: {off_tick} of {timers}");
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    }
}

/// A round trip of slightly more than 20 ms is measured as one or two steps of a 15.6 ms clock, and as 20 or more steps
/// of a 1 ms clock: always as whole steps.
#[test]
fn a_coarse_clock_measures_whole_steps() {
    for granularity in [millis(1), Span::from_micros(15_600)] {
        let mut setup = Setup::symmetric(1, megabits(3, 10, 30));
        for host in &mut setup.hosts {
            (host.clock_granularity, host.clock_ahead) = (Some(granularity), millis(7));
        }
        let mut sim = Sim::new(setup);
        let (client, server) = sim.open(Plan::bulk(200_000), Plan::sink());
        let (mut rtts, mut timers, whole) = (Vec::new(), 0, granularity.as_nanos());
        while !sim.all_done() {
            let step = sim.step().expect("something is left to do");
            let host = sim.host(0);
            let clock = host.clock(sim.now());
            let exact = sim.now() + millis(7);
            assert!(clock <= exact && exact - clock < granularity && clock.as_nanos().is_multiple_of(whole));
            if let Step::Timer(_) = step {
                timers += 1;
                assert_eq!(exact, clock, "a timer fires when the clock gets there");
            }
            let connection = sim.find(client).and_then(|session| host.endpoint.connection(session.id));
            rtts.extend(connection.and_then(|connection| connection.info(clock).latest_rtt).map(Span::as_nanos));
        }
        assert!(timers > 10 && sim.session(server).ended_well(), "{granularity}: {timers} timers");
        assert!(rtts.len() > 100 && rtts.iter().all(|rtt| rtt.is_multiple_of(whole)), "{granularity}");
    }
}

#[test]
fn cross_traffic_arrives_in_full_or_is_dropped() {
    let net = chain([Duplex::delay(millis(1)), Duplex::symmetric(megabits(1, 10, 20))]);
    let (from, to) = (net.ends.0 as usize, net.ends.1 as usize);
    let narrow = net.links[1].0;
    let mut sim = Sim::new(Setup::new(1, net.topology));
    let rate = Rate::from_bits_per_sec(2_000_000);
    // The source sends at twice the rate of the link: of 500 packets of 500 bytes in one second, 250 pass, and 20 fit
    // into the queue.
    let cbr = sim.add_traffic(from, to, Source::cbr(Time::ZERO, rate, 500), at(1_000));
    let poisson =
        sim.add_traffic(to, from, Source::poisson(Time::ZERO, rate.mul_f64(0.25), 500, Random::new(1, 1)), at(1_000));
    sim.run_for(Span::from_secs(3));
    let (cbr, poisson) = (sim.traffic(cbr), sim.traffic(poisson));
    assert_eq!((cbr.sent, cbr.sent_bytes), (500, 250_000));
    let dropped = sim.link(narrow).stats().all().dropped_total();
    assert_eq!(cbr.received + dropped, 500);
    // 250 are sent within the second, 20 are still waiting, and one is in transmission.
    assert!((270..=272).contains(&cbr.received), "{}", cbr.received);
    assert!(poisson.sent > 80 && poisson.received == poisson.sent);
}

/// The replay of a recorded exchange takes the time of its pauses and of its path. The connection is opened at 2 s; the
/// handshake takes 20 ms; 100 bytes are sent immediately and arrive after 30 ms; the answer is sent 300 ms later and
/// arrives after 340 ms; a second request follows after another 500 ms.
#[test]
fn a_connection_vector_is_replayed() {
    let adu = |from, after_send, after_receive, bytes| Adu {
        from,
        after_send: millis(after_send),
        after_receive: millis(after_receive),
        bytes,
    };
    let (a, b) = (Side::Initiator, Side::Acceptor);
    let adus = vec![adu(a, 0, 0, 100), adu(b, 0, 300, 1_000), adu(a, 0, 500, 200), adu(b, 0, 0, 10)];
    let vector = ConnectionVector { start: at(2_000), adus };
    let mut sim = Sim::new(Setup::symmetric(1, LinkConfig::delay(millis(10))));
    let (client, server) = sim.replay(0, 1, &vector);
    assert!(sim.run(Span::from_secs(9), |sim| sim.find(client).is_some_and(|session| session.read == 1_000)));
    assert_eq!(sim.now(), at(2_340));
    assert!(sim.run(Span::from_secs(9), |sim| sim.session(server).read == 300));
    assert_eq!(sim.now(), at(2_850));
    assert!(sim.run(Span::from_secs(9), Sim::all_done));
    assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    assert_eq!(sim.session(client).read, 1_010);
}

#[test]
fn a_workload_is_replayed_connection_after_connection() {
    let rate = Rate::from_bits_per_sec(10_000_000);
    let mut sim = Sim::new(Setup::symmetric(1, megabits(10, 10, 50)));
    let responses = BoundedPareto::with_mean(14_000.0, 1e6, 1.1);
    let http = HttpWorkload::new(Time::ZERO, rate, 0.5, responses, Random::new(3, 9));
    let asked: Vec<_> = http.take_while(|vector| vector.start < at(10_000)).collect();
    let opened: Vec<_> = asked.iter().map(|vector| sim.replay(0, 1, vector)).collect();
    assert!(sim.run(Span::from_secs(60), Sim::all_done));
    for ((client, server), vector) in opened.iter().zip(&asked) {
        let (client, server) = (sim.session(*client), sim.session(*server));
        assert!(client.ended_well() && client.opened_at == vector.start);
        assert_eq!([server.read, client.read], [Side::Initiator, Side::Acceptor].map(|side| vector.bytes_from(side)));
    }
}

/// A client population sends exactly the packets of the same connections by themselves, but keeps no sessions. Each epoch lasts from
/// establishment until all data is read.
#[test]
fn a_client_population_equals_its_connections_without_sessions() {
    let rate = Rate::from_bits_per_sec(10_000_000);
    let sim = || Sim::new(Setup::symmetric(1, megabits(10, 10, 50)));
    let responses = BoundedPareto::with_mean(14_000.0, 1e6, 1.1);
    let http = HttpWorkload::new(Time::ZERO, rate, 0.3, responses, Random::new(3, 9));
    let (mut kept, mut let_go) = (sim(), sim());
    let asked = http.clone().take_while(|vector| vector.start < at(20_000));
    let opened: Vec<_> = asked.map(|vector| kept.replay(0, 1, &vector)).collect();
    let population = let_go.add_population(http.map(|vector| (0, 1, vector)), at(20_000));
    let_go.run_for(Span::from_secs(19));
    let open = let_go.epochs(population).iter().filter(|epoch| epoch.ended.is_none()).count();
    assert!(open < 50 && let_go.host(0).sessions.len() < 50, "{open} of {}", let_go.host(0).sessions.len());
    for sim in [&mut kept, &mut let_go] {
        assert!(sim.run(Span::from_secs(60), Sim::all_done));
    }
    assert_eq!(kept.trace(), let_go.trace());
    let client = |id| {
        let client = kept.session(id);
        Epoch { began: client.established_at.unwrap(), ended: client.read_at, response: client.read }
    };
    let mut expected: Vec<Epoch> = opened.iter().map(|(id, _)| client(*id)).collect();
    let mut epochs = let_go.epochs(population);
    for epochs in [&mut expected, &mut epochs] {
        epochs.sort_by_key(|epoch| (epoch.began, epoch.response));
    }
    assert!(epochs.len() > 300 && epochs == expected);
    assert_eq!(let_go.visits(population), opened.len() as u64);
}

/// A host has 16,384 ports besides its own. The connection that exceeds them is never opened, nor is any later one,
/// and the simulation reports it.
#[test]
fn a_host_without_ports_opens_no_more() {
    let rate = Rate::from_bits_per_sec(1_000_000_000);
    for (count, lacks) in [(16_385, None), (16_386, Some(SetupError::NoPort { node: 0 }))] {
        let mut sim = Sim::new(Setup::symmetric(1, megabits(10, 10, 50)));
        let http = HttpWorkload::new(Time::ZERO, rate, 1.0, BoundedPareto::new(1.0, 1.0, 1.1), Random::new(3, 9));
        let population = sim.add_population(http.take(count).map(|vector| (0, 1, vector)), at(1000));
        sim.run_for(Span::from_millis(4));
        assert_eq!((sim.visits(population), sim.lacks_port()), (count as u64, lacks));
    }
}

/// Servers send their request to routers with the SYN-ACK. Although their clients send data with the last segment of
/// the handshake, the routers' answer arrives before: 70 segments, which take three round trips of slow start, are sent
/// in one, at 10.24 Mb/s, the next rate of RFC 4782 below 85 % of the link.
#[test]
fn routers_answer_servers_before_their_clients_send() {
    let response = 70 * 1448;
    let time = |congestion: &str, router: Option<RouterConfig>| {
        let mut setup = Setup::symmetric(1, megabits(20, 50, 1000)).configure(|config| {
            full_segments(config);
            longhaul_zoo::register().unwrap();
            config.congestion = congestion.parse().unwrap();
            config.routers_answer = true;
        });
        for link in [0, 1] {
            setup.link_mut(link).router = router.clone();
        }
        let mut sim = Sim::new(setup);
        let (client, _) = sim.open(Plan::requests(1, 350, response).zeros(), Plan::responses(1, 350, response).zeros());
        assert!(sim.run(Span::from_secs(60), Sim::all_done));
        let client = sim.session(client);
        (client.read_at.unwrap() - client.established_at.unwrap()).as_secs_f64()
    };
    let asked = time("quick-start+new-reno", Some(RouterConfig::QuickStart(QuickStartConfig::default())));
    let expected = 0.1 + 69.0 * 1500.0 * 8.0 / 10.24e6;
    assert!((asked - expected).abs() < 0.005, "{asked} and not {expected}");
    assert!(time("quick-start+new-reno", None) > 0.3);
}

/// A source writes for 100 ms and pauses for 400 ms: data is in flight during the first fifth of each half second, and
/// none during its second half.
#[test]
fn bursts_come_and_go_and_a_series_shows_them() {
    let mut sim = Sim::new(Setup::symmetric(1, LinkConfig::delay(millis(5))).configure(|config| {
        config.notsent_lowat = Some(20_000);
        config.max_cwnd = 30_000;
    }));
    let (client, _) = sim.open(Plan::bursts(u64::MAX, millis(100), millis(400)), Plan::sink());
    let sampled = sim.record(client, Some(0), millis(50));
    sim.run_for(Span::from_secs(3));
    let sampled = sim.series(sampled);
    assert_eq!(sampled.time.len(), 61);
    // Phases start at the establishment, 10 ms after the start.
    for (time, in_flight) in sampled.time.iter().zip(&sampled.in_flight).skip(2) {
        let place = (time.as_nanos() / 1_000_000 + 490) % 500;
        // Data in the send buffer at the end of a burst is still sent afterwards.
        let is_right = if place < 100 { in_flight.0 > 0 } else { place < 250 || in_flight.0 == 0 };
        assert!(is_right, "{time}: {in_flight}");
    }
}

/// A receiver that sends no data cannot measure the queueing delay by RTTs of its own. Its receive window must still
/// grow, so that the queue, however deep, and not the window limits the sender.
#[test]
fn the_receive_window_outgrows_a_deep_queue() {
    let link = || LinkConfig::new(Rate::from_bits_per_sec(20_000_000), millis(20));
    let queue = 1_000_000; // ten bandwidth-delay products, and four times the initial window
    let links = Duplex { there: link().queue(Limit::Bytes(queue)), back: link() };
    let mut sim = Sim::new(Setup::pair(1, links).configure(|config| config.congestion = "cubic".parse().unwrap()));
    sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    sim.run_for(Span::from_secs(30));
    let stats = sim.link(0).stats();
    assert!(stats.all().dropped(Cause::QueueFull) > 0, "at most {} of {queue} bytes", stats.max_bytes);
}

/// With an RTT as within a rack, queueing is that of a busy host. The window must not fill the queue: it is at most 1
/// MiB above the bandwidth-delay product at 100 Gb/s. On a longer route, the window grows further from its present
/// size.
#[test]
fn the_window_is_bounded_within_a_rack() {
    [0, 1].into_iter().for_each(the_window_of_a_host_is_bounded_within_a_rack);
}

fn the_window_of_a_host_is_bounded_within_a_rack(node: usize) {
    let rate = Rate::from_bits_per_sec(10_000_000_000);
    let link = |delay| LinkConfig::new(rate, delay).queue(Limit::Bytes(100_000_000));
    let setup = Setup::symmetric(1, link(Span::from_micros(50)));
    let mut sim = Sim::new(setup.configure(|config| config.congestion = "cubic".parse().unwrap()));
    let mut plans = [Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros()];
    plans.rotate_left(node);
    let [client, server] = plans;
    let (client, server) = sim.open(client, server);
    let sender = [client, server][node];
    // The server has a connection only after the first SYN has arrived.
    sim.run_for(millis(1));
    let most_in_flight = |sim: &mut Sim, time: u64| {
        let (end, mut most) = (sim.now() + millis(time), 0);
        while sim.now() < end {
            sim.run_for(Span::from_micros(20));
            let connection = sim.host(node).endpoint.connection(sim.session(sender).id).expect("it goes on");
            most = most.max(connection.info(sim.now()).in_flight.0);
        }
        most
    };
    let within_rack = most_in_flight(&mut sim, 200);
    let bound: u64 = (1 << 20) + 12_500 * 100;
    assert!(within_rack.abs_diff(bound) < 3000, "{node}: {within_rack}");
    let filled = sim.link(node as u32).stats().delivered_bytes as f64 / rate.bytes_in(millis(200)).as_f64();
    assert!(filled > 0.95, "{node}: {filled}");
    for number in [0, 1] {
        sim.reconfigure(number, link(millis(20))).unwrap();
    }
    let [first, later] = [75, 2000].map(|time| most_in_flight(&mut sim, time));
    assert!(first < 2 * bound && later > 4 * bound, "{node}: {first}, {later}");
}
