use std::collections::HashSet;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{DuplexStream, ReadBuf, duplex};

use super::*;

const SECRET: &str = "4821-harbor-violet";

struct Pipe(DuplexStream, [u8; 32]);

impl Exporter for Pipe {
    fn exporter(&self) -> Result<[u8; 32], TlsError> {
        Ok(self.1)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Runs both ends over a pipe, with the given exporters.
async fn meet(
    answerer: &Answerer,
    code: &Code,
    exporters: [[u8; 32]; 2],
) -> (Result<(), CodeError>, Result<(), CodeError>) {
    let (here, there) = duplex(4096);
    let (mut here, mut there) = (Pipe(here, exporters[0]), Pipe(there, exporters[1]));
    tokio::join!(call(&mut here, code), answerer.answer(&mut there, || ()))
}

fn code(text: &str) -> Code {
    text.parse().unwrap()
}

#[test]
fn codes_have_33_bits_and_come_back() {
    let words: HashSet<_> = WORDS.split_whitespace().collect();
    assert_eq!(words.len(), COUNT);
    assert!(words.iter().all(|word| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_lowercase())));
    let codes: Vec<_> = (0..100).map(|_| Code::generate().unwrap()).collect();
    let different: HashSet<_> = codes.iter().map(Code::to_string).collect();
    assert_eq!(different.len(), 100);
    for code in codes {
        assert_eq!(code.to_string().parse(), Ok(code.clone()));
        assert_eq!(format!(" {} ", code.to_string().to_uppercase()).parse(), Ok(code));
    }
    for bad in [
        "",
        "4821",
        "4821-harbor",
        "482-harbor-violet",
        "4821-harbor-violets",
        "4821-harbor-violet-x",
        "+821-harbor-violet",
    ] {
        assert_eq!(bad.parse::<Code>(), Err(ParseCodeError), "{bad}");
    }
}

#[tokio::test]
async fn the_same_code_authenticates_both_ends() {
    let answerer = Answerer::new(code(SECRET));
    let (called, answered) = meet(&answerer, &code(SECRET), [[7; 32]; 2]).await;
    assert!(called.is_ok() && answered.is_ok(), "{called:?} {answered:?}");
}

#[tokio::test]
async fn three_wrong_codes_end_it() {
    let answerer = Answerer::new(code(SECRET));
    for wrong in ["4820-harbor-violet", "4821-violet-harbor", "4821-harbor-harbor"] {
        assert!(!answerer.is_spent());
        let (called, answered) = meet(&answerer, &code(wrong), [[7; 32]; 2]).await;
        assert!(
            matches!((&called, &answered), (Err(CodeError::Wrong), Err(CodeError::Wrong))),
            "{called:?} {answered:?}"
        );
    }
    assert!(answerer.is_spent());
    let (called, answered) = meet(&answerer, &code(SECRET), [[7; 32]; 2]).await;
    assert!(matches!((&called, &answered), (Err(CodeError::Wrong), Err(CodeError::Spent))), "{called:?} {answered:?}");
}

/// A man in the middle who relays all messages has two connections, with one exporter each.
#[tokio::test]
async fn proofs_cannot_be_relayed_between_connections() {
    let answerer = Answerer::new(code(SECRET));
    let (called, answered) = meet(&answerer, &code(SECRET), [[7; 32], [8; 32]]).await;
    assert!(matches!((&called, &answered), (Err(CodeError::Wrong), Err(CodeError::Wrong))), "{called:?} {answered:?}");
}

/// An attacker reflects the caller's own messages to the caller.
#[tokio::test]
async fn reflected_messages_prove_nothing() {
    let (here, mut there) = duplex(4096);
    let reflect = async {
        let mut magic = [0; MAGIC.len()];
        there.read_exact(&mut magic).await.unwrap();
        let mut message = [0; MESSAGE];
        there.read_exact(&mut message).await.unwrap();
        there.write_all(&message).await.unwrap();
        let mut proof = [0; 32];
        // The caller may have closed the connection already.
        if there.read_exact(&mut proof).await.is_ok() {
            there.write_all(&[&[RIGHT][..], &proof].concat()).await.unwrap();
        }
        drop(there);
    };
    let call = async { call(&mut Pipe(here, [7; 32]), &code(SECRET)).await };
    let (called, ()) = tokio::join!(call, reflect);
    assert!(called.is_err());
}

/// A peer that has the proof can compare it with its guess. Without the proof it cannot.
#[tokio::test]
async fn a_peer_that_closes_has_had_its_guess_once_it_has_the_proof() {
    for takes_proof in [false, true] {
        let (here, mut there) = duplex(4096);
        let peer = async {
            let mut message = [0; MAGIC.len() + MESSAGE];
            there.read_exact(&mut message).await.unwrap();
            if takes_proof {
                let (_, answer) = Spake2::<Ed25519Group>::start_b(&password(&code(SECRET)), &caller(), &answerer());
                there.write_all(&answer).await.unwrap();
                there.read_exact(&mut [0; 32]).await.unwrap();
            }
            drop(there);
        };
        let (called, ()) = tokio::join!(async { call(&mut Pipe(here, [7; 32]), &code(SECRET)).await }, peer);
        assert_eq!(called.unwrap_err().is_harmless(), !takes_proof);
    }
}

#[tokio::test]
async fn other_protocols_and_garbage_are_no_attempts() {
    let answerer = Answerer::new(code(SECRET));
    for bytes in [&b"longhau\x02\0\0\0\0\0\0\0\0"[..], b"", b"longcod\x01", &[&MAGIC[..], &[0; 33]].concat()] {
        let (here, there) = duplex(4096);
        let (mut here, mut there) = (here, Pipe(there, [7; 32]));
        here.write_all(bytes).await.unwrap();
        here.shutdown().await.unwrap();
        assert!(answerer.answer(&mut there, || ()).await.is_err(), "{bytes:?}");
    }
    let (called, answered) = meet(&answerer, &code(SECRET), [[7; 32]; 2]).await;
    assert!(called.is_ok() && answered.is_ok(), "{called:?} {answered:?}");
}
