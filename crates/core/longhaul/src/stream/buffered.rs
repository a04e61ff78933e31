//! Reading from the receive buffers in place (`AsyncBufRead`).

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use crate::handle::Handle;

/// Data that a read half has shown to its reader, as a reference to a receive buffer. Until the reader consumes it, it is
/// unread data of the connection, which counts towards the limits of memory. Dropping it loses nothing.
#[derive(Default)]
pub(super) struct Buffered {
    data: Bytes,
    /// Offset of the data in the stream.
    start: u64,
}

impl Buffered {
    pub(super) fn poll_fill(&mut self, handle: &Handle, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        // The half may have been read otherwise since.
        self.data = Bytes::new();
        (self.start, self.data) = ready!(handle.poll_front(cx))?;
        Poll::Ready(Ok(&self.data))
    }

    pub(super) fn consume(&mut self, handle: &Handle, len: usize) {
        let len = len.min(self.data.len());
        if len == 0 {
            return;
        }
        self.data.advance(len);
        self.start += len as u64;
        if self.data.is_empty() {
            // Release the receive buffer.
            self.data = Bytes::new();
        }
        handle.consume_to(self.start);
    }
}

/// `AsyncBufRead` methods of a read half; the arguments are the paths to the [`Buffered`] and to the handle.
macro_rules! async_buf_read {
    ($buffered:tt, $($handle:tt).+) => {
        fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
            let half = self.get_mut();
            half.$buffered.poll_fill(&half.$($handle).+, cx)
        }

        fn consume(self: Pin<&mut Self>, len: usize) {
            let half = self.get_mut();
            half.$buffered.consume(&half.$($handle).+, len);
        }
    };
}

pub(super) use async_buf_read;
