//! Claims that are not answered.

use super::*;

/// A client that moves while nobody answers gives up after two minutes, and can move again.
#[test]
fn a_claim_is_repeated_twenty_times() {
    let mut world = World::new(DELAY, Config::default());
    let moves = Moves::default();
    assert!(world.ends[0].observe(world.now, world.ids[0], Box::new(moves.clone())));
    world.carry(0, 100_000, SECOND * 5);
    world.lose = Box::new(|_| true);
    world.relocate(address(2, 6000));
    world.run_for(SECOND * 600);
    let events = std::mem::take(&mut *moves.0.lock().unwrap());
    let claims = events.iter().filter(|event| event.starts_with("MoveClaimed")).count();
    assert_eq!((claims, events.last().map(String::as_str)), (20, Some("MoveFailed")));
    // It can move again.
    world.lose = Box::new(|_| false);
    world.relocate(address(3, 6000));
    world.carry(0, 100, SECOND * 5);
    world.carry(1, 100_000, SECOND * 5);
    assert_eq!(world.known(), Some(address(3, 6000)));
}

/// The server drops what arrives from an unknown address, so everything waits for the next challenge.
#[test]
fn a_lost_answer_is_repeated() {
    let mut world = World::new(DELAY, Config::default());
    let config = EndpointConfig { reset_unknown: false, ..EndpointConfig::new([2; 32]) };
    world.ends[1].set_limits(&config);
    world.carry(0, 100_000, SECOND * 5);
    let mut answers = 0;
    world.lose = Box::new(move |flight| {
        let is_answer = flight.moving().is_some_and(|moving| moving.step == MoveStep::Answer);
        answers += u32::from(is_answer);
        is_answer && answers == 1
    });
    world.relocate(address(2, 6000));
    let took = world.carry(0, 100_000, SECOND * 5);
    assert!(took < DELAY * 20, "{took}");
    world.lose = Box::new(|_| false);
    world.carry(1, 100_000, SECOND * 5);
}

#[test]
fn addresses_of_other_connections_and_groups_are_not_taken() {
    let mut world = World::new(DELAY, Config::default());
    let other = Tuple { remote: address(7, 7), ..World::to_server() };
    assert!(world.ends[0].connect(world.now, other, Arc::new(Config::default())).is_some());
    let everybody = Tuple { remote: SocketAddr::from(([224, 0, 0, 1], 7)), ..other };
    for tuple in [other, everybody] {
        assert!(!world.ends[0].relocate(world.now, world.ids[0], tuple), "{tuple:?}");
    }
    assert!(world.relocate(address(2, 6000)));
}

/// However long the round-trip time is, the next claim follows after eight seconds. Data then takes a round trip and a half.
#[test]
fn a_lost_claim_is_repeated_after_eight_seconds() {
    let mut world = World::new(SECOND, Config::default());
    world.delay = SECOND * 4;
    for _ in 0..10 {
        world.carry(0, 1000, SECOND * 60);
    }
    let mut claims = 0;
    world.lose = Box::new(move |flight| {
        claims += u32::from(flight.from == address(2, 6000));
        claims == 1
    });
    world.relocate(address(2, 6000));
    assert_eq!(world.carry(0, 100, SECOND * 90), SECOND * 20);
}
