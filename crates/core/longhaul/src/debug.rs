//! `Debug` output of sockets: addresses and state, without the data, keys and settings of the sockets.
//!
//! Applications write these types to their logs. The output is short, and formatting never waits for a lock.

use std::fmt::{Debug, Formatter, Result};

use crate::connector::TcpConnector;
use crate::handle::Handle;
use crate::info::TcpInfo;
use crate::listener::TcpListener;
use crate::socket::TcpSocket;
use crate::stream::TcpStream;
use crate::stream::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};

impl Handle {
    /// Shows the handle under the name of the type that contains it. The state is omitted if the endpoint is in use.
    fn show(&self, name: &str, f: &mut Formatter<'_>) -> Result {
        let mut all = f.debug_struct(name);
        all.field("local", &self.local).field("peer", &self.peer);
        if let Some(state) = self.state() {
            all.field("state", &state);
        }
        all.finish()
    }
}

/// Shows types that contain the handle of a connection.
macro_rules! connections {
    ($($type:ty, $name:literal;)*) => {$(
        impl Debug for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                let stream: &TcpStream = self.as_ref();
                stream.handle.show($name, f)
            }
        }
    )*};
}

connections! {
    TcpStream, "TcpStream";
    ReadHalf<'_>, "ReadHalf";
    WriteHalf<'_>, "WriteHalf";
    OwnedReadHalf, "OwnedReadHalf";
    OwnedWriteHalf, "OwnedWriteHalf";
}

impl Debug for TcpListener {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("TcpListener").field("local", &self.first().local).finish()
    }
}

impl Debug for TcpConnector {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("TcpConnector").field("local", &self.first().local).finish()
    }
}

impl Debug for TcpSocket {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("TcpSocket").field("udp", &self.udp).finish_non_exhaustive()
    }
}

longhaul_units::debug_in_part!(TcpInfo;
    state ca_state congestion phase rtt min_rtt rto snd_cwnd_bytes in_flight_bytes snd_mss_bytes
    delivery_bytes_per_second pacing_bytes_per_second bytes_acked bytes_received total_retrans host_error age;
    backoff options unacked_segments pmtu_bytes rttvar snd_ssthresh_segments snd_cwnd_segments rcv_space_bytes
    max_pacing_bytes_per_second segs_out segs_in notsent_bytes data_segs_out bandwidth_bytes_per_second busy_time
    rwnd_limited sndbuf_limited bytes_sent bytes_retrans dsack_dups snd_wnd_bytes startup startup_given_up
    snd_ssthresh_bytes latest_rtt delivered_bytes lost_bytes rcv_duplicate_bytes rcv_refused_bytes unread_bytes
    received_ce echoes_asked echoes_missing timeouts tail_probes recoveries spurious_recoveries challenge_acks
    paws_dropped windows_shrunk host_errors r1_reached user_timeout peer_user_timeout experiments limited_by
    memory_bytes socket);
