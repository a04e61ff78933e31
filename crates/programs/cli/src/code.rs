//! One-time codes, with which two machines that do not know each other's keys authenticate each other.
//!
//! Both run SPAKE2 (the crate `spake2`, over Ed25519) with the code as the password, inside a TLS connection. Each end
//! proves that it has derived the same key by sending a hash over the connection's exporter (RFC 8446, section 7.5), so
//! that a man in the middle, whose two connections have different exporters, has one guess per attempt and cannot relay
//! the proofs.
//!
//! The initiator sends [`MAGIC`] and its SPAKE2 message, the responder sends its own message, and the initiator sends
//! its proof. If that proof is correct, the responder sends a byte with the value 1 and its own proof.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Mutex;

use longhaul_tls::{SecureStream, TlsError};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::sync::lock;

/// First bytes that the initiator sends; the last byte is the version.
pub(crate) const MAGIC: [u8; 8] = *b"longcod\x01";
/// Maximum number of attempts with a wrong code.
pub(crate) const FAILURES: u32 = 3;

/// The caller's proof is right.
const RIGHT: u8 = 1;
const WRONG: u8 = 0;
const LABEL: &str = "EXPORTER-longhaul-code";
/// Length of a SPAKE2 message in bytes.
const MESSAGE: usize = 33;
const WORDS: &str = include_str!("code/words.txt");
/// Number of words. With a power of 2, random numbers are reduced without bias.
const COUNT: usize = 1024;
/// Number of values of the four digits.
const NUMBERS: u32 = 10_000;

/// A one-time code, displayed as `4821-harbor-violet`: four digits and two words of 1024, which together have 33 bits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Code(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a code has four digits and two words, such as 4821-harbor-violet; one of the words is not known")]
pub(crate) struct ParseCodeError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CodeError {
    #[error(transparent)]
    Connection(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the peer does not use a code")]
    NotOurs,
    /// The peer has our proof, so that it may have tried a code.
    #[error("the connection failed while the code was checked: {0}")]
    Unanswered(io::Error),
    #[error("the code is wrong, or somebody intercepts the connection")]
    Wrong,
    #[error("the code is not valid any more")]
    Spent,
    #[error("there is no randomness: {0}")]
    Random(getrandom::Error),
}

impl CodeError {
    /// Returns whether the peer cannot have tried a code.
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::Tls(_) | Self::NotOurs)
    }
}

impl Code {
    pub(crate) fn generate() -> Result<Self, CodeError> {
        let random = || getrandom::u32().map_err(CodeError::Random);
        // Values after the last multiple of `NUMBERS` would make small numbers more likely.
        let number = loop {
            let value = random()?;
            if value < u32::MAX - u32::MAX % NUMBERS {
                break value % NUMBERS;
            }
        };
        let words: Vec<_> = WORDS.split_whitespace().collect();
        let word = |value: u32| words.get(value as usize % COUNT).copied().unwrap_or_default();
        Ok(Self(format!("{number:04}-{}-{}", word(random()?), word(random()?))))
    }

    /// Returns the four digits, which a rendezvous may know.
    pub(crate) fn number(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(..)")
    }
}

impl FromStr for Code {
    type Err = ParseCodeError;

    /// Parses a code; capital letters are accepted.
    fn from_str(text: &str) -> Result<Self, ParseCodeError> {
        let text = text.trim().to_lowercase();
        let mut parts = text.split('-');
        let (number, first, second) = (parts.next(), parts.next(), parts.next());
        let digits = number.is_some_and(|number| number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()));
        let known = |word: Option<&str>| word.is_some_and(|word| WORDS.split_whitespace().any(|known| known == word));
        let valid = digits && known(first) && known(second) && parts.next().is_none();
        if valid { Ok(Self(text)) } else { Err(ParseCodeError) }
    }
}

/// Stream with a TLS exporter; tests substitute a pipe.
pub(crate) trait Exporter: AsyncRead + AsyncWrite + Unpin {
    /// Returns bytes that only the two ends of the connection can derive.
    fn exporter(&self) -> Result<[u8; 32], TlsError>;
}

impl Exporter for SecureStream {
    fn exporter(&self) -> Result<[u8; 32], TlsError> {
        self.export(LABEL)
    }
}

