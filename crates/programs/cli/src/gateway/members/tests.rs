use std::net::{IpAddr, Ipv4Addr};

use super::flows::{Action, Flows};
use super::*;
use crate::sync::soon;

const SEGMENT: [u8; 12] = [0x50, 0x10, 1, 0, 0, 0, 0, 5, 0, 0, 0, 9];

fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], port))
}

fn stray(port: u16) -> Stray<'static> {
    Stray::new(client(port), None, &SEGMENT)
}

fn ask(flows: &mut Flows, at: Instant, live: Set, port: u16) -> u64 {
    match flows.on_stray(at, live, &stray(port)) {
        Action::Ask(to, nonce) if to == live => nonce,
        other => panic!("{other:?}"),
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_owner_gets_what_follows_its_answer_and_confirms_it() {
    let mut at = now();
    let mut flows = Flows::new(at, 7);
    let nonce = ask(&mut flows, at, 0b110, 1);
    // Datagrams that arrive before the answer are sent with the same question.
    assert_eq!(flows.on_stray(at, 0b110, &stray(1)), Action::Ask(0b110, nonce));
    assert_eq!(flows.on_stranger(at, 0b110, 1, (client(1), None), nonce), None);
    assert_eq!(flows.on_stray(at, 0b110, &stray(1)), Action::Ask(0b100, nonce), "one is left");
    flows.on_owner(at, 2, (client(1), None), nonce + 1);
    assert_eq!(flows.on_stray(at, 0b110, &stray(1)), Action::Ask(0b100, nonce), "that answers something else");
    flows.on_owner(at, 2, (client(1), None), nonce);
    for _ in 0..5 {
        assert_eq!(flows.on_stray(at, 0b110, &stray(1)), Action::Send(2, nonce));
        at += 1001 * MS;
        assert_eq!(flows.on_stray(at, 0b110, &stray(1)), Action::Ask(0b100, nonce));
        flows.on_owner(at, 2, (client(1), None), nonce);
    }
    // A member that does not answer, has died, or denies it is no longer the owner.
    at += 1001 * MS;
    flows.on_stray(at, 0b110, &stray(1));
    assert_eq!(flows.on_stray(at + 499 * MS, 0b110, &stray(1)), Action::Send(2, nonce));
    let next = ask(&mut flows, at + 501 * MS, 0b110, 1);
    flows.on_owner(at + 501 * MS, 2, (client(1), None), next);
    assert_eq!(flows.on_stray(at + 502 * MS, 0b110, &stray(1)), Action::Send(2, next));
    let last = ask(&mut flows, at + 502 * MS, 0b010, 1);
    flows.on_owner(at + 503 * MS, 1, (client(1), None), last);
    assert_eq!(flows.on_stranger(at + 503 * MS, 0b110, 1, (client(1), None), last), None);
    ask(&mut flows, at + 503 * MS, 0b110, 1);
}

#[test]
fn what_nobody_knows_is_refused_once_all_have_said_so_or_are_dead() {
    let at = now();
    let mut flows = Flows::new(at, 7);
    assert_eq!(flows.on_stray(at, 0, &stray(1)), Action::Refuse, "there is nobody to ask");
    let nonce = ask(&mut flows, at, 0b110, 1);
    assert_eq!(flows.on_stranger(at, 0b110, 1, (client(1), None), nonce), None);
    let refused = flows.on_stranger(at, 0b110, 2, (client(1), None), nonce).unwrap();
    assert_eq!((refused.flow, refused.stray().data), ((client(1), None), &SEGMENT[..]));
    assert_eq!(flows.on_stranger(at, 0b110, 2, (client(1), None), nonce), None, "once");
    assert_eq!(flows.on_stray(at + 999 * MS, 0b110, &stray(1)), Action::Refuse);
    ask(&mut flows, at + 1001 * MS, 0b110, 1);
    // One answers, and the other one dies.
    let nonce = ask(&mut flows, at, 0b110, 2);
    assert_eq!(flows.on_stranger(at, 0b110, 1, (client(2), None), nonce), None);
    assert_eq!(flows.on_loss(at, 0b110, 0b110, 0), []);
    let refused = flows.on_loss(at, 0b110, 0b010, 0);
    assert_eq!(refused.iter().map(|refused| refused.flow).collect::<Vec<_>>(), [(client(2), None)]);
    assert_eq!(flows.on_stray(at, 0b010, &stray(2)), Action::Refuse);
    assert_eq!(flows.on_loss(at, 0b010, 0b010, 0), []);
}

/// The latest stray of each connection of a member that has ended is refused, once.
#[test]
fn connections_of_a_member_that_has_ended_are_refused() {
    let at = now();
    let mut flows = Flows::new(at, 7);
    let latest = [0x50, 0x10, 1, 0, 0, 0, 0, 6, 0, 0, 0, 9];
    for (port, owner) in [(1, 1), (2, 2), (3, 1)] {
        let nonce = ask(&mut flows, at, 0b110, port);
        flows.on_owner(at, owner, (client(port), None), nonce);
        let next = Stray::new(client(port), None, &latest);
        assert_eq!(flows.on_stray(at, 0b110, &next), Action::Send(owner, nonce));
    }
    assert_eq!(flows.on_loss(at, 0b110, 0b100, 0), [], "a silent one may have them");
    let mut refused = flows.on_loss(at, 0b110, 0b100, 0b010);
    refused.sort_by_key(|refused| refused.flow);
    assert_eq!(refused.iter().map(|refused| refused.flow.0).collect::<Vec<_>>(), [client(1), client(3)]);
    assert!(refused.iter().all(|refused| refused.stray().data == latest));
    assert_eq!(flows.on_loss(at, 0b110, 0b100, 0b010), []);
}

/// A message may contain many datagrams of a connection, which all count.
#[test]
fn the_datagrams_that_are_sent_with_a_question_are_bounded() {
    let at = now();
    let mut flows = Flows::new(at, 7);
    let data = [0; 40 * 100];
    let mut many = Stray::new(client(1), None, &data);
    many.segment_size = 100;
    assert!(matches!(flows.on_stray(at, 0b110, &many), Action::Ask(0b110, _)));
    assert_eq!(flows.on_stray(at, 0b110, &many), Action::Drop);
    assert!(matches!(flows.on_stray(at + 100 * MS, 0b110, &many), Action::Ask(0b110, _)));
}

/// Thousands of strays with forged addresses have bounded costs, and do not affect known connections.
#[test]
fn a_flood_of_strays_is_bounded_and_keeps_no_connection_from_its_owner() {
    let mut at = now();
    let mut flows = Flows::new(at, 7);
    let nonce = ask(&mut flows, at, 0b10, 1);
    flows.on_owner(at, 1, (client(1), None), nonce);
    let mut asked = 0;
    for nth in 0..200_000_u32 {
        let from = SocketAddr::from((Ipv4Addr::from(nth.wrapping_mul(2_654_435_761)), 9));
        asked += u32::from(flows.on_stray(at, 0b10, &Stray::new(from, None, &SEGMENT)) != Action::Drop);
        if nth % 200 == 0 {
            at += MS;
            let action = flows.on_stray(at, 0b10, &stray(1));
            assert!(matches!(action, Action::Send(1, _) | Action::Ask(0b10, _)), "{action:?}");
            flows.on_owner(at, 1, (client(1), None), nonce);
        }
    }
    // 8,192 at once and 4,096 per second.
    assert!((12_000..12_400).contains(&asked), "{asked}");
    // A single address gets an eighth of these.
    let mut flows = Flows::new(at, 7);
    let from_one = (0..50_000).filter(|port| flows.on_stray(at, 0b10, &stray(*port)) != Action::Drop).count();
    assert_eq!(from_one, 1024);
    // Many segments of one connection, too.
    let mut flows = Flows::new(at, 7);
    assert_eq!((0..1000).filter(|_| flows.on_stray(at, 0b10, &stray(1)) != Action::Drop).count(), 64);
    assert_ne!(flows.on_stray(at + 101 * MS, 0b10, &stray(1)), Action::Drop);
    // Rates that the limits permit do not fill the memory.
    for nth in 0..50_000_u32 {
        let from = SocketAddr::from((Ipv4Addr::from(nth.wrapping_mul(2_654_435_761)), 9));
        at += MS;
        assert_ne!(flows.on_stray(at, 0b10, &Stray::new(from, None, &SEGMENT)), Action::Drop);
    }
    assert!((16_384..=32_768).contains(&flows.questions()), "{}", flows.questions());
}

#[test]
fn a_new_connection_goes_to_one_that_accepts() {
    let flows = Flows::new(now(), 7);
    assert_eq!(flows.choose(0, &stray(1)), None);
    let chosen: Vec<_> = (0..300).map(|port| flows.choose(0b1010, &stray(port)).unwrap()).collect();
    assert!(chosen.iter().all(|member| [1, 3].contains(member)));
    assert!([1, 3].iter().all(|member| chosen.iter().filter(|chosen| *chosen == member).count() > 100));
    assert_eq!(flows.choose(0b1010, &stray(5)), Some(chosen[5]));
}

/// Returns members of a group on this machine and a directory for its file.
fn group(count: usize) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("group");
    let free: Vec<_> = (0..count).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    let addresses: Vec<_> = free.iter().map(|socket| socket.local_addr().unwrap()).collect();
    GroupFile::create(&path, &addresses).unwrap();
    (directory, path)
}

fn drain_socket(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 2048];
    let next = || {
        let len = socket.recv(&mut buffer).ok()?;
        Some(buffer[..len].to_vec())
    };
    std::iter::from_fn(next).collect()
}

