//! Where randomness comes from, as time comes from a [`Clock`](crate::clock::Clock): names of new things are drawn from what
//! is passed in, so that a run can be repeated exactly. Nothing secret is made of it but what [`SystemChance`] gives.

use std::fmt;

pub trait Chance: Send + Sync + fmt::Debug + 'static {
    fn draw(&self) -> u64;

    fn draw_wide(&self) -> u128 {
        u128::from(self.draw()) << 64 | u128::from(self.draw())
    }
}

/// The system's, which nobody can guess.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    fn draw(&self) -> u64 {
        rand::random()
    }
}
