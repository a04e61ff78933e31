use std::io::IoSlice;

use longhaul_wire::{CheshireCodec, Codec, Flags, Header};

use super::*;

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("longhaul-capture-{}-{name}", std::process::id()))
}

fn segment(seq: u32, payload: usize) -> Vec<u8> {
    let header = Header { flags: Flags::ACK, seq, ..Header::default() };
    let mut bytes = vec![0; 60];
    let len = CheshireCodec::emit(&header, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes.resize(len + payload, 7);
    bytes
}

fn address(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

fn send(capture: &mut Capture, at: Time, datagrams: &[Vec<u8>]) {
    let slices: Vec<IoSlice<'_>> = datagrams.iter().map(|datagram| IoSlice::new(datagram)).collect();
    let outgoing = Outgoing {
        destination: address(2),
        tos: 0x22,
        src_ip: None,
        segment_size: (datagrams.len() > 1).then(|| datagrams[0].len() as u16),
        slices: &slices,
    };
    capture.sent(at, address(1), &outgoing);
}

fn receive(capture: &mut Capture, now: Time, at: Time, data: &[u8], stride: usize) {
    let incoming = Incoming {
        source: address(2),
        dst_ip: None,
        stride,
        ecn: 3,
        tos: None,
        ttl: Some(61),
        rx_time: Some(at),
        coalesced: stride < data.len(),
        data,
        shared: None,
    };
    capture.received(now, address(1), &incoming);
}

/// Returns source port, sequence number, nanoseconds since the first record, and packet of every record.
fn read(path: &Path) -> Vec<(u16, u32, u64, Vec<u8>)> {
    crate::disk::wait();
    let file = std::fs::read(path).unwrap();
    let _ = std::fs::remove_file(path);
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!([word(0), word(16), word(20)], [0xa1b2_3c4d, 262_144, 101]);
    let mut records = Vec::new();
    let mut at = 24;
    let mut first = None;
    while at < file.len() {
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        let len = word(at + 8) as usize;
        assert_eq!(word(at + 12) as usize, len);
        let packet = file[at + 16..at + 16 + len].to_vec();
        let port = u16::from_be_bytes(packet[20..22].try_into().unwrap());
        let seq = u32::from_be_bytes(packet[24..28].try_into().unwrap());
        records.push((port, seq, time - *first.get_or_insert(time), packet));
        at += 16 + len;
    }
    records
}

#[test]
fn batches_are_split_and_both_directions_merged_by_time() {
    let path = scratch("merge");
    let (start, _) = Io::clocks();
    let after = |micros: u64| start + Span::from_micros(micros);
    let mut capture = Capture::create(&path).unwrap();
    send(&mut capture, after(0), &[segment(1, 100), segment(101, 100), segment(201, 50)]);
    send(&mut capture, after(20), &[segment(251, 10)]);
    // Received before the second batch was sent, but read after it.
    let merged: Vec<u8> = [segment(9, 30), segment(39, 30), segment(69, 5)].concat();
    receive(&mut capture, after(40), after(10), &merged, 42);
    drop(capture);
    let records = read(&path);
    let order: Vec<_> = records.iter().map(|(port, seq, time, _)| (*port, *seq, *time)).collect();
    let expected =
        [(1, 1, 0), (1, 101, 0), (1, 201, 0), (2, 9, 10_000), (2, 39, 10_000), (2, 69, 10_000), (1, 251, 20_000)];
    assert_eq!(order, expected);
    // TOS, flags (Don't Fragment), TTL, protocol.
    let fields = |packet: &[u8]| [packet[1], packet[6], packet[8], packet[9]];
    assert_eq!(fields(&records[0].3), [0x22, 0x40, 64, 6]);
    assert_eq!(fields(&records[3].3), [3, 0x40, 61, 6]);
}

#[test]
fn timestamps_never_decrease_and_no_packet_is_held_forever() {
    let path = scratch("time");
    let (start, _) = Io::clocks();
    let mut capture = Capture::create(&path).unwrap();
    send(&mut capture, start, &[segment(1, 1)]);
    assert_eq!(capture.held.len(), 1);
    send(&mut capture, start + HOLD, &[segment(2, 1)]);
    assert_eq!(capture.held.len(), 1, "the first has waited long enough");
    receive(&mut capture, start + HOLD, start + HOLD, &segment(3, 1), 13);
    assert_eq!(capture.held.len(), 0);
    // The timestamp is earlier than that of the last packet in the file.
    receive(&mut capture, start + HOLD, start, &segment(4, 1), 13);
    while capture.held_bytes.len() < HOLD_BYTES / 2 {
        send(&mut capture, start + HOLD, &[segment(5, 1400)]);
    }
    let held = capture.held_bytes.len();
    while capture.held_bytes.len() >= held {
        send(&mut capture, start + HOLD, &[segment(6, 1400)]);
        assert!(capture.held_bytes.len() <= HOLD_BYTES);
        if capture.held_bytes.len() + 1500 > HOLD_BYTES {
            break;
        }
    }
    drop(capture);
    let records = read(&path);
    assert!(records.is_sorted_by_key(|record| record.2));
    assert_eq!(records[3].1, 4);
}

#[test]
fn datagrams_that_are_not_segments_are_omitted() {
    let path = scratch("junk");
    let (start, _) = Io::clocks();
    let mut capture = Capture::create(&path).unwrap();
    receive(&mut capture, start, start, b"hello", 5);
    receive(&mut capture, start, start, &segment(1, 0), 12);
    drop(capture);
    assert_eq!(read(&path).len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_up_ends_the_capture() {
    let path = scratch("full");
    let (start, _) = Io::clocks();
    let mut capture = Capture::create(&path).unwrap();
    let _ = std::fs::remove_file(&path);
    capture.output.to(path.clone(), Some(File::options().write(true).open("/dev/full").unwrap()));
    receive(&mut capture, start, start, &segment(1, 0), 12);
    capture.flush();
    crate::disk::wait();
    assert!(capture.output.has_failed());
    receive(&mut capture, start, start, &segment(2, 0), 12);
    send(&mut capture, start, &[segment(3, 1)]);
    assert!(capture.held.is_empty() && capture.output.data.is_empty());
}