/// Messages that are forged, or that come from others, from the member itself or from another group, change nothing. A
/// stray from a member is never passed on: the answer is that its connection is unknown.
#[tokio::test]
async fn forged_messages_change_nothing_and_a_stray_goes_no_further() {
    let (_directory, path) = group(3);
    let [one, two, three] = [(); 3].map(|()| Members::join(&path).unwrap());
    assert!(Members::join(&path).is_err(), "all members run");
    let socket = longhaul::TcpSocket::new_v4().unwrap();
    socket.share_address(one.secret(), Arc::clone(&one) as Arc<dyn StrayHandler>);
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(8).unwrap();
    let intake = listener.intake();
    let mut bytes = Vec::new();
    let question = Message::about(Kind::Question, 5, stray(1));
    question.encode(&two.key, &mut bytes);
    for (from, datagram) in
        [(client(1), &bytes[..]), (one.own(), &bytes[..]), (two.own(), &bytes[1..]), (two.own(), &SEGMENT[..])]
    {
        one.receive(from, datagram, &intake);
    }
    question.encode(&[9; 32], &mut bytes);
    one.receive(two.own(), &bytes, &intake);
    assert_eq!((one.counts.forged.load(Ordering::Relaxed), drain_socket(&two.socket).len()), (5, 0));
    question.encode(&two.key, &mut bytes);
    one.receive(two.own(), &bytes, &intake);
    let answers = drain_socket(&two.socket);
    let answer = Message::decode(&two.key, &answers[0]).unwrap();
    assert_eq!((answers.len(), answer.kind, answer.nonce, answer.flow()), (1, Kind::Stranger, 5, (client(1), None)));
    assert_eq!(drain_socket(&three.socket).len(), 0, "one hop");
    // An answer that was not asked for is ignored, and so is one of the client's address family that the socket has not.
    for kind in [Kind::Owner, Kind::Stranger, Kind::Beat] {
        Message::about(kind, 5, stray(1)).encode(&two.key, &mut bytes);
        one.receive(two.own(), &bytes, &intake);
    }
    let six = SocketAddr::new(IpAddr::from([1; 16]), 9);
    Message::about(Kind::Stray, 5, Stray::new(six, None, &SEGMENT)).encode(&two.key, &mut bytes);
    one.receive(two.own(), &bytes, &intake);
    assert_eq!(drain_socket(&two.socket).len(), 1, "it says that it does not know the connection");
    assert_eq!(listener.info().resets_sent, 0);
}

