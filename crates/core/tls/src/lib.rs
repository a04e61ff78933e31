//! TLS 1.3 over longhaul streams, with mutual authentication by pinned keys.
//!
//! Each end has an [`Identity`], an Ed25519 key with a self-signed certificate. Only the key counts: names and dates in
//! certificates are ignored. A [`SecureConnector`] accepts one server key, and a [`SecureListener`] accepts the client
//! keys that the application allows. Neither has a mode that accepts any key. Both may also trust an [`Authority`],
//! that is, accept certificates that it has signed, as long as they are valid.
//!
//! ```
//! use longhaul::{TcpListener, TcpStream};
//! use longhaul_tls::{Identity, SecureConnector, SecureListener};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `Identity::open` keeps a key in a file. Each end learns the other's fingerprint beforehand.
//! let (server, client) = (Identity::generate()?, Identity::generate()?);
//! let (server_key, client_key) = (server.fingerprint(), client.fingerprint());
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//! let mut listener = SecureListener::new(listener, &server, move |key| *key == client_key)?;
//! let served = tokio::spawn(async move {
//!     let (mut stream, _) = listener.accept().await.unwrap();
//!     let mut text = String::new();
//!     stream.read_to_string(&mut text).await.unwrap();
//!     (stream.peer(), text)
//! });
//!
//! let connector = SecureConnector::new(&client, Some(server_key))?;
//! let mut stream = connector.connect(TcpStream::connect(address).await?).await?;
//! stream.write_all(b"a long way, in private").await?;
//! stream.close().await?;
//! # let (peer, text) = served.await?;
//! # assert_eq!((peer, text.as_str()), (client_key, "a long way, in private"));
//! # Ok(())
//! # }
//! ```
//!
//! Clients that connect again through the same connector resume their session, which saves the signatures and the
//! certificates of a full handshake. Data is never sent before the handshake is complete (0-RTT).
//!
//! TLS protects the stream, but not the headers of its segments: an attacker on the path can end a connection. Reads
//! then fail; a read returns 0 bytes only if the peer has ended the stream with TLS's `close_notify`.
#![forbid(unsafe_code)]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

pub mod admission;
mod authority;
mod connector;
mod error;
mod fingerprint;
mod identity;
pub mod limiter;
mod listener;
mod metered;
mod moving;
mod stream;
mod verify;

pub use authority::{Authority, AuthorityError};
pub use connector::SecureConnector;
pub use error::{TlsError, tls_error};
pub use fingerprint::{Fingerprint, ParseFingerprintError};
pub use identity::{Identity, IdentityError};
pub use listener::{HandshakeLimits, SecureListener};
pub use stream::SecureStream;