/// Proves to the peer that this end knows `code`, and checks that the peer knows it. Fails if the connection fails, or
/// if the peer does not know the code. After `Wrong` or `Unanswered`, the code must not be used again: the peer has had
/// its guess.
pub(crate) async fn call(stream: &mut impl Exporter, code: &Code) -> Result<(), CodeError> {
    let (state, message) = Spake2::<Ed25519Group>::start_a(&password(code), &caller(), &answerer());
    stream.write_all(&[&MAGIC[..], &message].concat()).await?;
    stream.flush().await?;
    let theirs = read::<MESSAGE>(stream).await.map_err(not_ours)?;
    let proofs = Proofs::of(state, &theirs, stream)?;
    match exchange(stream, &proofs.caller).await.map_err(CodeError::Unanswered)? {
        // `blake3::Hash` compares in constant time.
        Some(proof) if proof == proofs.answerer => Ok(()),
        _ => Err(CodeError::Wrong),
    }
}

/// Sends the proof of the caller. Returns the peer's, unless the peer says that the caller's is wrong.
async fn exchange(stream: &mut impl Exporter, proof: &blake3::Hash) -> io::Result<Option<blake3::Hash>> {
    stream.write_all(proof.as_bytes()).await?;
    stream.flush().await?;
    match read(stream).await? {
        [RIGHT] => Ok(Some(blake3::Hash::from_bytes(read(stream).await?))),
        _ => Ok(None),
    }
}

/// Authenticates peers by a code, until [`FAILURES`] attempts have failed.
pub(crate) struct Answerer {
    code: Code,
    left: Mutex<u32>,
}

impl Answerer {
    /// Creates an answerer with [`FAILURES`] attempts.
    pub(crate) fn new(code: Code) -> Self {
        Self { code, left: Mutex::new(FAILURES) }
    }

    pub(crate) fn is_spent(&self) -> bool {
        *lock(&self.left) == 0
    }

    /// Checks that the peer knows the code, and proves that this end does. `heard` is called when the peer's first
    /// message has arrived.
    pub(crate) async fn answer(&self, stream: &mut impl Exporter, heard: impl FnOnce()) -> Result<(), CodeError> {
        if read(stream).await? != MAGIC {
            return Err(CodeError::NotOurs);
        }
        let theirs = read::<MESSAGE>(stream).await?;
        heard();
        let (state, message) = Spake2::<Ed25519Group>::start_b(&password(&self.code), &caller(), &answerer());
        stream.write_all(&message).await?;
        stream.flush().await?;
        let proofs = Proofs::of(state, &theirs, stream)?;
        let proof = blake3::Hash::from_bytes(read(stream).await?);
        if let Err(error) = self.check(proof == proofs.caller) {
            stream.write_all(&[WRONG]).await?;
            stream.flush().await?;
            return Err(error);
        }
        stream.write_all(&[&[RIGHT][..], proofs.answerer.as_bytes()].concat()).await?;
        Ok(stream.flush().await?)
    }

    /// Counts a failed attempt. When no attempts remain, even a correct code is refused.
    fn check(&self, right: bool) -> Result<(), CodeError> {
        let mut left = lock(&self.left);
        if *left == 0 {
            return Err(CodeError::Spent);
        }
        *left -= u32::from(!right);
        if right { Ok(()) } else { Err(CodeError::Wrong) }
    }
}

struct Proofs {
    caller: blake3::Hash,
    answerer: blake3::Hash,
}

impl Proofs {
    fn of(state: Spake2<Ed25519Group>, theirs: &[u8], stream: &impl Exporter) -> Result<Self, CodeError> {
        let key = state.finish(theirs).map_err(|_| CodeError::Wrong)?;
        let key: [u8; 32] = key.try_into().map_err(|_| CodeError::Wrong)?;
        let exporter = stream.exporter()?;
        let proof = |side: &[u8]| blake3::keyed_hash(&key, &[side, &exporter].concat());
        Ok(Self { caller: proof(b"caller"), answerer: proof(b"answerer") })
    }
}

fn password(code: &Code) -> Password {
    Password::new(code.0.as_bytes())
}

fn caller() -> Identity {
    Identity::new(b"longhaul caller")
}

fn answerer() -> Identity {
    Identity::new(b"longhaul answerer")
}

async fn read<const N: usize>(stream: &mut impl Exporter) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// A peer that does not expect a code closes the connection.
fn not_ours(error: io::Error) -> CodeError {
    let tls = longhaul_tls::tls_error(&error).is_some();
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if !tls => CodeError::NotOurs,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests;
