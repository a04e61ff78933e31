//! Packet captures and event logs of a run.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::rc::Rc;

use longhaul_sim::{Pcap, Qlog, SessionId, Sim};

type Out = BufWriter<File>;

/// Files of the senders of a run. The first error is returned at the end of the run.
#[derive(Debug)]
pub(super) struct Captures {
    /// Path of the files without the number of the flow.
    prefix: PathBuf,
    pcaps: Vec<Rc<RefCell<Pcap<Out>>>>,
    qlogs: Vec<Qlog<Out>>,
    error: Option<io::Error>,
}

impl Captures {
    pub(super) fn new(dir: &PathBuf, cell: usize, seed: u64) -> Self {
        let prefix = dir.join(format!("{cell}-{seed}"));
        Self { prefix, pcaps: Vec::new(), qlogs: Vec::new(), error: fs::create_dir_all(dir).err() }
    }

    /// Returns the path of a file of a flow.
    pub(super) fn path(&self, flow: usize, extension: &str) -> PathBuf {
        let mut path = self.prefix.clone().into_os_string();
        path.push(format!("-{flow}.{extension}"));
        path.into()
    }

    /// Captures the packets at a sender's host: TCP segments, or the datagrams of another stack.
    pub(super) fn packets(&mut self, sim: &mut Sim, flow: usize, node: usize, is_foreign: bool) {
        let start = if is_foreign { Pcap::at_agent } else { Pcap::at_host };
        if let Some(pcap) = self.create(flow, "pcap").and_then(|out| self.kept(start(node, out))) {
            let pcap = Rc::new(RefCell::new(pcap));
            sim.add_tap(Rc::clone(&pcap));
            self.pcaps.push(pcap);
        }
    }

    /// Logs the events of a session of longhaul.
    pub(super) fn events(&mut self, sim: &mut Sim, flow: usize, session: SessionId) {
        let log = self.create(flow, "sqlog").map(|out| sim.qlog(session, out));
        self.qlogs.extend(log);
    }

    fn create(&mut self, flow: usize, extension: &str) -> Option<Out> {
        let file = File::create(self.path(flow, extension));
        self.kept(file).map(BufWriter::new)
    }

    fn kept<T>(&mut self, result: io::Result<T>) -> Option<T> {
        result.map_err(|error| self.error.get_or_insert(error)).ok()
    }

    /// Completes the files.
    pub(super) fn finish(mut self) -> io::Result<()> {
        for pcap in std::mem::take(&mut self.pcaps) {
            let written = pcap.borrow_mut().finish().map(drop);
            self.kept(written);
        }
        for log in std::mem::take(&mut self.qlogs) {
            let written = log.finish().and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error));
            self.kept(written);
        }
        self.error.map_or(Ok(()), Err)
    }
}
