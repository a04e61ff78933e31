//! Memory for data that the kernel reads or writes.

/// Aligned array of which the first `len` bytes are in use.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Filled<const ROOM: usize> {
    pub(super) bytes: [u8; ROOM],
    pub(super) len: usize,
}

impl<const ROOM: usize> Default for Filled<ROOM> {
    fn default() -> Self {
        Self { bytes: [0; ROOM], len: 0 }
    }
}

impl<const ROOM: usize> Filled<ROOM> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    pub(super) fn storage(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Sets the length as reported by the kernel, limited to the size of the array.
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len.min(ROOM);
    }
}
