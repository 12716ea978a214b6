//! A round's frames, kept in case they have to be read. Most never are; so they are kept as they came, and counted.

use crate::budget::Charge;

/// An answer larger than this cannot be continued, and a call in it that is not the client's ends the turn as an error.
/// The same holds for one that finds no room.
pub(crate) const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most answers are smaller, and not worth counting.
const FREE_BYTES: usize = 64 * 1024;

pub(crate) struct Recording {
    frames: Vec<u8>,
    charge: Charge,
}

impl Recording {
    pub fn new(charge: Charge) -> Self {
        Self { frames: Vec::new(), charge }
    }

    /// Adds a frame; whether there was room for it.
    pub fn add(&mut self, frame: &[u8]) -> bool {
        let length = self.frames.len() + frame.len();
        let counted = self.charge.bytes();
        let fits = length <= BYTES_MAX
            && (length <= FREE_BYTES.max(counted) || self.charge.try_grow(length.max(2 * counted) - counted));
        if fits {
            self.frames.extend_from_slice(frame);
        }
        fits
    }

    pub fn frames(&self) -> &[u8] {
        &self.frames
    }
}
