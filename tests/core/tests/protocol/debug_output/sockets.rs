//! Types of `longhaul` and `longhaul-tls`.

use std::collections::HashSet;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use longhaul_cc::registry::{Entry, register};

use super::{Checked, DATA, copied, values};

/// An algorithm for controlled environments only, as each is that does not say otherwise.
static UNSAFE: Entry = Entry::monolithic("unsafe", |_, _, params| longhaul_cc::Congestion::default().build(params));

#[tokio::test(flavor = "multi_thread")]
async fn debug_output_of_sockets_has_addresses_and_state_only() {
    use longhaul::*;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(DATA).await.unwrap();
        server.write_all(&DATA.repeat(10)).await.unwrap();
        server.readable().await.unwrap();
        client.readable().await.unwrap();
        clients.push(client);
        servers.push(server);
    }
    let (client, mut server) = (clients.pop().unwrap(), servers.pop().unwrap());
    let shown = format!("{server:?}");
    let expected =
        format!("TcpStream {{ local: {address}, peer: {}, state: Established }}", client.local_addr().unwrap());
    assert_eq!(shown, expected);

    let cache = PathCache::default();
    cache.seed([192, 0, 2, 1].into(), "cubic", &PathMetrics::default());
    let mut config = Config::default();
    config.path_cache(Some(cache.clone())).keep_alive(Some(KeepAlive::default()));
    let mut socket = TcpSocket::new_v4().unwrap();
    *socket.config() = config.clone();
    socket.set_reuseaddr(true).unwrap();
    register(&[&UNSAFE], &[]).unwrap();
    socket.config().congestion("unsafe".parse().unwrap());
    let unsafe_choice = socket.listen(9).unwrap_err();
    let unsafe_choice = unsafe_choice.get_ref().and_then(|inner| inner.downcast_ref::<UnsafeCongestion>()).unwrap();
    let mut checked = Checked::new("longhaul");
    values!(checked,
        TcpStream: client,
        TcpListener: listener,
        TcpConnector: TcpConnector::bind("127.0.0.1:0").await.unwrap(),
        TcpSocket: TcpSocket::new_v6().unwrap(),
        Config: config,
        Congestion: Congestion::default(),
        ParseCongestionError: "warp-drive".parse::<Congestion>().unwrap_err(),
        UnsafeCongestion: unsafe_choice,
        TcpInfo: client.info().unwrap(),
        TcpExperiments: client.info().unwrap().experiments(),
        ListenerInfo: listener.info(),
        LocalPath: LocalPath::Interface("eth0".to_owned()),
        Stray: Stray::new(address, None, DATA),
        StrayIntake: listener.intake(),
        PathCache: cache,
        LoadPathCacheError: cache.load(Duration::ZERO, str::from_utf8(DATA).unwrap()).unwrap_err(),
    );
    let (mut read, write) = server.split();
    assert_eq!(tokio::io::AsyncBufReadExt::fill_buf(&mut read).await.unwrap(), DATA);
    values!(checked, ReadHalf: read, WriteHalf: write,);
    let (mut read, write) = client.into_split();
    assert!(!read.fill_buf().await.unwrap().is_empty());
    values!(checked, OwnedReadHalf: read, OwnedWriteHalf: write,);
    let other = clients.pop().unwrap().into_split().1;
    values!(checked, ReuniteError: read.reunite(other).unwrap_err(),);
    copied!(checked, KeepAlive CongestionAlgorithm CongestionKind TcpStartup LimitedBy SendLimit SocketInfo TcpPairs UdpBackend
        PathCacheConfig PathMetrics SavedPath);
    checked.are_all(&[]);
}

#[tokio::test]
async fn debug_output_of_tls_has_no_keys() {
    use longhaul_tls::admission::*;
    use longhaul_tls::*;

    let identity = Identity::generate().unwrap();
    let key = identity.fingerprint();
    let listener = longhaul::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut listener = SecureListener::new(listener, &identity, move |found| *found == key).unwrap();
    let connector = SecureConnector::new(&identity, Some(key)).unwrap();
    let stream = longhaul::TcpStream::connect(address).await.unwrap();
    let (accepted, stream) = tokio::join!(listener.accept(), connector.connect(stream));
    let (mut stream, server) = (stream.unwrap(), accepted.unwrap().0);
    stream.write_all(DATA).await.unwrap();
    let admission = Admission::new(Limits { all: 1000, per_address: 1000 });
    let tickets: Vec<_> = (0..200).map(|_| admission.admit(address.ip(), None).unwrap()).collect();
    let mut checked = Checked::new("longhaul-tls");
    values!(checked,
        Admission: admission,
        Ticket: tickets[0],
        Authority: Authority::from_pem(identity.to_pem()).unwrap(),
        AuthorityError: Authority::from_pem("").unwrap_err(),
        SecureConnector: connector,
        TlsError: TlsError::WrongKey { expected: key, presented: key },
        ParseFingerprintError: "sha256:".parse::<Fingerprint>().unwrap_err(),
        Identity: identity,
        IdentityError: Identity::from_pem("").unwrap_err(),
        SecureListener: listener,
        SecureStream: server,
    );
    copied!(checked, Limits Prefix Fingerprint HandshakeLimits);
    checked.are_all(&[]);

    // No output may contain a line of the private key.
    let pem = identity.to_pem();
    let secret: HashSet<_> = pem.lines().filter(|line| !line.starts_with('-')).take(1).collect();
    let all = format!("{identity:?} {stream:?} {listener:?} {connector:?}");
    assert!(secret.iter().all(|line| !all.contains(&line[20..40])), "{all}");
}