/// Returns a listener that refuses what the group does not know, and its intake.
async fn refuser() -> (longhaul::TcpListener, StrayIntake) {
    let socket = longhaul::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(8).unwrap();
    let intake = listener.intake();
    (listener, intake)
}

/// Runs a member until the result is dropped.
fn run(member: &Arc<Members>, intake: &StrayIntake) -> tokio::task::JoinSet<()> {
    let (member, intake) = (Arc::clone(member), intake.clone());
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move { member.run(&intake, &Screen::hidden()).await.unwrap() });
    task
}

async fn until(mut is_so: impl FnMut() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(MS).await;
        }
    })
    .await;
}

/// A member whose process has ended is not waited for, whatever it has still sent, and one that starts there is heard. The
/// strays that it had are refused.
#[tokio::test]
async fn the_end_of_a_process_is_noticed_at_once() {
    let (_directory, path) = group(3);
    let [one, two, three] = [(); 3].map(|()| Members::join(&path).unwrap());
    let (listener, intake) = refuser().await;
    let _running = [&one, &two].map(|member| run(member, &intake));
    let member = |nth: usize| lock(&one.state).members[nth].clone();
    let live = || lock(&one.state).live_at(now());
    // A member is alive before it has been heard, and silent members are not without a connection.
    assert_eq!(live(), 0b110, "{:?} and {:?}", two.own(), three.own());
    assert_eq!(lock(&one.state).live_at(now() + SILENCE), 0);
    let third = run(&three, &intake);
    let heard = member(2).heard_at;
    until(|| member(2).heard_at > heard).await;
    let nonce = ask(&mut lock(&one.state).flows, now(), 0b110, 1);
    let mut bytes = Vec::new();
    Message::about(Kind::Owner, nonce, stray(1)).encode(&three.key, &mut bytes);
    one.receive(three.own(), &bytes, &intake);
    assert_eq!(lock(&one.state).flows.on_stray(now(), 0b110, &stray(1)), Action::Send(2, nonce));
    assert_eq!(listener.info().resets_sent, 0);
    drop((third, three));
    until(|| live() == 0b010).await;
    until(|| listener.info().resets_sent == 1).await;
    assert_eq!((member(2).heard_at, member(2).ended_at.is_some()), (None, true), "not by silence");
    // What was under way changes nothing, for a second or until a process accepts connections there.
    lock(&one.state).members[2].ended_at = Some(now() + 60 * SILENCE);
    Message::about(Kind::Beat, 0, stray(0)).encode(&one.key, &mut bytes);
    one.receive(member(2).address, &bytes, &intake);
    assert_eq!(live(), 0b010);
    let three = Members::join(&path).unwrap();
    let _third = run(&three, &intake);
    until(|| live() == 0b110).await;
    // A connection makes it wait longer.
    let later = [SILENCE, LINKED_SILENCE].map(|silence| lock(&one.state).live_at(now() + silence));
    assert_eq!(later, [0b110, 0]);
}

