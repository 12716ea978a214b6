//! Timers as a person with a stopwatch and a notebook would keep them, written from the design and not from the code:
//! it adds up the time that really ran, moment by moment, and knows no deadlines. Slow, plain, and only for clocks
//! that never go back.

/// What a person would say to a wish: how long to stand by, if at all, or why not.
pub type Answer = Result<Option<u64>, &'static str>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    Going { background: bool },
    Resting { until: i64, background: bool },
    Done,
    Halted,
}

#[derive(Clone, Debug)]
pub struct Stopwatch {
    pub mission: bool,
    pub total: u64,
    pub ran: u64,
    pub hand: Hand,
    /// Up to when the notebook is kept.
    seen: i64,
}

impl Stopwatch {
    pub fn status(&self) -> &'static str {
        match self.hand {
            Hand::Going { background: false } => "running",
            Hand::Going { background: true } => "running_background",
            Hand::Resting { .. } => "paused",
            Hand::Done => "completed",
            Hand::Halted => "stopped",
        }
    }

    pub fn is_live(&self) -> bool {
        matches!(self.hand, Hand::Going { .. } | Hand::Resting { .. })
    }

    /// Lives through the time up to `now`, one stretch of running or resting after the other.
    fn live_until(&mut self, now: i64) {
        while self.seen < now {
            match self.hand {
                Hand::Going { .. } => {
                    let stretch = (now - self.seen).min((self.total - self.ran) as i64);
                    self.seen += stretch;
                    self.ran += stretch as u64;
                    if self.ran == self.total {
                        self.hand = Hand::Done;
                    }
                }
                Hand::Resting { until, background } => {
                    self.seen = now.min(until);
                    if self.seen == until {
                        self.hand = Hand::Going { background };
                    }
                }
                Hand::Done | Hand::Halted => self.seen = now,
            }
        }
    }

    fn stand_by(&mut self, timeout: Option<u64>) -> Answer {
        if let Hand::Going { background } = &mut self.hand {
            *background = false;
            let left = self.total - self.ran;
            return Ok(Some(timeout.unwrap_or(left).min(left)));
        }
        Ok(None)
    }
}

pub struct Continue {
    pub total: Option<u64>,
    pub timeout: Option<u64>,
    pub reason: bool,
    pub mission: bool,
}

pub struct Shelf {
    pub watches: Vec<Stopwatch>,
    /// Key, arguments, which watch.
    keys: Vec<(u8, String, usize)>,
    live_max: usize,
}

impl Shelf {
    pub fn new(live_max: usize) -> Self {
        Self { watches: Vec::new(), keys: Vec::new(), live_max }
    }

    pub fn live_until(&mut self, now: i64) {
        self.watches.iter_mut().for_each(|watch| watch.live_until(now));
    }

    pub fn create(
        &mut self,
        mission: bool,
        total: u64,
        timeout: Option<u64>,
        key: Option<(u8, String)>,
        now: i64,
    ) -> Answer {
        if let Some((key, arguments)) = &key
            && let Some((_, used, which)) = self.keys.iter().find(|(used, ..)| used == key)
        {
            if used != arguments {
                return Err("idempotency_key_reused");
            }
            let watch = &mut self.watches[*which];
            return if watch.mission { Ok(None) } else { watch.stand_by(timeout) };
        }
        if self.watches.iter().filter(|watch| watch.is_live()).count() == self.live_max {
            return Err("too_many_timers");
        }
        if let Some((key, arguments)) = key {
            self.keys.push((key, arguments, self.watches.len()));
        }
        let mut watch = Stopwatch { mission, total, ran: 0, hand: Hand::Going { background: false }, seen: now };
        let answer = if mission { Ok(None) } else { watch.stand_by(timeout) };
        self.watches.push(watch);
        answer
    }

    pub fn proceed(&mut self, which: usize, ask: &Continue) -> Answer {
        let watch = self.live(which)?;
        match (watch.mission, ask.reason, ask.mission) {
            (_, true, true) => return Err("reason_and_mission"),
            (true, true, false) => return Err("mission_takes_no_reason"),
            (false, false, true) => return Err("waiting_takes_no_mission"),
            _ => {}
        }
        if let Some(left) = ask.total {
            watch.total = watch.ran + left;
        }
        // A mission is waited for only by a call that asks for just that.
        if watch.mission && (ask.mission || ask.timeout.is_none()) {
            return Ok(None);
        }
        watch.stand_by(ask.timeout)
    }

    pub fn cancel(&mut self, which: usize) -> Answer {
        let watch = self.live(which)?;
        if let Hand::Going { background } | Hand::Resting { background, .. } = &mut watch.hand {
            *background = true;
        }
        Ok(None)
    }

    pub fn pause(&mut self, which: usize, length: u64, now: i64) -> Answer {
        let watch = self.live(which)?;
        if let Hand::Going { background } | Hand::Resting { background, .. } = watch.hand {
            watch.hand = Hand::Resting { until: now + length as i64, background };
        }
        Ok(None)
    }

    pub fn resume(&mut self, which: usize) -> Answer {
        let watch = self.live(which)?;
        let Hand::Resting { background, .. } = watch.hand else { return Err("not_paused") };
        watch.hand = Hand::Going { background };
        Ok(None)
    }

    pub fn stop(&mut self, which: usize) -> Answer {
        self.live(which)?.hand = Hand::Halted;
        Ok(None)
    }

    pub fn look(&self, which: usize) -> Answer {
        self.watches.get(which).map(|_| None).ok_or("unknown_timer")
    }

    pub fn close(&mut self) -> Answer {
        if self.watches.is_empty() {
            return Err("unknown_session");
        }
        self.watches.iter_mut().filter(|watch| watch.is_live()).for_each(|watch| watch.hand = Hand::Halted);
        Ok(None)
    }

    fn live(&mut self, which: usize) -> Result<&mut Stopwatch, &'static str> {
        let watch = self.watches.get_mut(which).ok_or("unknown_timer")?;
        if watch.is_live() { Ok(watch) } else { Err("timer_ended") }
    }
}
