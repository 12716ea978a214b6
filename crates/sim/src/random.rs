//! SplitMix64: everything a run leaves to chance, from its seed.

use reveille::chance::Chance;
use std::sync::{Mutex, PoisonError};

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own, so that what one actor draws moves no other.
    pub fn fork(&mut self, label: u64) -> Self {
        let mixed = self.next() ^ label.wrapping_mul(0xd134_2543_de82_ef95);
        let mut own = Self(mixed);
        own.next();
        own
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// In this many of a thousand cases.
    pub fn mille(&mut self, cases: u64) -> bool {
        self.below(1000) < cases
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// Mostly short, seldom long: each power of two is as likely as any other.
    pub fn spread(&mut self, most: u64) -> u64 {
        let bits = 64 - most.max(1).leading_zeros();
        let bound = 1_u64 << self.between(1, u64::from(bits));
        self.below(bound).min(most)
    }
}

/// The same for the engine, which draws names from it.
#[derive(Debug)]
pub struct Drawn(Mutex<Random>);

impl Drawn {
    pub fn new(random: Random) -> Self {
        Self(Mutex::new(random))
    }

    pub fn with<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Chance for Drawn {
    fn draw(&self) -> u64 {
        self.with(Random::next)
    }
}
