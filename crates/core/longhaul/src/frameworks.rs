//! Implementations of web frameworks' traits, each behind the feature named after its crate and the version of its interface.

#[cfg(feature = "axum-08")]
mod axum {
    use std::io;
    use std::net::SocketAddr;
    use std::time::Duration;

    use crate::{TcpListener, TcpStream};

    /// Pause after a failed accept, as in axum's own listeners.
    const PAUSE: Duration = Duration::from_secs(1);

    impl axum::serve::Listener for TcpListener {
        type Io = TcpStream;
        type Addr = SocketAddr;

        async fn accept(&mut self) -> (TcpStream, SocketAddr) {
            loop {
                match TcpListener::accept(self).await {
                    Ok(accepted) => return accepted,
                    Err(error) => {
                        tracing::error!(%error, "accept failed");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            TcpListener::local_addr(self)
        }
    }
}

#[cfg(feature = "hyper-util-01")]
mod hyper_util {
    use hyper_util::client::legacy::connect::{Connected, Connection};

    use crate::TcpStream;

    impl Connection for TcpStream {
        fn connected(&self) -> Connected {
            Connected::new()
        }
    }
}

#[cfg(feature = "tonic-014")]
mod tonic {
    use tonic::transport::server::{Connected, TcpConnectInfo};

    use crate::TcpStream;

    impl Connected for TcpStream {
        type ConnectInfo = TcpConnectInfo;

        fn connect_info(&self) -> TcpConnectInfo {
            TcpConnectInfo { local_addr: self.local_addr().ok(), remote_addr: self.peer_addr().ok() }
        }
    }
}
