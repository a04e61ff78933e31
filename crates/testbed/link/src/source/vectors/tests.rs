use super::*;

fn micros(micros: u64) -> Span {
    Span::from_micros(micros)
}

fn adu(from: Side, after_send: u64, after_receive: u64, bytes: u64) -> Adu {
    Adu { from, after_send: micros(after_send), after_receive: micros(after_receive), bytes }
}

#[test]
fn the_original_format_is_read() {
    let text = "# recorded on a campus\nSEQ 1000 2 17 3\nw 65535 8192\nr 56000\nl 0.01 0\nm 1460 536\n\
                > 329\nt 1500\n< 403\nt 20\n< 7\nt 120000\n> 403\n< 25821\nt 3000000\n\
                CONC 6217 2 1 2 5\nr 1176194\nc> 222\nt> 62436302\nc> 16\nc< 726\nt< 9\n";
    let vectors = ConnectionVector::parse_all(text).unwrap();
    let (i, a) = (Side::Initiator, Side::Acceptor);
    let adus = vec![
        adu(i, 0, 0, 329),
        adu(a, 0, 1500, 403),
        adu(a, 20, 0, 7),
        adu(i, 0, 120_000, 403),
        adu(a, 0, 0, 25_821),
        adu(a, 3_000_000, 0, 0),
    ];
    let first = &vectors[0];
    assert_eq!((first.start, first.ids.as_slice()), (Time::ZERO + micros(1000), &[17, 3][..]));
    assert_eq!((first.windows, first.mss), (Some((65_535, 8_192)), Some((1_460, 536))));
    assert_eq!((first.rtt, first.loss), (Some(micros(56_000)), Some((0.01, 0.0))));
    assert_eq!(first.exchange, Exchange::Sequential(adus));
    assert_eq!((first.bytes_from(i), first.bytes_from(a)), (732, 26_231));
    let initiator = vec![adu(i, 0, 0, 222), adu(i, 62_436_302, 0, 16)];
    let acceptor = vec![adu(a, 0, 0, 726), adu(a, 9, 0, 0)];
    assert_eq!(vectors[1].exchange, Exchange::Concurrent { initiator, acceptor });
    assert_eq!(vectors.len(), 2);
}

#[test]
fn written_vectors_parse_to_the_same() {
    let text = "S 10 2 1 2\nw 1 2\nm 1460 1460\nr 5\nl 0.5 0.25\nI 0 0 245\nA 0 1200 510\nI 5 7 0\n\
                C 11 1 1\nI 0 0 5\nA 3 4 0\n";
    let vectors = ConnectionVector::parse_all(text).unwrap();
    let written: String = vectors.iter().map(ToString::to_string).collect();
    assert_eq!(ConnectionVector::parse_all(&written).unwrap(), vectors);
    assert_eq!(written, text.replace("S 10 2", "S 10 3"));
}

#[test]
fn faults_are_named_with_their_line() {
    let fault = |text| ConnectionVector::parse_all(text).unwrap_err();
    assert_eq!(fault("\nx 1"), VectorError::UnknownLine { line: 2, word: "x".into() });
    assert_eq!(fault("> 5"), VectorError::NoConnection { line: 1 });
    assert_eq!(fault("t 5"), VectorError::NoConnection { line: 1 });
    assert_eq!(fault("SEQ 1 1\n> -5"), VectorError::NotANumber { line: 2, what: "bytes" });
    assert_eq!(fault("SEQ x"), VectorError::NotANumber { line: 1, what: "start" });
    assert_eq!(fault("SEQ 5 1\nSEQ 4 1"), VectorError::Backwards { line: 2 });
    let wrong = |word: &str, kind| VectorError::WrongKind { line: 2, word: word.into(), kind };
    assert_eq!(fault("SEQ 1 1\nc> 5"), wrong("c>", "sequential"));
    assert_eq!(fault("CONC 1 1 1\n> 5"), wrong(">", "concurrent"));
}
