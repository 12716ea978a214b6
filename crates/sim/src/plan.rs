//! What a seed means: how large the world is, how bad its weather gets, and the bounds it runs with. Bounds are small, so
//! that they are reached.

use crate::random::Random;
use reveille::engine::Settings;
use reveille_core::{Limits, Millis, SessionId};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    /// The database is elsewhere: answers get lost, and so does word of what others commit.
    pub remote: bool,
    pub clients: usize,
    pub sessions: Vec<SessionId>,
    /// How long clients come, in milliseconds.
    pub length: u64,
    pub stormy: bool,
    /// The clock is set now and then.
    pub jumps: bool,
    pub limits: Limits,
    pub window_max: usize,
}

const NAMES: [&str; 4] = ["red", "会话-绿", "blue 🔵", "a/b c"];

impl Plan {
    pub fn new(seed: u64, random: &mut Random, alone: bool) -> Self {
        let nodes = if alone { 1 } else { *random.pick(&[1, 1, 1, 2, 2, 3]) };
        let seconds = Millis::from_secs;
        let limits = Limits {
            live_timers_max: random.between(2, 12) as u32,
            live_reminders_max: random.between(2, 8) as u32,
            pending_messages_max: random.between(4, 30) as u32,
            due_window: seconds(random.between(0, 5)),
            reminder_retention: seconds(random.between(3, 30)),
            lease: seconds(random.between(2, 8)),
            turn: seconds(random.between(5, 20)),
            idle_session: seconds(random.between(30, 300)),
            call_lease: seconds(40),
            call_attempts_max: random.between(1, 4) as u32,
            ..Limits::default()
        };
        Self {
            seed,
            nodes,
            remote: !alone && (nodes > 1 || random.mille(300)),
            clients: random.between(2, 5) as usize,
            sessions: NAMES[..random.between(1, 4) as usize].iter().map(|name| SessionId::new(*name)).collect(),
            length: random.between(15_000, 50_000),
            stormy: random.mille(850),
            jumps: random.mille(400),
            limits,
            window_max: *random.pick(&[1, 2, 4, 16, 8192]),
        }
    }

    pub fn settings(&self, chance: Arc<dyn reveille::chance::Chance>) -> Settings {
        Settings { limits: self.limits.clone(), window_max: self.window_max, chance, ..Settings::default() }
    }
}
