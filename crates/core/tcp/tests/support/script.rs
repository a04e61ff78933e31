//! Reader for arbitrary bytes used as a test script.

/// Script reader; returns zeros after the end.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    #[allow(dead_code, reason = "not every check needs it")]
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let (part, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        part.to_vec()
    }

    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}
