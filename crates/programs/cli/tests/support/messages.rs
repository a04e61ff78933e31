//! Messages of peers, generated from a script. The fuzz target and the replay of its corpus both call [`messages`].

use clap::Parser as _;
use longhaul_cli::perf::options::Options;
use longhaul_cli::perf::protocol::{self as perf, Message};
use longhaul_cli::perf::reporter::Reporter;
use longhaul_cli::protocol;
use longhaul_cli::tunnel::{self, Tunnel};
use tokio::io::AsyncReadExt as _;

/// Reads the messages of a protocol, which the first byte of the script selects, and processes them as far as that
/// needs no connection. Nothing may panic, and no arithmetic may overflow.
pub fn messages(script: &[u8]) {
    let Some((protocol, bytes)) = script.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        match protocol % 4 {
            0 => replies(bytes),
            1 => headers(bytes).await,
            2 => frames(bytes).await,
            _ => measurements(bytes).await,
        }
    });
}

fn replies(bytes: &[u8]) {
    let mut inbox = bytes.to_vec();
    while let Ok(Some((number, reply))) = protocol::take_reply(&mut inbox) {
        let mut encoded = Vec::new();
        protocol::encode_reply(&mut encoded, number, &reply);
        assert!(matches!(protocol::take_reply(&mut encoded), Ok(Some((again, _))) if again == number));
    }
}

async fn headers(mut bytes: &[u8]) {
    while let Ok(first) = bytes.read_u8().await {
        let Ok(header) = protocol::read_header(first, &mut bytes).await else { return };
        assert!(protocol::encode_header(&header).is_ok(), "{header:?}");
    }
}

async fn frames(bytes: &[u8]) {
    let all = [&tunnel::MAGIC[..], bytes].concat();
    let Ok(mut tunnel) = Tunnel::start(tokio::io::join(&all[..], tokio::io::sink())).await else { return };
    while let Ok(Some(frame)) = tunnel.next().await {
        let _ = frame.encode();
    }
}

/// Messages of the other end of a measurement, and the reports about them.
async fn measurements(mut bytes: &[u8]) {
    loop {
        let (results, params) = match perf::read(&mut bytes).await {
            Ok(Message::Results(results)) => (*results, perf::Params::default()),
            Ok(Message::Params(params)) if params.check().is_ok() => (Default::default(), params),
            Ok(_) => continue,
            Err(_) => return,
        };
        let sends: Vec<_> = results.streams.iter().map(|stream| stream.sender).collect();
        let _ = results.fits(&sends);
        for options in ["perf -s --logfile /dev/null -V", "perf -s --logfile /dev/null --json-stream"] {
            let options = Options::try_parse_from(options.split(' ')).expect("options");
            let mut reporter = Reporter::new(&options, true).expect("a null device");
            reporter.report.params = perf::Params { streams: params.streams.max(2), ..params.clone() };
            results.intervals.iter().for_each(|interval| reporter.interval(interval));
            reporter.end(&Ok((results.clone(), results.clone())));
        }
    }
}
