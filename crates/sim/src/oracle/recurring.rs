//! What recurs, as the documents have it: each time is told under its number or counted as missed, none twice, none before
//! its moment, and the next one lies a whole number of intervals after the last.

use super::{Charges, Rule};
use serde_json::Value;

/// Of times missed at once, so many are told.
const TOLD_MAX: i64 = 50;

/// As it was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub interval: i64,
    pub max: i64,
    pub catch_up: String,
}

pub struct Recurring {
    asked: Asked,
    fires: i64,
    /// The last time that passed, told or not.
    last: Option<i64>,
    /// In the commit that is looked at.
    told: i64,
    missed: i64,
}

impl Asked {
    pub fn read(arguments: &Value) -> Option<Self> {
        let interval = arguments["every"].as_i64()? * 1000;
        let catch_up = arguments["catch_up"].as_str().unwrap_or("latest").to_owned();
        Some(Self { interval, max: arguments["max_fires"].as_i64()?, catch_up })
    }
}

impl Recurring {
    pub fn new(asked: Asked) -> Self {
        Self { asked, fires: 0, last: None, told: 0, missed: 0 }
    }

    pub fn interval(&self) -> i64 {
        self.asked.interval
    }

    /// Some of its times pass in the commit that is looked at.
    pub fn passes(&self) -> bool {
        self.told + self.missed > 0
    }

    pub fn is_over(&self) -> bool {
        self.fires >= self.asked.max
    }

    /// Counting goes on from then with so much left; but nothing that passed comes again.
    pub fn again(&self, from: i64, left: i64) -> i64 {
        let last = self.last.filter(|last| *last >= from);
        last.map_or(from + left, |last| (from + left).max(last + self.asked.interval))
    }

    pub fn missed(&mut self, data: &Value) {
        self.missed += data["missed"].as_i64().unwrap_or(0);
    }

    /// One time was told; the first that had not passed before was `first`.
    pub fn fired(&mut self, id: &str, first: i64, data: &Value, at: i64, charges: &mut Charges) {
        let due = data["due"].as_i64().unwrap_or(i64::MAX);
        charges.unless(at >= due, Rule::Early, || format!("{id} fired at {at}, {} ms early", due - at));
        let fits = due >= first && (due - first) % self.asked.interval == 0;
        charges.unless(fits, Rule::Wrong, || format!("{id} fired for {due}, which is no time of it after {first}"));
        (self.fires, self.told) = (self.fires + 1, self.told + 1);
        let (number, wanted) = (data["fire"].as_i64(), self.fires);
        charges.unless(number == Some(wanted), Rule::Twice, || format!("{id} fired as {number:?}, not as {wanted}"));
        charges.unless(self.fires <= self.asked.max, Rule::Limit, || format!("{id} fired {wanted} times"));
    }

    /// The commit is over: what passed in it was told or counted, all of it. When the next time comes, if anything passed.
    pub fn passed(&mut self, id: &str, first: i64, at: i64, charges: &mut Charges) -> Option<(i64, bool)> {
        let (told, missed) = (std::mem::take(&mut self.told), std::mem::take(&mut self.missed));
        if told + missed == 0 {
            return None;
        }
        let (interval, catch_up) = (self.asked.interval, self.asked.catch_up.as_str());
        let passed = (at - first) / interval + 1;
        charges.unless(told + missed == passed, Rule::Lost, || {
            format!("of {passed} times of {id}, {told} were told and {missed} missed")
        });
        let fits = match catch_up {
            "skip" => told <= 1,
            "latest" => told == 1,
            _ => told == passed.min(TOLD_MAX).min(self.asked.max - (self.fires - told)),
        };
        charges.unless(fits, Rule::Wrong, || format!("{id} told {told} of {passed} times, by `{catch_up}`"));
        self.last = Some(first + (passed - 1) * interval);
        Some((first + passed * interval, told > 0))
    }
}