/// Without connections, silence decides. Nobody but members may hold connections, only two each, and nobody may send.
#[tokio::test]
async fn connections_of_others_are_reset() {
    let (_directory, path) = group(3);
    let [one, two, three] = [(); 3].map(|()| Members::join(&path).unwrap());
    let intake = refuser().await.1;
    let _running = run(&one, &intake);
    let connect = async |host: [u8; 4]| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((host, 0).into()).unwrap();
        socket.connect(one.own()).await.unwrap()
    };
    // The system here accepts any loopback address.
    let mut foreign = connect([127, 0, 0, 2]).await;
    assert_eq!(end(&mut foreign).await, Err(io::ErrorKind::ConnectionReset));
    let mut held = Vec::new();
    for _ in 0..2 * 2 {
        held.push(connect([127, 0, 0, 1]).await);
    }
    assert_eq!(end(&mut connect([127, 0, 0, 1]).await).await, Err(io::ErrorKind::ConnectionReset));
    let mut talks = held.remove(0);
    tokio::io::AsyncWriteExt::write_all(&mut talks, b"xx").await.unwrap();
    assert_eq!(end(&mut talks).await, Err(io::ErrorKind::ConnectionReset));
    // There is room for another one.
    let mut next = connect([127, 0, 0, 1]).await;
    let silence = tokio::time::timeout(50 * MS, end(&mut next)).await;
    assert!(silence.is_err(), "{silence:?}");
    // Those that one has opened wait in the queues of listeners that nobody reads, and say nothing.
    let live = || lock(&one.state).live_at(now());
    assert_eq!((live(), lock(&one.state).live_at(now() + LINKED_SILENCE)), (0b110, 0));
    let linked = || lock(&one.state).set(|member| member.is_linked);
    until(|| linked() == 0b110).await;
    drop((two, three));
    until(|| linked() == 0).await;
    assert_eq!(lock(&one.state).set(|member| member.ended_at.is_some()), 0, "resets have other causes, too");
}

/// Returns the result of reading from a connection.
async fn end(stream: &mut tokio::net::TcpStream) -> Result<usize, io::ErrorKind> {
    soon(tokio::io::AsyncReadExt::read(stream, &mut [0])).await.map_err(|error| error.kind())
}

/// A member sends strays to all others, with one question each, and refuses them when all have answered.
#[tokio::test]
async fn a_member_asks_all_others_and_then_refuses() {
    let (_directory, path) = group(3);
    let [one, two, three] = [(); 3].map(|()| Members::join(&path).unwrap());
    let (listener, intake) = refuser().await;
    // Both datagrams of a message are sent with the question.
    let pair = SEGMENT.repeat(2);
    let mut first = Stray::new(client(1), None, &pair);
    first.segment_size = SEGMENT.len();
    assert!(one.hand_over(&first));
    let mut bytes = Vec::new();
    for other in [&two, &three] {
        let received = drain_socket(&other.socket);
        let question = Message::decode(&other.key, &received[0]).unwrap();
        assert_eq!((received.len(), question.kind, question.stray.data), (2, Kind::Question, &SEGMENT[..]));
        let before = listener.info().resets_sent;
        Message::about(Kind::Stranger, question.nonce, stray(1)).encode(&other.key, &mut bytes);
        one.receive(other.own(), &bytes, &intake);
        assert_eq!((before, listener.info().resets_sent), (0, u64::from(other.own() == three.own())));
    }
    assert!(!one.hand_over(&stray(1)), "the listener refuses what follows");
    // SYNs go to a member that accepts connections; by their hashes, half of them would go to the other one.
    let drains = Message { is_draining: true, ..Message::about(Kind::Beat, 0, stray(0)) };
    // Only beats tell whether a member accepts connections.
    for message in [drains, Message::about(Kind::Owner, 0, stray(0))] {
        message.encode(&two.key, &mut bytes);
        one.receive(two.own(), &bytes, &intake);
    }
    for port in 0..20 {
        let mut syn = stray(port);
        syn.is_syn = true;
        assert!(one.hand_over(&syn));
    }
    assert_eq!((drain_socket(&two.socket).len(), drain_socket(&three.socket).len()), (0, 20));
}

/// What is known of the former members is forgotten with their numbers.
#[tokio::test]
async fn a_changed_file_changes_the_members() {
    let (_directory, path) = group(3);
    let one = Members::join(&path).unwrap();
    let [own, _, last] = GroupFile::open(&path).unwrap().members[..] else { panic!("three members") };
    let nonce = ask(&mut lock(&one.state).flows, now(), 0b110, 1);
    lock(&one.state).flows.on_owner(now(), 1, (client(1), None), nonce);
    std::fs::remove_file(&path).unwrap();
    GroupFile::create(&path, &[own, last]).unwrap();
    one.reload(&Screen::hidden());
    assert_eq!((one.others(), lock(&one.state).live_at(now())), (vec![last], 0b10));
    assert_ne!(ask(&mut lock(&one.state).flows, now(), 0b10, 1), nonce);
}
